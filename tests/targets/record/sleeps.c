/* SPDX-License-Identifier: MIT */
/*
 * Sleeps for two seconds; with an argument in a thread, whose process has no first thread any
 * more.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *sleep_on(void *unused)
{
	sleep(2);
	exit(0);
	return unused;
}

int main(int count, char **arguments)
{
	pthread_t thread;

	if (count < 2 || !arguments[1])
		return (int)sleep(2);
	if (pthread_create(&thread, NULL, sleep_on, NULL))
		return 1;
	pthread_exit(NULL);
}
