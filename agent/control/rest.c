/* SPDX-License-Identifier: MIT */
#include "agent/control/rest.h"

#include "agent/control/lock.h"
#include "base/kernel.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define LOOK_MS 5			  /* while disturbed: how long a wake may be overlooked */
#define DISTURBED_NS UINT64_C(1000000000) /* then it is slept on again, to see */
#define LONG_ENOUGH_NS UINT64_C(10000000) /* to tell a disturbed rest from a short one */
#define SHARE_MAX 100			  /* of a rest that may go in waking: 1 in so many */
#define REFUSED_NS 5000000

static uint64_t disturbed_until_ns;

static uint64_t spent_ns(void)
{
	struct timespec spent = { 0 };

	syscall_raw(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&spent, 0, 0);
	return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}

/*
 * poll(2), given no more entries than there are descriptors: it refuses more than RLIMIT_NOFILE
 * (EINVAL), and a program may have set that to next to nothing. If even so few are too many, all count
 * as ready after a short sleep, since none of them blocks. Any other refusal is a filter's, put on all
 * threads: nothing can be heard or closed any more, and sessions are left as they stand.
 */
static int poll_open(struct pollfd *fds, unsigned int count, unsigned int but, int wait_ms)
{
	struct pollfd open[REST_FDS_MAX];
	unsigned int opened = 0, at = 0;
	int ready, is_too_many;

	for (unsigned int i = 0; i < count; i++) {
		fds[i].revents = 0;
		if (fds[i].fd >= 0 && i != but)
			open[opened++] = fds[i];
	}
	ready = kernel_poll(open, opened, wait_ms);
	is_too_many = ready < 0 && errno == EINVAL;
	if (ready < 0 && errno != EINTR)
		kernel_sleep_ns(REFUSED_NS);
	if (ready < 0 && !is_too_many)
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		if (fds[i].fd >= 0 && i != but)
			fds[i].revents = is_too_many ? POLLIN : open[at++].revents;
	}
	return is_too_many ? (int)opened : ready;
}

int rest_is_disturbed(void)
{
	return lock_now_ns() < disturbed_until_ns;
}

int rest_poll(struct pollfd *fds, unsigned int count, unsigned int wake, int wait_ms)
{
	uint64_t begin_ns = lock_now_ns(), spent_before_ns, rest_ns;
	int ready;

	if (begin_ns < disturbed_until_ns) {
		poll_open(fds, count, wake, wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
		return poll_open(fds, count, count, 0);
	}
	spent_before_ns = spent_ns();
	ready = poll_open(fds, count, count, wait_ms);
	rest_ns = lock_now_ns() - begin_ns;
	if (rest_ns >= LONG_ENOUGH_NS && (spent_ns() - spent_before_ns) * SHARE_MAX > rest_ns)
		disturbed_until_ns = begin_ns + rest_ns + DISTURBED_NS;
	return ready;
}
