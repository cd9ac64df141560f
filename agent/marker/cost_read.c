/* SPDX-License-Identifier: MIT */
/*
 * Reading a thread's counts, on the hit path. System calls, since neither value is in memory that
 * the thread can read: clock_gettime(2) of a thread's clock is no vDSO call. A seccomp filter might
 * kill the program for either, so none is made where one may be (cost_allow(),
 * agent/runtime/seccomp_yield.h). No descriptor is used: the program may close any, and reuse its
 * number.
 */
#include "agent/marker/cost.h"
#include "agent/runtime/seccomp_yield.h"
#include "base/syscall.h"

#include <linux/time.h>
#include <linux/resource.h>

static uint32_t may_call;

void cost_allow(int may)
{
	__atomic_store_n(&may_call, (uint32_t)may, __ATOMIC_RELEASE);
}

int cost_is_allowed(void)
{
	return __atomic_load_n(&may_call, __ATOMIC_ACQUIRE) != 0;
}

static uint64_t task_clock_ns(void)
{
	struct __kernel_timespec now;

	if (syscall_raw(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now, 0, 0))
		return COST_UNAVAILABLE;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

unsigned int cost_read(unsigned int kinds, uint64_t values[COST_KINDS_COUNT])
{
	int may = cost_is_allowed() && !seccomp_yield_has_begun();
	int has_usage = 0;
	struct rusage usage;
	unsigned int count = 0;

	if (may && kinds & ~(1u << COST_TASK_CLOCK))
		has_usage = !syscall_raw(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0);
	for (unsigned int kind = 0; kind < COST_KINDS_COUNT; kind++) {
		uint64_t value = COST_UNAVAILABLE;

		if (!(kinds & 1u << kind))
			continue;
		if (kind == COST_TASK_CLOCK && may)
			value = task_clock_ns();
		else if (kind == COST_PAGE_FAULTS && has_usage)
			value = (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
		else if (kind == COST_MINOR_FAULTS && has_usage)
			value = (uint64_t)usage.ru_minflt;
		else if (kind == COST_MAJOR_FAULTS && has_usage)
			value = (uint64_t)usage.ru_majflt;
		else if (kind == COST_CONTEXT_SWITCHES && has_usage)
			value = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
		values[count++] = value;
	}
	return count;
}
