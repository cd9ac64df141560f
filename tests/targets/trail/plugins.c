/* SPDX-License-Identifier: MIT */
/*
 * Does what its arguments say, in turn:
 *
 *	FILE.so   load it, have main and another thread call its work() five times each, unload it
 *	FROM:TO   rename a file
 *	fork      a child does the rest; the parent waits for it
 *
 * and prints whether all were at one address. With -DNAME=one: such a library.
 */
#ifdef NAME
__attribute__((noinline)) static int NAME(int n)
{
	volatile int sum = SIZE;

	for (int i = 0; i < n * SIZE; i++)
		sum += i;
	return sum;
}

int work(int n)
{
	return NAME(n) + 1;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*work)(int);
static sem_t go, done;
static uintptr_t first;
static int is_same = 1;

static void calls(void)
{
	for (int i = 0; i < 5; i++)
		work(i);
}

static void *other(void *unused)
{
	for (;;) {
		sem_wait(&go);
		if (!work)
			return unused;
		calls();
		sem_post(&done);
	}
}

static void use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	uintptr_t at;

	*(void **)&work = library ? dlsym(library, "work") : NULL;
	if (!work) {
		puts(dlerror());
		exit(1);
	}
	at = (uintptr_t)work / 4096;
	is_same &= !first || at == first;
	first = at;
	calls();
	sem_post(&go);
	sem_wait(&done);
	dlclose(library);
}

int main(int count, char **args)
{
	pthread_t thread;

	sem_init(&go, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&thread, NULL, other, NULL);
	for (int i = 1; i < count; i++) {
		char *to = strchr(args[i], ':');

		if (to) {
			*to++ = 0;
			rename(args[i], to);
		} else if (strcmp(args[i], "fork") != 0) {
			use(args[i]);
		} else if (fork()) {
			wait(NULL);
			return 0;
		} else {
			pthread_create(&thread, NULL, other, NULL);
		}
	}
	work = NULL;
	sem_post(&go);
	pthread_join(thread, NULL);
	puts(is_same ? "at one address" : "apart");
	return 0;
}
#endif
