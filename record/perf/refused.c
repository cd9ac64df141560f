/* SPDX-License-Identifier: MIT */
/*
 * Why the kernel refused an event, in words. It says little more than EACCES, so the rest is looked
 * up.
 */
#include "base/number_file.h"
#include "record/perf/object.h"
#include "record/perf/refused.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <waymark/error.h>

#define CAPABILITY_SYS_ADMIN 21
#define CAPABILITY_PERFMON 38

int perf_paranoid(void)
{
	return (int)number_file_read("/proc/sys/kernel/perf_event_paranoid", -1);
}

int perf_is_privileged(void)
{
	uint64_t mask = target_status_mask(getpid(), "CapEff");

	return (mask >> CAPABILITY_PERFMON & 1) || (mask >> CAPABILITY_SYS_ADMIN & 1);
}

static void whose_print(const struct instance *instance, char *words, size_t bytes)
{
	char comm[16];

	if (instance->tid <= 0) {
		snprintf(words, bytes, "CPU %d", instance->cpu);
		return;
	}
	target_comm(instance->tid, instance->tid, comm);
	snprintf(words, bytes, "thread %d (%s)", instance->tid, comm);
}

static int taken(struct perf_object *object, const struct instance *instance, struct detail detail)
{
	unsigned int wanted = object->request.source_count;
	char whose[64];
	int found = instance->tid > 0 ? instance_free_registers(instance->tid, -1) : -1;

	object->refused = *instance;
	whose_print(instance, whose, sizeof(whose));
	if (found < 0)
		return detail_set(detail, -WM_E_EVENT_TAKEN, "%s: %u wanted", whose, wanted);
	/* what is ours of it is still open */
	found += (int)instance->source;
	if (found < EVENT_SOURCES_MAX)
		object->refused_taken = (uint64_t)(EVENT_SOURCES_MAX - found);
	return detail_set(detail, -WM_E_EVENT_TAKEN, "%s has %d free, %u are wanted", whose, found,
			  wanted);
}

/*
 * Whether perf_event_paranoid forbids an event of a thread, or of a CPU; with the kernel's part of
 * it. 0, or -WM_E_PERF_DENIED with words.
 */
static int forbidden(int is_thread, int has_kernel, struct detail detail)
{
	int level = perf_paranoid();

	if (perf_is_privileged() ||
	    (level <= 2 && (is_thread || level <= 0) && (!has_kernel || level <= 1)))
		return 0;
	return detail_set(detail, -WM_E_PERF_DENIED, PERF_PARANOID " is %d%s", level,
			  !is_thread  ? "; for CPUs it must be 0"
			  : level > 2 ? "; it must be 2"
				      : "; for the kernel's accesses it must be 1");
}

static int denied(const struct instance *instance, int has_kernel, int error, struct detail detail)
{
	struct target target;
	int err;

	if (error == -EPERM && target_status_number(getpid(), "Seccomp") > 0)
		return detail_set(detail, -WM_E_PERF_DENIED, "%s", PERF_IS_FILTERED);
	err = forbidden(instance->tid > 0, has_kernel, detail);
	if (err)
		return err;
	return instance->tid > 0 && !target_read(&target, instance->tid)
		       ? target_denied(&target, detail)
		       : 0;
}

int perf_refused(const struct instance *instance, const char *name, int has_kernel, size_t opened,
		 int error, struct detail detail)
{
	char whose[64];
	int err;

	switch (-error) {
	case EMFILE:
		return detail_set(detail, -WM_E_NO_DESCRIPTORS,
				  "%zu are open and do not suffice; RLIMIT_NOFILE is reached",
				  opened);
	case EACCES:
	case EPERM:
		err = denied(instance, has_kernel, error, detail);
		if (err)
			return err;
		error = -EPERM;
		break;
	case ENOSYS:
		return detail_set(detail, -ENOSYS, "%s", PERF_IS_MISSING);
	case ENODEV:
		return detail_set(detail, -ENODEV, "CPU %d is not online", instance->cpu);
	default:
		break;
	}
	whose_print(instance, whose, sizeof(whose));
	return detail_set(detail, error, "%s of %s", name, whose);
}

int perf_object_refused(struct perf_object *object, const struct instance *instance, int error,
			struct detail detail)
{
	int has_kernel = (object->request.flags & EVENT_KERNEL) != 0, err;
	char name[32];

	switch (-error) {
	case ENOSPC:
		/*
		 * perf_event_open(2) takes the register first and asks for the right to a CPU then
		 */
		err = forbidden(instance->tid > 0, has_kernel, detail);
		return err ? err : taken(object, instance, detail);
	case EINVAL:
	case E2BIG:
		if (object->request.flags & EVENT_SIGNAL)
			return detail_set(detail, -EOPNOTSUPP,
					  "breakpoints that signal need Linux 5.13");
		break;
	default:
		break;
	}
	snprintf(name, sizeof(name), "source %u", instance->source);
	return perf_refused(instance, name, has_kernel, object->extent.count, error, detail);
}
