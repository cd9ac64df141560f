/* SPDX-License-Identifier: MIT */
#include "inside/runtime/idle.h"

#include "base/kernel.h"
#include "inside/runtime/lock.h"

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>

#define LOOK_MS 50		    /* while disturbed: how long a descriptor may be overlooked */
#define TALK_NS UINT64_C(200000000) /* since one was ready: more will come */
#define TALK_SHORT_MS 10	    /* where signals are known to come */
#define TALK_SHORT_NS (TALK_SHORT_MS * UINT64_C(1000000))
#define DISTURBED_NS UINT64_C(5000000000) /* then they are slept on again, to see */
#define WAKES_MIN 4			  /* in one rest: any may be woken for reasons of its own */
#define WAKE_NS UINT64_C(25000000)	  /* of rest that one wake may cost */
#define REFUSED_NS 5000000

static uint32_t asked;	/* grows with each idle_wake() */
static uint32_t served; /* as it was before the last look: what was asked later is not seen yet */
static uint64_t disturbed_until_ns, talk_until_ns;
static int expects_signals;

/* How often the thread has slept so far. */
static uint64_t sleeps(void)
{
	struct rusage used = { 0 };

	syscall_raw(SYS_getrusage, RUSAGE_THREAD, (long)&used, 0, 0);
	return (uint64_t)used.ru_nvcsw;
}

/*
 * poll(2), given no more entries than there are descriptors: it refuses more than RLIMIT_NOFILE
 * (EINVAL), and a program may have set that to next to nothing. If even so few are too many, all
 * count as ready after a short sleep, since none of them blocks. Any other refusal comes from a
 * filter on all threads: then nothing can be received or closed any more, and sessions stay as they
 * are.
 */
static int poll_open(struct pollfd *fds, unsigned int count, int wait_ms)
{
	struct pollfd open[IDLE_FDS_MAX];
	unsigned int opened = 0, at = 0;
	int ready, is_too_many;

	for (unsigned int i = 0; i < count; i++) {
		fds[i].revents = 0;
		if (fds[i].fd >= 0)
			open[opened++] = fds[i];
	}
	ready = kernel_poll(open, opened, wait_ms);
	is_too_many = ready < 0 && errno == EINVAL;
	if (ready < 0 && errno != EINTR)
		kernel_sleep_ns(REFUSED_NS);
	if (ready < 0 && !is_too_many)
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		if (fds[i].fd >= 0)
			fds[i].revents = is_too_many ? POLLIN : open[at++].revents;
	}
	return is_too_many ? (int)opened : ready;
}

int idle_is_disturbed(void)
{
	return lock_now_ns() < disturbed_until_ns;
}

void idle_expect_signals(int whether)
{
	if (whether && !expects_signals)
		talk_until_ns = lock_now_ns() + TALK_SHORT_NS;
	expects_signals = whether;
}

void idle_wake(void)
{
	__atomic_add_fetch(&asked, 1, __ATOMIC_RELEASE);
	lock_wake_word(&asked);
}

/* On the word, which other threads' signals leave alone; then a look at the descriptors. */
static int idle_on_word(struct pollfd *fds, unsigned int count, int wait_ms)
{
	if (wait_ms)
		lock_wait_word(&asked, served,
			       (unsigned int)(wait_ms < LOOK_MS ? wait_ms : LOOK_MS));
	served = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
	return poll_open(fds, count, 0);
}

/* On the descriptors, and see how often that was for nothing. */
static int idle_on_all(struct pollfd *fds, unsigned int count, int wait_ms, uint64_t begin_ns)
{
	uint64_t before = sleeps(), end_ns, wakes;
	int ready;

	served = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
	ready = poll_open(fds, count, wait_ms);
	wakes = sleeps() - before;
	if (wakes < WAKES_MIN)
		return ready;
	end_ns = lock_now_ns();
	if (wakes * WAKE_NS > end_ns - begin_ns)
		disturbed_until_ns = end_ns + DISTURBED_NS;
	return ready;
}

int idle_poll(struct pollfd *fds, unsigned int count, int wait_ms)
{
	uint64_t now_ns = lock_now_ns();
	int ready;

	/* a wait that began keeps being woken */
	if (expects_signals && now_ns < talk_until_ns && wait_ms > TALK_SHORT_MS)
		wait_ms = TALK_SHORT_MS;
	ready = (expects_signals || now_ns < disturbed_until_ns) && now_ns >= talk_until_ns
			? idle_on_word(fds, count, wait_ms)
			: idle_on_all(fds, count, wait_ms, now_ns);
	if (ready)
		talk_until_ns = lock_now_ns() + (expects_signals ? TALK_SHORT_NS : TALK_NS);
	return ready;
}
