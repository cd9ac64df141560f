/* SPDX-License-Identifier: MIT */
/* Groups of counts that the processor has too few counters for, as the kernel refuses them. */
#include "record/perf/counts.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define COUNTERS 4 /* that the processor has */

static int opened; /* of the group */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* perf_event_open(2) of a hardware event: validate_group() of the kernel. */
long __wrap_syscall(long number, ...)
{
	struct perf_event_attr *attr;
	long values[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		values[i] = va_arg(list, long);
	va_end(list);
	attr = (struct perf_event_attr *)values[0];
	if (number == SYS_perf_event_open && attr->type == PERF_TYPE_HARDWARE) {
		opened = (int)values[3] < 0 ? 1 : opened + 1;
		if (opened > COUNTERS) {
			errno = EINVAL;
			return -1;
		}
		attr->type = PERF_TYPE_SOFTWARE; /* in its place */
		attr->config = PERF_COUNT_SW_TASK_CLOCK;
	}
	return __real_syscall(number, values[0], values[1], values[2], values[3], values[4],
			      values[5]);
}

static const char *const names[COUNTERS + 1] = { "cycles", "instructions", "branches",
						 "branch-misses", "cache-misses" };

/* So many of them in one group, or each by itself. */
static int opens(size_t count, int are_grouped, char *text, size_t bytes)
{
	struct count_event events[COUNTERS + 1];
	unsigned int groups[COUNTERS + 1];
	const pid_t self = getpid();
	struct counts_request request = { .scope = COUNTS_PROCESSES,
					  .events = events,
					  .groups = groups,
					  .event_count = count,
					  .ids = &self,
					  .id_count = 1,
					  .cgroup_fd = -1 };
	struct count_value values[COUNTERS + 1];
	struct counts *counts;
	int err;

	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(count_event_read(&events[i], names[i], (struct detail){ NULL, 0 }), 0);
		groups[i] = are_grouped ? 0 : (unsigned int)i;
	}
	err = counts_open(&counts, &request, (struct detail){ text, bytes });
	if (!err) {
		counts_enable(counts);
		cr_expect_eq(counts_read(counts, values), 0);
		counts_close(counts);
	}
	return err;
}

Test(counts, a_group_too_large_for_the_unit_is_refused_by_name)
{
	unsigned int before = fixture_descriptors();
	char text[256] = "";
	int err = opens(COUNTERS, 1, text, sizeof(text));

	if (err == -WM_E_PERF_DENIED || err == -ENOSYS)
		cr_skip_test("%s", text);
	cr_expect_eq(err, 0, "%s", text);
	cr_expect_eq(opens(COUNTERS + 1, 1, text, sizeof(text)), -WM_E_COUNT_UNIT);
	cr_expect_str_eq(text, "cache-misses, or its group is too large");
	cr_expect_eq(fixture_descriptors(), before, "all of it is closed");
	cr_expect_eq(opens(COUNTERS + 1, 0, text, sizeof(text)), 0, "each by itself: %s", text);
}

/* As of a package's energy, which is read through one of its CPUs. */
Test(counts, cpu_without_events_is_not_opened_at_each_look)
{
	const struct count_event event = {
		.name = "cpu-clock",
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.is_of_cpus = 1,
		.cpus = { 1 },
	};
	const unsigned int group = 0;
	const struct counts_request request = { .scope = COUNTS_CPUS,
						.events = &event,
						.groups = &group,
						.event_count = 1,
						.cgroup_fd = -1 };
	struct counts_coverage coverage;
	struct counts *counts;
	char text[256] = "";
	int err = counts_open(&counts, &request, (struct detail){ text, sizeof(text) });

	if (err == -WM_E_PERF_DENIED || err == -ENOSYS)
		cr_skip_test("%s", text);
	cr_assert_eq(err, 0, "%s", text);
	counts_enable(counts);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(counts_follow(counts), 0);
	counts_covered(counts, &coverage);
	cr_expect_eq(coverage.cpus_back, 0);
	counts_close(counts);
}
