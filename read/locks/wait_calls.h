/* SPDX-License-Identifier: MIT */
/*
 * Calls of the C library in which threads waited, by the events of wait_specs[]: one for each call
 * that took longer than a microsecond, at its end. It takes what is there of them.
 *
 * A call that lets a lock go, as pthread_mutex_unlock(), takes so long where it wakes a thread. The
 * waker of a wait is the thread that last began such a call for the same address before the wait
 * ended. One thread at a time uses it.
 */
#pragma once

#include "read/history/samples.h"
#include "read/pass/merge.h"

#include <stddef.h>
#include <stdint.h>

/* Calls of one function and object, by threads of one name with one stack. */
struct wait_call_row {
	const char *function, *comm;
	uint32_t stack;	  /* of the samples'; the innermost is the function */
	uint32_t process; /* of the trace's facts: whose address it is */
	uint8_t has_fd;
	uint8_t lock_bytes; /* of a lock's type; 0: it is none */
	uint64_t object;    /* the address of a lock, or a descriptor */
	uint64_t count, ns, longest_ns;
	uint64_t last_ns; /* the wall clock when the last of them ended */
	/* the thread that ended most of the time, so much; NULL: not known */
	const char *waker_comm;
	uint32_t waker; /* of the samples' threads */
	uint64_t waker_ns;
};

struct wait_calls {
	struct pass_observer observer;
	struct samples *samples;    /* the caller's */
	struct wait_call_row *rows; /* after wait_calls_finish() */
	size_t count;
	struct wait_calls_reading *reading;
};

/* Whether the trace has such events. */
int wait_calls_has(const struct trace_reader *reader);

/* Begin to observe a pass. The samples must live longer. 0 or -ENOMEM; release in any case. */
int wait_calls_open(struct wait_calls *calls, struct samples *samples);

/* The pass is over. 0 or -ENOMEM. */
int wait_calls_finish(struct wait_calls *calls);
void wait_calls_release(struct wait_calls *calls);

/* The specs whose events it takes: waymark record --waits. */
#define WAIT_SPECS 35
extern const char *const wait_specs[WAIT_SPECS];
