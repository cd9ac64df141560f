/* SPDX-License-Identifier: MIT */
/*
 * The agent's lock: a futex word. Held by the control thread while it serves a request, by program
 * threads in the in-process functions and in the loader's hook; never on the hit path. No libc lock
 * is taken while it is held, so none that the program holds can keep it from being released.
 */
#ifndef INSIDE_RUNTIME_LOCK_H
#define INSIDE_RUNTIME_LOCK_H

#include <stdint.h>

/* The state that lock_release() restores. */
struct lock_holder {
	int cancel_state;
	uint64_t signals_before, signals_held; /* masks as the kernel has them */
};

struct lock {
	uint32_t word;	 /* 0 free, 1 held, 2 held and somebody waits */
	uintptr_t owner; /* the thread pointer of who holds it */
	struct lock_holder holder;
};

extern struct lock agent_lock;

/*
 * Take the lock. Its holder can't be cancelled and takes no signals, except those that its own
 * instructions raise and libc's: a handler that ends the thread, leaves by siglongjmp() or takes
 * its time would do so in the middle of a change, with the lock. Waits timeout_ms at most, 0: not
 * at all. Returns 0; -EBUSY when the time is over; -EDEADLK when the caller has it already.
 */
int lock_take(struct lock *lock, unsigned int timeout_ms);

void lock_release(struct lock *lock);

/* Whether the calling thread holds it. */
int lock_is_mine(const struct lock *lock);

/* In the child of a fork: mark it free. `mine`: the caller had taken it before the fork. */
void lock_forked(struct lock *lock, int mine);

/*
 * Wait until *word is no longer `value`, timeout_ms at most. Returns 0 or -ETIMEDOUT; may return 0
 * early.
 */
int lock_wait_word(const uint32_t *word, uint32_t value, unsigned int timeout_ms);

/* Wake all who wait for *word. */
void lock_wake_word(const uint32_t *word);

/* CLOCK_MONOTONIC. */
uint64_t lock_now_ns(void);

#endif
