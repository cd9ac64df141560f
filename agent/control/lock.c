/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/control/lock.h"

#include "base/syscall.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

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

static int try_take(struct lock *lock, uint32_t held)
{
	uint32_t none = 0;

	if (!__atomic_compare_exchange_n(&lock->word, &none, held, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	__atomic_store_n(&lock->owner, self(), __ATOMIC_RELAXED);
	return 1;
}

static int take(struct lock *lock, unsigned int timeout_ms)
{
	uint64_t end_ns, now_ns;

	if (try_take(lock, 1))
		return 0;
	if (lock_is_mine(lock))
		return -EDEADLK;
	if (!timeout_ms)
		return -EBUSY;
	end_ns = lock_now_ns() + (uint64_t)timeout_ms * 1000000;
	/* who has waited once can't tell whether others wait too, so it takes the lock as 2 */
	while (!try_take(lock, 2)) {
		uint32_t held = 1;

		now_ns = lock_now_ns();
		if (now_ns >= end_ns)
			return -EBUSY;
		__atomic_compare_exchange_n(&lock->word, &held, 2, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
		lock_wait_word(&lock->word, 2, (unsigned int)((end_ns - now_ns) / 1000000 + 1));
	}
	return 0;
}

int lock_take(struct lock *lock, unsigned int timeout_ms)
{
	int before, error;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	error = take(lock, timeout_ms);
	if (error)
		pthread_setcancelstate(before, NULL);
	else
		lock->cancel_state = before;
	return error;
}

void lock_release(struct lock *lock)
{
	int before = lock->cancel_state;

	__atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		syscall_raw(SYS_futex, (long)&lock->word, FUTEX_WAKE_PRIVATE, 1, 0);
	pthread_setcancelstate(before, NULL);
}

void lock_forked(struct lock *lock, int mine)
{
	int before = lock->cancel_state;

	*lock = (struct lock){ 0 };
	if (mine)
		pthread_setcancelstate(before, NULL);
}
