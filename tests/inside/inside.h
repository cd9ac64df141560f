/* SPDX-License-Identifier: MIT */
/*
 * For programs that are recorded while they do what is hard on a tracer. What they print and how
 * they end must not depend on being recorded.
 *
 * Marker arguments are evaluated only while armed, so count_one(), given as an argument, counts
 * what was emitted: into the file that INSIDE_COUNT names, through forks, execs and kills. It must
 * equal what the trace says was recorded and discarded.
 */
#ifndef TESTS_INSIDE_INSIDE_H
#define TESTS_INSIDE_INSIDE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <waymark/marker.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define INSIDE_WORDS 512

/*
 * [0] what was emitted; the last, which program is there to be attached to; the others are the
 * program's own, shared with its children.
 */
static uint64_t *inside_words;

static inline uint64_t count_one(void)
{
	return __atomic_add_fetch(&inside_words[0], 1, __ATOMIC_RELAXED);
}

static inline void want(int right, const char *what)
{
	if (right)
		return;
	printf("wrong: %s (errno %d)\n", what, errno);
	fflush(stdout);
	_exit(99);
}

static inline void sleep_ms(unsigned int ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void inside_map(void)
{
	const char *path = getenv("INSIDE_COUNT");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	inside_words = (uint64_t *)mmap(NULL, INSIDE_WORDS * sizeof *inside_words,
					PROT_READ | PROT_WRITE,
					MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	want((void *)inside_words != MAP_FAILED, "the words mapped");
	if (fd >= 0)
		close(fd);
}

/* Say that the tool may come. */
static inline void inside_ready(void)
{
	__atomic_store_n(&inside_words[INSIDE_WORDS - 1], (uint64_t)getpid(), __ATOMIC_RELEASE);
}

/* To be attached to: wait until armed. Children and what is executed don't wait again. */
static inline void inside_wait(void)
{
	if (!getenv("INSIDE_WAIT"))
		return;
	unsetenv("INSIDE_WAIT");
	inside_ready();
	for (int i = 0; i < 20000 && !__atomic_load_n(&inside_words[0], __ATOMIC_RELAXED); i++) {
		WAYMARK(in, begin, count_one());
		sleep_ms(1);
	}
	sleep_ms(20); /* the rest of the batch */
}

static inline void hits(int count)
{
	for (int i = 0; i < count; i++) {
		WAYMARK(in, fixed, count_one(), i);
		WAYMARK(in, text, count_one(), "a string of some length, past the short ones", i);
	}
}

struct inside_case {
	const char *name;
	int (*run)(void);
};

static char **inside_argv;

static inline int inside_main(int argc, char **argv, const struct inside_case *cases)
{
	inside_argv = argv;
	inside_map();
	for (; argc > 1 && cases->name; cases++) {
		if (!strcmp(cases->name, argv[1])) {
			int status;

			inside_wait();
			status = cases->run();
			printf("%s: %d\n", argv[1], status);
			fflush(stdout);
			return status;
		}
	}
	fprintf(stderr, "no such case\n");
	return 98;
}

#endif
