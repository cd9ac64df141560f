/* SPDX-License-Identifier: MIT */
#include "claim/resource.h"

#include "arch/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct {
	const char *words, *name;
} resources[CLAIM_RESOURCE_END] = {
	{ "?", "?" },
	[CLAIM_DEBUG_REGISTER] = { "debug register", "debug-register" },
	[CLAIM_COUNTER] = { "counter", "counter" },
	[CLAIM_BRANCH_UNIT] = { "branch unit", "branch-unit" },
	[CLAIM_LOCKED_MEMORY] = { "locked memory", "locked-memory" },
	[CLAIM_DESCRIPTORS] = { "descriptors", "descriptors" },
	[CLAIM_SIGTRAP] = { "SIGTRAP", "sigtrap" },
};

static const char *const scopes[CLAIM_SCOPE_END] = {
	"?",
	[CLAIM_OF_THREAD] = "thread",
	[CLAIM_OF_PROCESS] = "process",
	[CLAIM_OF_CPU] = "cpu",
	[CLAIM_OF_USER] = "user",
	[CLAIM_OF_MACHINE] = "machine",
};

const char *claim_resource_words(enum claim_resource resource)
{
	return resources[resource < CLAIM_RESOURCE_END ? resource : 0].words;
}

const char *claim_resource_name(enum claim_resource resource)
{
	return resources[resource < CLAIM_RESOURCE_END ? resource : 0].name;
}

const char *claim_scope_name(enum claim_scope scope)
{
	return scopes[scope < CLAIM_SCOPE_END ? scope : 0];
}

/* A number that is all of a file; `otherwise` where it can't be read. */
static long file_number(const char *path, long otherwise)
{
	FILE *file = fopen(path, "re");
	long number = otherwise;

	if (!file)
		return otherwise;
	if (fscanf(file, "%ld", &number) != 1)
		number = otherwise;
	fclose(file);
	return number;
}

static int has_source(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", name);
	return !access(path, F_OK);
}

/* A processor may have what its kernel does not use. */
static unsigned int kernel_counters(void)
{
	return has_source("cpu") || has_source("cpu_core") ? units_counters() : 0;
}

unsigned int claim_watchdog_counters(void)
{
	return kernel_counters() && file_number("/proc/sys/kernel/nmi_watchdog", 0) == 1;
}

static int counters(uint64_t *count)
{
	unsigned int all = kernel_counters();

	if (!all)
		return -ENODEV;
	*count = all - claim_watchdog_counters();
	return 0;
}

static int branch_units(uint64_t *count)
{
	*count = 1;
	if (has_source("intel_pt") || has_source("intel_bts") ||
	    !access("/sys/bus/event_source/devices/cpu/caps/branches", F_OK))
		return 0;
	return -ENODEV;
}

static int limit_of(pid_t pid, int which, uint64_t *count)
{
	struct rlimit limit;

	if (prlimit(pid, which, NULL, &limit))
		return -ENOTSUP;
	*count = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	return 0;
}

/*
 * What a user may lock for rings, and beyond that each process (kernel/events/core.c, perf_mmap).
 */
static int locked_memory(pid_t pid, uint64_t *count)
{
	long kib = file_number("/proc/sys/kernel/perf_event_mlock_kb", -1);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int err = limit_of(pid, RLIMIT_MEMLOCK, count);

	if (err || kib < 0 || cpus < 1)
		return -ENOTSUP;
	if (*count != UINT64_MAX)
		*count += (uint64_t)kib * 1024 * (uint64_t)cpus;
	return 0;
}

int claim_resource_count(enum claim_resource resource, pid_t pid, uint64_t *count)
{
	*count = 0;
	switch (resource) {
	case CLAIM_DEBUG_REGISTER:
		*count = units_debug_registers();
		return 0;
	case CLAIM_COUNTER:
		return counters(count);
	case CLAIM_BRANCH_UNIT:
		return branch_units(count);
	case CLAIM_LOCKED_MEMORY:
		return locked_memory(pid, count);
	case CLAIM_DESCRIPTORS:
		return limit_of(pid, RLIMIT_NOFILE, count);
	case CLAIM_SIGTRAP:
		*count = 1;
		return 0;
	default:
		return -ENOTSUP;
	}
}
