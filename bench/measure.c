/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t measure_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t measure_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* As it was when the program began: pinning narrows it. */
static const cpu_set_t *cpus_allowed(void)
{
	static cpu_set_t allowed;
	static int known;

	if (!known) {
		sched_getaffinity(0, sizeof allowed, &allowed);
		known = 1;
	}
	return &allowed;
}

unsigned int measure_cpus(void)
{
	return (unsigned int)CPU_COUNT(cpus_allowed());
}

int measure_pin(unsigned int nth)
{
	const cpu_set_t *allowed = cpus_allowed();
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || nth--)
			continue;
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof one, &one) ? -errno : 0;
	}
	return -EINVAL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double measure_median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

unsigned int measure_runs(unsigned int usual)
{
	const char *text = getenv("WAYMARK_BENCH_RUNS");
	unsigned long runs = text ? strtoul(text, NULL, 10) : usual;

	if (runs < 1)
		runs = 1;
	return runs > MEASURE_RUNS_MAX ? MEASURE_RUNS_MAX : (unsigned int)runs;
}

double measure_scale(void)
{
	const char *text = getenv("WAYMARK_BENCH_SCALE");
	double scale = text ? strtod(text, NULL) : 1.0;

	return scale > 0 ? scale : 1.0;
}

void measure_print(const char *name, double value, const char *unit)
{
	printf("figure %s %.4g %s\n", name, value, unit);
	fflush(stdout);
}
