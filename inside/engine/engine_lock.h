/* SPDX-License-Identifier: MIT */
/*
 * The engine's lock, for translating, linking, and writing the log. Held for microseconds; waiters
 * sleep in a futex.
 */
#ifndef INSIDE_ENGINE_ENGINE_LOCK_H
#define INSIDE_ENGINE_ENGINE_LOCK_H

#include "inside/engine/sys.h"

#include <linux/futex.h>

/*
 * Held to translate, to link, to write the log, and to change what code there is. Nothing of the
 * program's memory is read or written under it, or under any other lock: see engine.md.
 */
extern uint32_t dispatch_lock;

/* about as long as it is held: sleep costs more, and much more where many threads run */
#define LOCK_SPINS 200u

/* 0: free, 1: held, 2: held, and a thread waits. */
static inline void lock_take(uint32_t *lock)
{
	uint32_t was = 0;

	for (unsigned int i = 0; i < LOCK_SPINS; i++, was = 0) {
		if (__atomic_compare_exchange_n(lock, &was, 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		__builtin_ia32_pause();
	}
	while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE))
		sys_call(SYS_futex, (long)lock, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}

/* 1: the caller holds it now; 0: another thread does. */
static inline int lock_try(uint32_t *lock)
{
	uint32_t was = 0;

	return __atomic_compare_exchange_n(lock, &was, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock_give(uint32_t *lock)
{
	if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2)
		sys_call(SYS_futex, (long)lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

#endif
