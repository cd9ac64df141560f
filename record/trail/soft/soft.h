/* SPDX-License-Identifier: MIT */
/*
 * The origin `soft`: an engine inside of the process runs its program as translated code, which
 * logs its blocks (engine/, abi/engine.h); this part reads the log.
 *
 * ptrace(2) is used only while the engine enters the process. When the tool ends, the process
 * continues. All calls come from one thread. The functions are those of tracing.h, with the same
 * promises.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_H
#define RECORD_TRAIL_SOFT_SOFT_H

#include "record/trail/sink.h"
#include "record/trail/soft/native.h"

#include <stddef.h>
#include <stdint.h>

struct soft;

struct soft_options {
	const char *engine;  /* its file; NULL: the one that is installed */
	uint64_t last_bytes; /* keep the newest, about so much of a store; 0: all */
	/*
	 * children as well, and what they execute; those of a program that ran before are counted
	 * alone
	 */
	int follows;
};

struct soft_result {
	uint64_t blocks, losses;
	uint64_t words;	      /* that encoded these blocks */
	uint64_t overwritten; /* blocks before them, in a flight recorder's rings */
	uint64_t traces, translated_blocks, flushes, faults; /* the engine's own figures */
	/* processes that went on unrecorded, as there were too many, or it could not be */
	uint64_t unfollowed;
	uint64_t privileged; /* the same, for they executed a program that gains privileges */
	struct natives natives;
	uint32_t lost_threads; /* that found no room, and ran unrecorded */
	int is_over;	       /* the program has ended */
	int status;	       /* then: as wait(2) has it; 0 where that is unknown */
	pid_t killed_tid;      /* the thread whose signal killed it; 0: not known */
	int is_foreign;	       /* it executed a program that is not x86-64 */
	char detail[160];      /* of what was recorded with losses, or "" */
};

/*
 * Take a program that is another process's child: that process forks one that calls soft_become()
 * (soft_launch.h) with one end of a socket pair (SOCK_STREAM), and does not return; the other end
 * is `gate`. It is not closed here. detail[bytes]: more about an error, or "".
 */
int soft_take(struct soft **soft, struct trail_sink *sink, const struct soft_options *options,
	      pid_t pid, int gate, char *detail, size_t bytes);

/* The same for a running process: all its threads are stopped then. */
int soft_attach(struct soft **soft, struct trail_sink *sink, const struct soft_options *options,
		pid_t pid, char *detail, size_t bytes);

/*
 * Let it run, for about that long at most. 1 while it lives, 0 when it is over, or a negative
 * error.
 */
int soft_run(struct soft *soft, unsigned int for_ms);

/* Put all that it wrote by now, also of segments that are not full. 0 or a negative error. */
int soft_fetch(struct soft *soft);

void soft_result(const struct soft *soft, struct soft_result *result);

/*
 * Have the engine give the process back to its own code, within about that long, and write what is
 * left. An error is of the writing.
 */
int soft_let_go(struct soft *soft, unsigned int for_ms);

/*
 * Of one that soft_attach() has taken and that was let go: get what is ours out of it, for about
 * that long. 1: something is left, for a thread does not come out.
 */
int soft_rid(struct soft *soft, unsigned int for_ms);

/* As that, and release. NULL is allowed. */
int soft_close(struct soft *soft);

#endif
