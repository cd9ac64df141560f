/* SPDX-License-Identifier: MIT */
#include "inside/runtime/lock.h"

#include "base/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

/*
 * of a wait: a tool takes a thread that sleeps for a second for hung (record/session/event_loop.c)
 */
#define SLICE_MS 250

struct lock agent_lock;

uint64_t lock_now_ns(void)
{
	struct timespec now;

	syscall_raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uintptr_t self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

int lock_wait_word(const uint32_t *word, uint32_t value, unsigned int timeout_ms)
{
	struct timespec wait = { .tv_sec = timeout_ms / 1000,
				 .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };

	if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		return 0;
	if (syscall_raw(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, (long)&wait) ==
	    -ETIMEDOUT)
		return -ETIMEDOUT;
	return 0;
}

void lock_wake_word(const uint32_t *word)
{
	syscall_raw(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0);
}

int lock_is_mine(const struct lock *lock)
{
	return __atomic_load_n(&lock->word, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == self();
}

/*
 * Not the signals that an instruction raises (a filter's SIGSYS may need an answer before the
 * instruction can continue), nor the one by which libc has every thread change its user (33).
 */
static uint64_t signals_to_hold(void)
{
	static const int kept[] = { SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 33 };
	uint64_t all = ~UINT64_C(0);

	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		all &= ~(UINT64_C(1) << (kept[i] - 1));
	return all;
}

static void set_signals(int how, const uint64_t *set, uint64_t *before)
{
	syscall_raw(SYS_rt_sigprocmask, how, (long)set, (long)before, sizeof *set);
}

static void hold_off(struct lock_holder *holder)
{
	uint64_t hold = signals_to_hold();

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &holder->cancel_state);
	set_signals(SIG_BLOCK, &hold, &holder->signals_before);
	holder->signals_held = holder->signals_before | hold;
}

/*
 * Between a fork's handlers the program's own run, which may let signals in or hold them off for
 * good: what they have changed stays.
 */
static void let_in(const struct lock_holder *holder)
{
	uint64_t now = 0, after;

	set_signals(SIG_BLOCK, NULL, &now);
	after = (now & holder->signals_before) | (now & ~holder->signals_held);
	if (after != now)
		set_signals(SIG_SETMASK, &after, NULL);
	pthread_setcancelstate(holder->cancel_state, NULL);
}

static int try_take(struct lock *lock, uint32_t held)
{
	struct lock_holder holder;
	uint32_t none = 0;

	if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED))
		return 0;
	hold_off(&holder);
	if (!__atomic_compare_exchange_n(&lock->word, &none, held, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED)) {
		let_in(&holder);
		return 0;
	}
	lock->holder = holder;
	__atomic_store_n(&lock->owner, self(), __ATOMIC_RELAXED);
	return 1;
}

int lock_take(struct lock *lock, unsigned int timeout_ms)
{
	uint64_t end_ns, now_ns;

	if (try_take(lock, 1))
		return 0;
	if (lock_is_mine(lock))
		return -EDEADLK;
	if (!timeout_ms)
		return -EBUSY;
	end_ns = lock_now_ns() + (uint64_t)timeout_ms * 1000000;
	/*
	 * a thread that has waited once does not know whether others wait too, so it takes the lock
	 * as 2
	 */
	while (!try_take(lock, 2)) {
		uint32_t held = 1;
		unsigned int wait_ms;

		now_ns = lock_now_ns();
		if (now_ns >= end_ns)
			return -EBUSY;
		__atomic_compare_exchange_n(&lock->word, &held, 2, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
		wait_ms = (unsigned int)((end_ns - now_ns) / 1000000 + 1);
		lock_wait_word(&lock->word, 2, wait_ms < SLICE_MS ? wait_ms : SLICE_MS);
	}
	return 0;
}

void lock_release(struct lock *lock)
{
	struct lock_holder holder = lock->holder;

	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		syscall_raw(SYS_futex, (long)&lock->word, FUTEX_WAKE_PRIVATE, 1, 0);
	let_in(&holder);
}

void lock_forked(struct lock *lock, int mine)
{
	struct lock_holder holder = lock->holder;

	*lock = (struct lock){ 0 };
	if (mine)
		let_in(&holder);
}
