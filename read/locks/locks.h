/* SPDX-License-Identifier: MIT */
/*
 * Who held a mutex while others waited for it: from probes of the C library's functions, in a pass
 * over a trace. lock_specs[] are what it is made of; it takes what is there of them.
 *
 * A thread waits from the begin of pthread_mutex_lock() to its end, as far as another one holds the
 * mutex: from the end of its own call to the begin of pthread_mutex_unlock(), or of a wait for a
 * condition. The time from that until the waiter has the mutex counts to the last holder. A mutex
 * is known by its address. One thread.
 */
#ifndef READ_LOCKS_LOCKS_H
#define READ_LOCKS_LOCKS_H

#include "base/slots.h"
#include "read/pass/merge.h"

#include <stddef.h>
#include <stdint.h>

/* What a thread waited for of one that held a mutex, taken at one place. */
struct lock_row {
	uint64_t mutex;		      /* its address */
	uint32_t process;	      /* of the trace's facts: whose address it is */
	uint32_t pid, waiter, holder; /* the process, and threads */
	uint64_t place;		      /* where the holder's call returns to; 0: unknown */
	uint64_t last_ns;	      /* the wall clock when the last of it ended */
	uint64_t waits, waited_ns, longest_ns;
	uint64_t holds, held_ns; /* that it waited for, whole, where their begin is known */
};

struct locks {
	struct pass_observer observer;
	struct lock_row *rows; /* after locks_finish(): what was waited for longest first */
	size_t count, room;
	struct locks_reading *reading;
};

/* Whether the trace has calls of pthread_mutex_lock(), with the mutex. */
int locks_has(const struct trace_reader *reader);

/* Begin to observe a pass. 0 or -ENOMEM; release in any case. */
int locks_open(struct locks *locks, const struct trace_reader *reader);
void locks_finish(struct locks *locks);
void locks_release(struct locks *locks);

/* The specs whose events it takes: waymark record --locks. */
#define LOCK_SPECS 2
extern const char *const lock_specs[LOCK_SPECS];

#endif
