/* SPDX-License-Identifier: MIT */
/*
 * How the stepper (stepper.h) records another process: by single steps (step.h), by hardware
 * (hardware.h), or by an engine in it (soft.h). The functions promise what step.h's do.
 */
#ifndef RECORD_TRAIL_TRACING_H
#define RECORD_TRAIL_TRACING_H

#include "record/trail/only.h"
#include "record/trail/origin.h"
#include "record/trail/sink.h"
#include "record/trail/step/step.h"

#include <sys/wait.h>

#define TRACING_DETAIL_BYTES 400

/* How a process is to be recorded. Zeroed but for the origin: on this machine. */
struct tracing_how {
	enum origin origin;
	struct origin_machine machine;
	int follows;		       /* and children as well: ORIGIN_STEP and ORIGIN_SOFT do it */
	int has_kernel;		       /* of hardware: the kernel's branches too */
	char **environment;	       /* that a program is started with; NULL: ours */
	const struct only_names *only; /* NULL, or none: of all modules */
	/* NULL: none; ORIGIN_STEP alone needs to know of them */
	const struct step_watches *watches;
	/* of a flight recorder, which is read at a fetch or at the end; 0: read all as it comes */
	uint64_t last_bytes;
};

struct tracing;

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
	void (*result)(struct tracing *tracing, struct step_result *result, char *detail);
};

/* If only the process itself is known to have ended, as wait(2) has reported. */
static inline void tracing_ended(struct step_result *result, pid_t pid, int status)
{
	result->is_over = 1;
	result->status = status;
	result->killed_tid = WIFSIGNALED(status) ? pid : 0;
	result->killed_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

extern const struct tracing_calls tracing_step, tracing_soft, tracing_hardware;

static inline const struct tracing_calls *tracing_calls_of(enum origin origin)
{
	if (origin == ORIGIN_SOFT)
		return &tracing_soft;
	return origin == ORIGIN_STEP ? &tracing_step : &tracing_hardware;
}

#endif
