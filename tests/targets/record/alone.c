/* SPDX-License-Identifier: MIT */
/*
 * Calls a function each millisecond for a minute; with an argument in a thread, and the first
 * thread ends.
 */
#include <pthread.h>
#include <unistd.h>

__attribute__((noinline)) int called(int value)
{
	__asm__ volatile("" : "+r"(value));
	return value * 3 + 1;
}

static void *run(void *data)
{
	for (int i = 0; i < 60000; i++) {
		if (called(i) != i * 3 + 1)
			_exit(1);
		usleep(1000);
	}
	return data;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	if (count < 2)
		return run(arguments) == NULL;
	pthread_create(&thread, NULL, run, NULL);
	pthread_exit(NULL);
}
