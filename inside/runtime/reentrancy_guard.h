/* SPDX-License-Identifier: MIT */
/*
 * While a program's thread runs code of the agent's that may call libc, detours see nothing; but
 * what a signal handler of the program's does in between is the program's own. And such a handler
 * may leave by a jump (siglongjmp(3)): then the stretch is over without a call that ends it.
 */
#ifndef INSIDE_RUNTIME_REENTRANCY_GUARD_H
#define INSIDE_RUNTIME_REENTRANCY_GUARD_H

#include <stdint.h>

/* One stretch, in the frame of the function that begins and ends it. */
struct reentrancy_guard {
	uintptr_t before; /* reentrancy_guard_at, for its end */
	uintptr_t mark;	  /* gone when other frames lie here */
};

#define REENTRANCY_GUARD_MARK UINT64_C(0x5b1d7c93e64af028)

/* Address of the calling thread's stretch; 0: none. In the agent's own threads it never ends. */
extern __thread uintptr_t reentrancy_guard_at
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
#define REENTRANCY_GUARD_FOR_GOOD UINTPTR_MAX

/* The marks are stored where the compiler knows of no reader. */
static inline void reentrancy_guard_mark(struct reentrancy_guard *guard, uintptr_t mark)
{
	*(volatile uintptr_t *)&guard->mark = mark;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void reentrancy_guard_enter(struct reentrancy_guard *guard)
{
	guard->before = reentrancy_guard_at;
	reentrancy_guard_mark(guard, (uintptr_t)guard ^ REENTRANCY_GUARD_MARK);
	if (guard->before != REENTRANCY_GUARD_FOR_GOOD)
		reentrancy_guard_at = (uintptr_t)guard;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void reentrancy_guard_leave(struct reentrancy_guard *guard)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	reentrancy_guard_at = guard->before;
	reentrancy_guard_mark(guard, 0);
}

/* Out of line, and keeping registers: an open stretch is rare. */
int reentrancy_guard_is_agents_own(uintptr_t sp) __attribute__((no_caller_saved_registers, cold));

/* Whether to ignore a hit at this stack pointer. Hit path. */
static inline int reentrancy_guard_covers(uintptr_t sp)
{
	return __builtin_expect(reentrancy_guard_at != 0, 0) && reentrancy_guard_is_agents_own(sp);
}

/* Whether this stretch's frame is above `sp`, near, and not overwritten. Hit path. */
int reentrancy_guard_is_above(const struct reentrancy_guard *guard, uintptr_t sp);

#endif
