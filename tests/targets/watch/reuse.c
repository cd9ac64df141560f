/* SPDX-License-Identifier: MIT */
/* Loads a library in another one's place while a thread has variables of both. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void (*volatile count)(void);
static volatile int done;
static void *body(void *data)
{
	printf("tid %d\n", gettid());
	count();
	done = 1;
	while (done != 2)
		usleep(1000);
	while (usleep(1000), done == 2)
		;
	for (int i = 0; i < 3; i++)
		count();
	done = 4;
	while (usleep(1000), done == 4)
		;
	for (int i = 0; i < 3; i++)
		count();
	return data;
}
int main(void)
{
	void *first = dlopen("./library.so", RTLD_NOW);
	pthread_t thread;
	char line[8];
	setvbuf(stdout, NULL, _IOLBF, 0);
	count = (void (*)(void))dlsym(first, "library_write");
	pthread_create(&thread, NULL, body, NULL);
	while (!done)
		usleep(1000);
	dlclose(first);
	count = (void (*)(void))dlsym(dlopen("./another.so", RTLD_NOW), "library_write");
	done = 2;
	puts("ready");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	done = 3;
	while (done != 4)
		usleep(1000);
	puts("used");
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	done = 5;
	pthread_join(thread, NULL);
	return 0;
}
