/* SPDX-License-Identifier: MIT */
/* Programs that event objects are tried on: children of the test, with the test's own addresses. */
#ifndef RECORD_PERF_TESTING_FIXTURE_H
#define RECORD_PERF_TESTING_FIXTURE_H

#include "record/perf/object.h"

#include <stdint.h>
#include <sys/types.h>

#define BED_WORDS 8

/* The watched words; each process has its own. */
extern volatile uint64_t words[BED_WORDS];

/* Shared by the test and its child. All are read and written atomically. */
struct fixture_shared {
	unsigned int step;     /* the test sets it: continue to this step */
	unsigned int ready;    /* the child's threads: so many have come to where they wait */
	unsigned int started;  /* threads that were started at all */
	unsigned int ended;    /* of these, that are through */
	unsigned int starters; /* that start no more */
	unsigned int hits;     /* SIGTRAPs that were ours */
	unsigned int strange;  /* signals that were not as they should be */
	uint64_t written;      /* stores to words[0] that were made */
	uint64_t data;	       /* sig_data of the last */
	uint64_t address;      /* si_addr of the last */
};

struct fixture {
	pid_t pid;
	struct fixture_shared *shared;
};

/*
 * Of the child's stores to what is watched: threads race there as many programs do, which is no
 * news for ThreadSanitizer.
 */
#define BED_STORES __attribute__((noinline, no_sanitize("thread")))

/* For tests that count the child's threads: ThreadSanitizer has one of its own in it. */
#ifdef __SANITIZE_THREAD__
#define fixture_need_own_threads() cr_skip_test("ThreadSanitizer's own thread would be counted")
#else
#define fixture_need_own_threads() (void)0
#endif

/* Start a child that runs main(shared) and ends. fixture_end() kills it if it has not. */
void fixture_start(struct fixture *fixture, void (*main)(struct fixture_shared *));
void fixture_end(struct fixture *fixture);

/* Wait until `ready` is at least `count`. Fails the test when that never happens. */
void fixture_wait(const struct fixture *fixture, unsigned int count);

/*
 * The test's side: let the child's threads continue to the step, and wait until `ready` of them are
 * there.
 */
void fixture_step(const struct fixture *fixture, unsigned int step, unsigned int ready);

/* The child's side: say that we are here, and wait for the step. */
void fixture_meet(struct fixture_shared *shared, unsigned int step);

/* The child's side: threads with small stacks. */
void fixture_threads(unsigned int count, void *(*run)(void *), void *data);

/* The child's side: count SIGTRAPs of perf events in `shared`. */
void fixture_catch(struct fixture_shared *shared);

/* A request of `count` sources: stores to words[0] and on, of 8 bytes. */
void fixture_request(struct event_request *request, struct event_source sources[EVENT_SOURCES_MAX],
		     enum event_scope scope, pid_t pid, unsigned int count);

/* Arm it; the test fails with the error's words where it can't. */
struct perf_object *fixture_arm(const struct event_request *request);

/* The kernel's count. */
uint64_t fixture_count(struct perf_object *object, unsigned int source);

/* How many descriptors this process has open. */
unsigned int fixture_descriptors(void);

/* Become an ordinary user if we are root; and root again if we were. */
void fixture_become_ordinary(void);
void fixture_become_root(void);

/*
 * Skips the test unless WAYMARK_TEST_CPUS is set: a breakpoint of a CPU is in the way of
 * everybody's, so tests that run beside it would be refused.
 */
void fixture_need_cpus(void);

/* Skips the test where the kernel refuses breakpoints, or other tools hold registers. */
void fixture_need_registers(void);

/* The same, and where no store fires a breakpoint. */
void fixture_need_breakpoints(void);

/* Skips the test where a trial of what the request needs did not work. fixture_arm() calls it. */
void fixture_need_trials(const struct event_request *request);

#endif
