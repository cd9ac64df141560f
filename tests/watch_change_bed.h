/* SPDX-License-Identifier: MIT */
/*
 * The fixture of watch_change.c: the program whose variables are watched, a child of the test;
 * sessions on it; and their records. Failures are reported as in failures.h.
 */
#ifndef WATCH_CHANGE_BED_H
#define WATCH_CHANGE_BED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/session.h>

#define THREADS 4
#define STORES 5
#define EACH ((size_t)THREADS * STORES)
#define HITS_MAX 2000000

/* ---- the program ---- */

/* Seen by the child and by us. */
struct shared {
	unsigned int step, ready, running;
	uint64_t stores; /* to all variables, once each */
	void *alone;	 /* a page that only this child has */
};

struct program {
	pid_t pid;
	struct shared *shared;
};

/*
 * What a program does. The threads of writers() store at each step, and for as long as it is
 * running.
 */
void writers(void);
void writers_alone(void); /* and has shared.alone */
void forker(void);	  /* at each step a child does it */

void begin(struct program *program, void (*run)(void));

/* Each thread makes STORES stores to each variable. */
void go(const struct program *program);

/* Each thread stores without a pause, until shared.running is 0. */
void run_on(const struct program *program);

/*
 * While it runs on: until it has begun and ended stores to all variables since. However busy the
 * machine is, they are there then.
 */
void wait_stored(const struct program *program);

void wait_ready(const struct program *program);
void end(const struct program *program);

/* ---- what was read ---- */

struct hit {
	char name[32];
	uint32_t pid;
	uint64_t old, value, how;
	int has_value;
};

extern struct hit hits[HITS_MAX];
extern size_t hit_count;

/* Fails unless a call answers as wanted. */
void answers(struct wm_session *session, const char *what, int got, int wanted);

/* All that there is by now goes to hits[], behind what it has. */
void read_on(struct wm_session *session);

/* Into hits[], until there are so many, or a second is over: then all that there is. */
void take(struct wm_session *session, size_t wanted);

/* hits[] are all of one name; by value in turn, each with the one before as what it was. */
void check(const char *what, const char *name, uint64_t first, size_t count);

/* ---- sessions ---- */

/*
 * Of `spec` and, unless NULL, `beside`, started on all programs; into `dir`, unless NULL. Where
 * none can be had it ends the test.
 */
struct wm_session *open_on(const char *spec, const char *beside, const struct program *programs,
			   int count, const char *dir);

/* As it is to be, with the program stopped; returns the generation. */
uint64_t change(struct wm_session *session, const char *from, const char *to);

#endif
