/* SPDX-License-Identifier: MIT */
#include "inside/runtime/seccomp_yield.h"

#include "base/kernel.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/reentrancy_guard.h"

#include <signal.h>

#define YIELD_NS UINT64_C(2000000000)
#define LOOK_MS 5 /* at threads that end */
#define WAITING_MAX 64u

static uint32_t coming;	     /* threads between seccomp_yield_begin() and seccomp_yield_end() */
static int for_all;	     /* why the agent's threads are to end; 0: they are not */
static uint32_t asked, done; /* grow */
uint32_t seccomp_yield_begun;
static uintptr_t waiting[WAITING_MAX]; /* thread pointers; 0: free */

int seccomp_yield_is_asked(void)
{
	return __atomic_load_n(&coming, __ATOMIC_SEQ_CST) != 0;
}

int seccomp_yield_takes_all(void)
{
	int why = seccomp_yield_is_for_all();

	return asked == done ? why : 0;
}

static int is_done(uint32_t mine)
{
	return (int32_t)(__atomic_load_n(&done, __ATOMIC_ACQUIRE) - mine) >= 0;
}

/* The keeper waits for the other, and ends last. */
static int any_thread_is_ours(void)
{
	int32_t keeper = __atomic_load_n(&control_keeper, __ATOMIC_RELAXED);

	return control_runs() ||
	       (keeper && !syscall_raw(SYS_tgkill, kernel_getpid(), keeper, 0, 0));
}

static void wait_for(uint32_t mine, int why)
{
	uint64_t end_ns = lock_now_ns() + YIELD_NS;

	while (!is_done(mine) && control_runs() && lock_now_ns() < end_ns)
		lock_wait_word(&done, __atomic_load_n(&done, __ATOMIC_ACQUIRE), LOOK_MS);
	while (why && any_thread_is_ours() && lock_now_ns() < end_ns)
		kernel_sleep_ns(LOOK_MS * UINT64_C(1000000));
}

int seccomp_yield_is_waiting(uintptr_t thread_pointer)
{
	for (unsigned int i = 0; i < WAITING_MAX; i++)
		if (thread_pointer &&
		    __atomic_load_n(&waiting[i], __ATOMIC_ACQUIRE) == thread_pointer)
			return 1;
	return 0;
}

/* Put `to` in the place of `from`. */
static void waiting_replace(uintptr_t from, uintptr_t to)
{
	for (unsigned int i = 0; i < WAITING_MAX; i++) {
		uintptr_t was = from;

		if (__atomic_compare_exchange_n(&waiting[i], &was, to, 0, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED))
			return;
	}
}

void seccomp_yield_begin(int why)
{
	struct reentrancy_guard guard;
	int was = errno;
	uint64_t all = ~UINT64_C(0), before = 0;
	uintptr_t self = (uintptr_t)__builtin_thread_pointer();
	uint32_t mine;

	/* a handler of the program's may leave by a jump */
	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
	waiting_replace(0, self);
	reentrancy_guard_enter(&guard);
	__atomic_store_n(&seccomp_yield_begun, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
	if (why)
		__atomic_store_n(&for_all, why, __ATOMIC_SEQ_CST);
	mine = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
	if (control_wake())
		wait_for(mine, why);
	errno = was;
	reentrancy_guard_leave(&guard);
	waiting_replace(self, 0);
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

void seccomp_yield_end(void)
{
	__atomic_sub_fetch(&coming, 1, __ATOMIC_SEQ_CST);
	/* a thread that came in between wants the same, or the control thread has ended */
	__atomic_store_n(&for_all, 0, __ATOMIC_SEQ_CST);
}

void seccomp_yield_forget(void)
{
	__atomic_store_n(&seccomp_yield_begun, 0, __ATOMIC_SEQ_CST);
}

int seccomp_yield_is_pending(uint32_t *number)
{
	*number = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
	return *number != done;
}

int seccomp_yield_is_for_all(void)
{
	return __atomic_load_n(&for_all, __ATOMIC_ACQUIRE);
}

void seccomp_yield_done(uint32_t number)
{
	__atomic_store_n(&done, number, __ATOMIC_RELEASE);
	lock_wake_word(&done);
}

void seccomp_yield_forked(void)
{
	coming = for_all = 0;
	asked = done = 0;
	for (unsigned int i = 0; i < WAITING_MAX; i++)
		waiting[i] = 0;
}
