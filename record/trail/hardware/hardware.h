/* SPDX-License-Identifier: MIT */
/*
 * The origins that hardware gives: pt and bts (origin.h). The kernel stores for each thread of a
 * process which way it went, and what was stored is drained and woven (pt.h, bts.h) into the sink.
 *
 * The process runs at its own speed, none of our code in it. ptrace(2) holds its threads where one
 * begins, executes another program or ends, so that none is missed; all calls come from one thread,
 * which is their tracer. The functions are those of tracing.h.
 *
 * The mapped files show which code ran; where there is no file, memory does. Code that is changed
 * while it is recorded can't be distinguished from the earlier code: contradictions are TRAIL_LOST.
 *
 * The kernel's code is read from /proc/kcore (kernel_codes.h). Where that can't be done the kernel
 * is not recorded, its part is a TRAIL_GAP, and the result's detail says why.
 */
#ifndef RECORD_TRAIL_HARDWARE_HARDWARE_H
#define RECORD_TRAIL_HARDWARE_HARDWARE_H

#include "record/trail/origin.h"
#include "record/trail/sink.h"

#define HARDWARE_BUFFER_DEFAULT (UINT64_C(4) << 20)
#define HARDWARE_HELD_DEFAULT (UINT64_C(256) << 20)
#define HARDWARE_BUFFER_MIN                                                                        \
	(UINT64_C(16) << 10) /* where memory is refused, a buffer gets no smaller */

struct hardware;

struct hardware_options {
	/*
	 * Of each thread, a power of two of pages; 0: HARDWARE_BUFFER_DEFAULT. Where the kernel has
	 * not so much for us, half of it is tried, and so on; the result's detail says so.
	 */
	uint64_t buffer_bytes;
	/* of Intel PT's packets, before they are decoded; 0: HARDWARE_HELD_DEFAULT */
	uint64_t held_bytes;
	int has_kernel;	  /* the kernel's branches too */
	int keeps_newest; /* only what is in the buffer at the end. Else all, or TRAIL_LOST */
	struct origin_machine machine;
};

struct hardware_result {
	uint64_t blocks, losses;
	uint64_t errors; /* of decoding; each is a TRAIL_LOST */
	/*
	 * the first of them, why a thread was not recorded, what else is not as was asked for; "":
	 * nothing
	 */
	char detail[400];
	unsigned int unrecorded; /* threads: there was no buffer for them */
	int is_over;		 /* the program has ended */
	int status;		 /* then: as wait(2) has it */
};

/*
 * Take a running process's threads, by `origin`. A negative error also where the machine or its
 * permissions don't give it: detail[bytes] then says more, or is "". `options` may be NULL.
 */
int hardware_attach(struct hardware **hardware, struct trail_sink *sink, enum origin origin,
		    const struct hardware_options *options, pid_t pid, pid_t only, char *detail,
		    size_t bytes);

/* The same of a program that is another process's child: as soft_take(). */
int hardware_take(struct hardware **hardware, struct trail_sink *sink, enum origin origin,
		  const struct hardware_options *options, pid_t pid, int gate, char *detail,
		  size_t bytes);

/* The present size of its threads' buffers: locked bytes, and descriptors. */
void hardware_holds(const struct hardware *hardware, uint64_t *bytes, uint64_t *descriptors);

/*
 * Let it run, for about that long at most. 1 while it lives, 0 when it is over, or a negative
 * error.
 */
int hardware_run(struct hardware *hardware, unsigned int for_ms);

void hardware_result(const struct hardware *hardware, struct hardware_result *result);

/* Let the process continue without us, and write what is left. An error is of the writing. */
int hardware_let_go(struct hardware *hardware);

/* The same, and release. NULL is allowed. */
int hardware_close(struct hardware *hardware);

#endif
