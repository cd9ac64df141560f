/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile long word;
static void *store(void *data)
{
	for (long i = 0; i < 100; i++)
		word = i;
	return data;
}
int main(void)
{
	pthread_t other;

	printf("%d %p\n", (int)getpid(), (void *)&word);
	fflush(stdout);
	getchar();
	pthread_create(&other, NULL, store, NULL);
	store(NULL);
	pthread_join(other, NULL);
	return 0;
}
