/* SPDX-License-Identifier: MIT */
/* Programs that event objects are tried on: children of the test, with the test's own addresses. */
#ifndef PERF_BED_TEST_H
#define PERF_BED_TEST_H

#include "perf/object.h"

#include <stdint.h>
#include <sys/types.h>

#define BED_WORDS 8

/* The watched words; each process has its own. */
extern volatile uint64_t words[BED_WORDS];

/* Shared by the test and its child. All are read and written atomically. */
struct bed_shared {
	unsigned int step;	  /* the test sets it: continue to this step */
	unsigned int ready;	  /* the child's threads: so many have come to where they wait */
	unsigned int started;	  /* threads that were started at all */
	unsigned int ended;	  /* of these, that are through */
	unsigned int starters;	  /* that start no more */
	unsigned int hits;	  /* SIGTRAPs that were ours */
	unsigned int strange;	  /* signals that were not as they should be */
	uint64_t written;	  /* stores to words[0] that were made */
	uint64_t data;		  /* sig_data of the last */
	uint64_t address;	  /* si_addr of the last */
	unsigned int rounds[256]; /* signals by round */
};

struct bed {
	pid_t pid;
	struct bed_shared *shared;
};

/*
 * Of the child's stores to what is watched: threads race there as many programs do, which is no news for ThreadSanitizer.
 */
#define BED_STORES __attribute__((noinline, no_sanitize("thread")))

/* For tests that count the child's threads: ThreadSanitizer has one of its own in it. */
#ifdef __SANITIZE_THREAD__
#define bed_need_own_threads() cr_skip_test("ThreadSanitizer's own thread would be counted")
#else
#define bed_need_own_threads() (void)0
#endif

/* Start a child that runs main(shared) and ends. bed_end() kills it if it has not. */
void bed_start(struct bed *bed, void (*main)(struct bed_shared *));
void bed_end(struct bed *bed);

/* Wait until `ready` is at least `count`. Fails the test when that never happens. */
void bed_wait(const struct bed *bed, unsigned int count);

/*
 * The test's side: let the child's threads continue to the step, and wait until `ready` of them are
 * there.
 */
void bed_step(const struct bed *bed, unsigned int step, unsigned int ready);

/* The child's side: say that we are here, and wait for the step. */
void bed_meet(struct bed_shared *shared, unsigned int step);

/* The child's side: threads with small stacks. */
void bed_threads(unsigned int count, void *(*run)(void *), void *data);

/* The child's side: count SIGTRAPs of perf events in `shared`. */
void bed_catch(struct bed_shared *shared);

/* A request of `count` sources: stores to words[0] and on, of 8 bytes. */
void bed_request(struct event_request *request, struct event_source sources[EVENT_SOURCES_MAX],
		 enum event_scope scope, pid_t pid, unsigned int count);

/* Arm it; the test fails with the error's words where it can't. */
struct event_object *bed_arm(const struct event_request *request);

/* The kernel's count. */
uint64_t bed_count(struct event_object *object, unsigned int source);

/* How many descriptors this process has open. */
unsigned int bed_descriptors(void);

/* Become an ordinary user if we are root; and root again if we were. */
void bed_become_ordinary(void);
void bed_become_root(void);

/*
 * Skips the test unless WAYMARK_TEST_CPUS is set: a breakpoint of a CPU is in the way of everybody's, so tests that
 * run beside it would be refused.
 */
void bed_need_cpus(void);

/* Skips the test where the kernel refuses breakpoints, or other tools hold registers. */
void bed_need_registers(void);

/* The same, and where no store fires a breakpoint. */
void bed_need_breakpoints(void);

/* Skips the test where a trial of what the request needs did not work. bed_arm() calls it. */
void bed_need_trials(const struct event_request *request);

#endif
