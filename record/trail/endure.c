/* SPDX-License-Identifier: MIT */
#include "record/trail/endure.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LEAST_LIKELY (-1000) /* OOM_SCORE_ADJ_MIN */
#define STEP 50
#define NS 1000000000u
#define KEPT_NS NS /* of the CPU time, to let the program go in */

static void raise_limits(void)
{
	static const int those[] = { RLIMIT_AS,	    RLIMIT_DATA,    RLIMIT_STACK, RLIMIT_CPU,
				     RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_FSIZE, RLIMIT_RTTIME };
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(those) / sizeof(those[0]); i++) {
		if (getrlimit((__rlimit_resource_t)those[i], &limit))
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit((__rlimit_resource_t)those[i], &limit);
	}
	/* more than that is a privilege */
	setrlimit(RLIMIT_CPU, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
}

/* At the end of RLIMIT_RTTIME is SIGKILL too. */
static void give_up_real_time(void)
{
	const struct sched_param none = { 0 };
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	struct rlimit limit;

	if ((policy == SCHED_FIFO || policy == SCHED_RR) && !getrlimit(RLIMIT_RTTIME, &limit) &&
	    limit.rlim_max != RLIM_INFINITY)
		sched_setscheduler(0, SCHED_OTHER, &none);
}

/*
 * A process without privilege may lower its score only to the value that a privileged one last set,
 * and can't ask what that is: so try from the lowest up.
 */
static void be_the_last(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC), done = 0;
	char text[16];
	int now;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%d", &now) != 1)
		now = LEAST_LIKELY;
	for (int score = LEAST_LIKELY; score < now && !done; score += STEP) {
		int bytes = snprintf(text, sizeof(text), "%d", score);

		done = pwrite(fd, text, (size_t)bytes, 0) == bytes;
	}
	if (fd >= 0)
		close(fd);
}

void endure(void)
{
	raise_limits();
	give_up_real_time();
	be_the_last();
}

int endure_is_spent(void)
{
	uint64_t used_ns, all_ns, kept_ns;
	struct timespec used;
	struct rlimit limit;

	if (getrlimit(RLIMIT_CPU, &limit) || limit.rlim_max == RLIM_INFINITY ||
	    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) || limit.rlim_max > UINT64_MAX / NS)
		return 0;
	used_ns = (uint64_t)used.tv_sec * NS + (uint64_t)used.tv_nsec;
	all_ns = limit.rlim_max * NS;
	kept_ns = all_ns / 2 < KEPT_NS ? all_ns / 2 : KEPT_NS;
	return used_ns > all_ns - kept_ns;
}
