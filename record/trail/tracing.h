/* SPDX-License-Identifier: MIT */
/*
 * How the tracer (tracer.h) records another process: by hardware (hardware.c), or by an engine in
 * it (soft.c).
 */
#ifndef RECORD_TRAIL_TRACING_H
#define RECORD_TRAIL_TRACING_H

#include "abi/engine.h"
#include "record/trail/only.h"
#include "record/trail/origin.h"
#include "record/trail/sink.h"

#include <sys/wait.h>

#define TRACING_DETAIL_BYTES 400

/* How a process is to be recorded. Zeroed but for the origin: on this machine. */
struct tracing_how {
	enum origin origin;
	struct origin_machine machine;
	int follows;		       /* and children as well: ORIGIN_SOFT does it */
	int has_kernel;		       /* of hardware: the kernel's branches too */
	char **environment;	       /* that a program is started with; NULL: ours */
	const struct only_names *only; /* NULL, or none: of all modules */
	/* of a flight recorder, which is read at a fetch or at the end; 0: read all as it comes */
	uint64_t last_bytes;
};

struct tracing;

/*
 * Processes that the engine has recorded, and that went on natively in the middle, by the cause
 * (enum engine_native).
 */
struct natives {
	uint32_t counts[ENGINE_NATIVES];
	int32_t pids[ENGINE_NATIVES];		 /* the first of each; 0: none */
	uint64_t after_ns[ENGINE_NATIVES];	 /* of that: since the recording began */
	uint32_t unfollowed[ENGINE_UNFOLLOWEDS]; /* children that were never recorded */
};

/* What came of it. The first four are of all processes, the rest is of the first. */
struct tracing_result {
	uint64_t words;	      /* of the software engine, which encoded them */
	uint64_t overwritten; /* blocks in its rings, before them */
	uint64_t unfollowed;  /* children that should have been recorded, and could not be */
	uint64_t privileged;  /* that were let go to execute a program that gains privileges */
	struct natives natives;
	int is_over; /* the program has ended */
	int status;  /* then: as wait(2) has it */
	/*
	 * the thread that a signal was given to which ended the program, and that signal; 0: none
	 */
	pid_t killed_tid;
	int killed_by;
	int is_foreign; /* it executed a program that is not x86-64, and was let go there */
};

struct tracing_calls {
	/*
	 * detail[TRACING_DETAIL_BYTES]: more about an error, or what is not as it was asked for; or
	 * "".
	 */
	int (*take)(struct tracing **tracing, struct trail_sink *sink,
		    const struct tracing_how *how, pid_t pid, int gate, char *detail);
	int (*attach)(struct tracing **tracing, struct trail_sink *sink,
		      const struct tracing_how *how, pid_t pid, pid_t only, char *detail);
	int (*run)(struct tracing *tracing, unsigned int for_ms);
	/* How many threads are still to be let go. */
	int (*let_go)(struct tracing *tracing, unsigned int for_ms);
	/* Put what was recorded by now. 0 or an error. NULL: run() does it by itself. */
	int (*fetch)(struct tracing *tracing);
	/* detail: of what was recorded with losses, or "". Not after an error. */
	void (*result)(struct tracing *tracing, struct tracing_result *result, char *detail);
};

/* If only the process itself is known to have ended, as wait(2) has reported. */
static inline void tracing_ended(struct tracing_result *result, pid_t pid, int status)
{
	result->is_over = 1;
	result->status = status;
	result->killed_tid = WIFSIGNALED(status) ? pid : 0;
	result->killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

extern const struct tracing_calls tracing_soft, tracing_hardware;

/* As let_go(), and release; an error is of the writing. NULL is allowed. */
int soft_close(struct tracing *soft);
int hardware_close(struct tracing *hardware);

extern const struct tracing_calls *tracing_oracle; /* of ORIGIN_ORACLE; NULL but in tests */

static inline const struct tracing_calls *tracing_calls_of(enum origin origin)
{
	if (origin == ORIGIN_SOFT)
		return &tracing_soft;
	return origin == ORIGIN_ORACLE ? tracing_oracle : &tracing_hardware;
}

#endif
