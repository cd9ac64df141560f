/* SPDX-License-Identifier: MIT */
/*
 * For how long threads were off their CPUs: sums by thread, state, place, stack and the thread that
 * woke them. Memory is bounded: when there are WAITS_MAX sums, a thread's others are one for each
 * state, of no place and no waker. One thread at a time uses them.
 */
#ifndef READ_STATES_WAITS_H
#define READ_STATES_WAITS_H

#include "base/slots.h"
#include "read/states/thread_states.h"

#include <stddef.h>
#include <stdint.h>

#define WAITS_MAX (1u << 18)

struct wait_sum {
	uint32_t thread; /* of the states' threads */
	uint32_t image, stack;
	uint64_t place;
	uint32_t waker_pid, waker_tid;
	uint8_t as;
	uint64_t count, off_ns, max_ns;
	uint64_t woken, asleep_ns; /* of the count: those whose wake is known, and until then */
	uint64_t first_ns;	   /* when it first began */
};

/* Zeroed: empty. */
struct waits {
	struct wait_sum *all;
	size_t count, room;
	struct slots slots;
};

/* 0 or -ENOMEM. */
int waits_add(struct waits *waits, const struct thread_off *off);
void waits_release(struct waits *waits);

#endif
