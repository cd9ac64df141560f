/* SPDX-License-Identifier: MIT */
/*
 * Programs that trails' tests start, and what is asked of a trail. Each fails the test where it
 * can't.
 */
#ifndef RECORD_TRAIL_TESTING_SUBJECT_H
#define RECORD_TRAIL_TESTING_SUBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/trail.h>

#define SMALL 32768u
#define WAIT_MS 110000
#define TURNS 7000 /* of trails.S */
#define CROWD 30   /* likewise */

extern struct wm_trail *trail; /* the test's one; closed by subject_end() */
extern pid_t child;	       /* of the test, ended by subject_end() */

void subject_end(void);

/*
 * The options, or the default ones, with the oracle (testing/step/step.h) if they name no origin
 * and the test has no engine. Static, until the next call.
 */
const struct wm_trail_options *subject_by_steps(const struct wm_trail_options *options);

/*
 * Start a program in a mode, subject_by_steps(). `options` may be NULL. subject_launch(): of
 * trails.S.
 */
void subject_launch_of(const char *program, const char *mode,
		       const struct wm_trail_options *options);
void subject_launch(const char *mode, const struct wm_trail_options *options);

/* Wait for its end: its status as wait(2) has it. */
int subject_ended(void);

/*
 * The processor time that a process has had, in ticks. Fails the test when there is no such
 * process.
 */
uint64_t subject_ticks(pid_t pid);

/* Wait until a process that computes has run on. Fails the test when it does not. */
void subject_runs_on(pid_t pid);

struct wm_branch subject_get(uint64_t index);
struct wm_trail_status subject_status(void);
uint64_t subject_address(const char *program, const char *name);

/* What wm_trail_read() gave; 42 ends it at `most`. Free `all`. */
struct subject_drained {
	struct wm_branch *all;
	size_t count, room, most;
};

int subject_keep(const struct wm_branch *branch, void *data);
void subject_same(const struct wm_branch *a, const struct wm_branch *b);

#endif
