/* SPDX-License-Identifier: MIT */
/*
 * threads [LIBRARY]: three threads write variables of their own when a line is read; then others
 * get their memory, and do so too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread unsigned long own;
static __thread struct {
	int x, y;
} pair;
static volatile int shared;
static unsigned long *volatile of_second;
static void (*library_write)(void);
static volatile int goes, ends, next_runs;

static void write_all(int sign)
{
	for (int i = 0; i < 20; i++) {
		own = own + 1;
		__asm__ volatile("" : : "r"(&own), "r"(&pair) : "memory");
		pair.y = sign * (i + 1);
		__asm__ volatile("" : : "r"(&pair) : "memory");
		if (library_write)
			library_write();
	}
}

static void *body(void *data)
{
	if (data) {
		if (library_write)
			library_write();
		printf("tid %d\n", gettid());
		of_second = &own;
	}
	while (!goes)
		usleep(1000);
	write_all(1);
	while (!ends)
		usleep(1000);
	return NULL;
}

/* All three at once, so that all memory that was left is used again. */
static void *next(void *data)
{
	next_runs++;
	while (next_runs < 3)
		usleep(100);
	write_all(-1);
	return data;
}

static void start(pthread_t *all, void *(*run)(void *))
{
	for (int i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, run, i == 1 ? all : NULL);
}

int main(int argc, char **argv)
{
	pthread_t all[3], more[3];
	char line[80];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		library_write = (void (*)(void))dlsym(dlopen(argv[1], RTLD_NOW), "library_write");
	start(all, body);
	while (!of_second)
		usleep(1000);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		goes = 1;
		write_all(1);
		*of_second = 1000;
		usleep(200000);
		ends = 1;
		for (int i = 0; i < 3; i++)
			pthread_join(all[i], NULL);
		start(more, next);
		for (int i = 0; i < 3; i++)
			pthread_join(more[i], NULL);
		shared++;
		usleep(300000);
		puts("right");
		return 0;
	}
	return 1;
}
