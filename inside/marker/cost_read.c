/* SPDX-License-Identifier: MIT */
/*
 * Reading a thread's counts, on the hit path. Those of the processor's counters are in memory
 * (cost_counters.h). The others take system calls: clock_gettime(2) of a thread's clock is no vDSO
 * call. A seccomp filter might kill the program for any, so none is made where one may be
 * (cost_allow(), inside/runtime/seccomp_yield.h). No descriptor is used: the program may close any,
 * and reuse its number.
 */
#include "arch/vectors.h"
#include "base/syscall.h"
#include "inside/marker/cost.h"
#include "inside/marker/cost_counters.h"
#include "inside/marker/perf_page.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/runtime/seccomp_yield.h"

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

static uint64_t rdpmc(uint32_t number)
{
	uint64_t low, high; /* RDPMC clears the upper halves (Intel SDM vol. 2B) */

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(number));
	return high << 32 | low;
}

uint64_t (*cost_counter)(uint32_t number) = rdpmc;

/* By kind, from COST_CYCLES on, with COST_UNCOUNTED: all of them, or none. */
static void read_counters(const struct writer *writer, unsigned int kinds,
			  uint64_t values[COST_COUNTERS + 1])
{
	const struct cost_counters *counters = cost_counters_of(writer);
	uint64_t uncounted_ns = 0;
	int is_whole = counters != NULL;

	for (unsigned int left = kinds & COST_COUNTED; left && is_whole; left &= left - 1) {
		unsigned int i = (unsigned int)__builtin_ctz(left) - COST_CYCLES;
		struct perf_page_read read = { 0 };

		is_whole = counters->pages[i] &&
			   !perf_page_read(counters->pages[i], cost_counter, &read);
		values[i] = read.count;
		uncounted_ns += read.uncounted_ns;
	}
	values[COST_COUNTERS] = uncounted_ns;
	for (unsigned int i = 0; i <= COST_COUNTERS && !is_whole; i++)
		values[i] = COST_UNAVAILABLE;
}

void cost_prepare(struct writer *writer)
{
	struct reentrancy_guard guard;

	if (__atomic_load_n(&writer->counters_asked, __ATOMIC_RELAXED) == writer->births ||
	    !cost_is_allowed() || seccomp_yield_has_begun())
		return;
	/* what is called is ordinary code, in which there may be probes */
	reentrancy_guard_enter(&guard);
	vectors_call_aside(cost_counters_ask, writer);
	reentrancy_guard_leave(&guard);
}

unsigned int cost_read(const struct writer *writer, unsigned int kinds,
		       uint64_t values[COST_KINDS_COUNT])
{
	uint64_t counted[COST_COUNTERS + 1];
	int may = cost_is_allowed() && !seccomp_yield_has_begun();
	int has_usage = 0;
	struct rusage usage;
	unsigned int count = 0;

	if (kinds & COST_COUNTED)
		read_counters(writer, kinds, counted);
	if (may && kinds & (1u << COST_PAGE_FAULTS | 1u << COST_MINOR_FAULTS |
			    1u << COST_MAJOR_FAULTS | 1u << COST_CONTEXT_SWITCHES))
		has_usage = !syscall_raw(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0);
	for (unsigned int left = kinds; left; left &= left - 1) {
		unsigned int kind = (unsigned int)__builtin_ctz(left);
		uint64_t value = COST_UNAVAILABLE;

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
		else if (kind >= COST_CYCLES && kinds & COST_COUNTED)
			value = counted[kind - COST_CYCLES];
		values[count++] = value;
	}
	return count;
}
