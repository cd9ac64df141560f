/* SPDX-License-Identifier: MIT */
/*
 * The origin `step`: a process's threads run one instruction at a time under ptrace(2), and each is
 * written down. Slow (tens of microseconds an instruction) and exact: what the faster origins are
 * tested against.
 *
 * The process needs none of our code; where it has an agent, that one's threads are left alone. All
 * calls come from one thread, which is its tracer: should that end, the kernel lets the process go,
 * perhaps with the trap flag set, and SIGTRAP ends it.
 *
 * Processes that it makes are left alone, or, where the sink takes children (sink.h), are stepped
 * through from their first instruction on, and those that they make: STEP_PROCESSES_MAX at a time.
 * One more is let go, and its trail says so.
 */
#ifndef RECORD_TRAIL_STEP_STEP_H
#define RECORD_TRAIL_STEP_STEP_H

#include "abi/watch.h"
#include "record/trail/sink.h"
#include "record/trail/soft/native.h"

#include <stdint.h>
#include <sys/types.h>

#define STEP_PROCESSES_MAX 256u
#define STEP_WATCHES_MAX 4u

struct step;

/* What came of it. Instructions and blocks are of all processes, the rest is of the first. */
struct step_result {
	uint64_t instructions, blocks;
	uint64_t words;	      /* of the software engine, which encoded them */
	uint64_t overwritten; /* blocks in its rings, before them */
	uint64_t unfollowed;  /* children that should have been stepped through, and could not be */
	uint64_t privileged; /* processes that were let go to execute a program that gains rights */
	struct natives natives;
	/* processes that ignored SIGTRAP, and no longer do, since nothing could be lent them */
	uint64_t untrapped;
	int trap_error; /* why not, of one */
	int is_over;	/* the program has ended */
	int status;	/* then: as wait(2) has it */
	/*
	 * the thread that a signal was given to which ended the program, and that signal; 0: none
	 */
	pid_t killed_tid;
	int killed_by;
	int is_foreign; /* it executed a program that is not x86-64, and was let go there */
};

/* Watches of the process that is stepped (abi/watch.h): each takes a debug register more. */
struct step_watches {
	unsigned int count;
	uint32_t magic;
	struct step_place {
		uint64_t address;
		uint32_t number;   /* whose row it has, and is in its cookie */
		uint8_t bytes, on; /* enum watch_on; WATCH_ON_EXECUTE is reported without us */
	} places[STEP_WATCHES_MAX];
	const struct watch_table *table; /* must live longer, with the rows' gates */
};

/*
 * Take a running process's threads; the trail goes to `sink`, which is the caller's, fresh, and
 * must live longer. 0, or -errno: -EPERM where the process may not be traced. *step is NULL then,
 * and else released with step_close(). `only`: of all its threads this one; 0: all.
 */
int step_attach(struct step **step, struct trail_sink *sink, pid_t pid, pid_t only);

/*
 * The same for a program that is another process's child: that process forks one that calls
 * gate_become() (launch_gate.h) with one end of a socket pair (SOCK_STREAM), and does not return;
 * the other end is `gate`. We do not close it here.
 */
int step_take(struct step **step, struct trail_sink *sink, pid_t pid, int gate);

/* Before it runs: hits of these become the signals that they would be. NULL: no watches. */
void step_watch(struct step *step, const struct step_watches *watches);

/*
 * Let it run, for about that long at most. 1 while it or a child lives, 0 when all are over, or a
 * negative error.
 */
int step_run(struct step *step, unsigned int for_ms);

void step_result(const struct step *step, struct step_result *result);

/*
 * Detach from the process, and write what is left. Returns how many threads could not be stopped
 * for that within the time: they sleep where no signal wakes them, as vfork(2) does. If their
 * tracer ends before a later call has detached them, SIGTRAP ends them. Nothing more is written of
 * them.
 */
int step_let_go(struct step *step, unsigned int for_ms);

/* As that, for two seconds, and release. An error is of the writing. NULL is allowed. */
int step_close(struct step *step);

#endif
