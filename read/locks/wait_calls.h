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

#define WAIT_NO_WAKER UINT32_MAX

struct wait_call {
	const char *function, *comm;
	uint64_t begin_ns, end_ns; /* the wall clock */
	uint32_t process;	   /* of the trace's facts: whose address it is */
	uint32_t pid, tid, stack;
	uint32_t thread, waker; /* of the samples' threads */
	uint8_t has_fd;
	uint8_t lock_bytes; /* of a lock's type; 0: it waits for no lock */
	uint64_t object;    /* the address of the lock, or a descriptor */
};

/* Calls of one function and object, by threads of one name with one stack. */
struct wait_call_row {
	const char *function, *comm;
	uint32_t stack;	  /* of the samples'; the innermost is the function */
	uint32_t process; /* of the trace's facts: whose address it is */
	uint8_t has_fd;
	uint8_t lock_bytes;
	uint64_t object;
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

/* Of a thread's calls within these times, the longest; NULL: none. After wait_calls_finish(). */
const struct wait_call *wait_calls_longest(const struct wait_calls *calls, uint32_t pid,
					   uint32_t tid, uint64_t from_ns, uint64_t to_ns);
void wait_calls_release(struct wait_calls *calls);

/* The specs whose events it takes: waymark record --waits. */
#define WAIT_SPECS 35
extern const char *const wait_specs[WAIT_SPECS];
