/* SPDX-License-Identifier: MIT */
/* Arms all events or none; object.h lists the steps. */
#include "record/perf/cpus.h"
#include "record/perf/descriptors.h"
#include "record/perf/object_own.h"
#include "target/process/stop_threads.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define LATE_PASSES 2
#define LATE_NS 4000000

int perf_object_stop(const struct perf_object *object, struct stop **stop)
{
	pid_t pid = object->request.pid;
	int err;

	*stop = NULL;
	if (object->request.scope != EVENT_PROCESS || object->request.flags & EVENT_NO_STOP ||
	    pid == getpid())
		return 0;
	err = stop_threads(pid, 0, stop);
	if (err == -ESRCH)
		return -WM_E_GONE;
	return err == -ENOMEM || err == -EAGAIN ? err : 0;
}

void perf_object_let_stop(struct perf_object *object)
{
	object->request.flags &= ~(unsigned int)EVENT_NO_STOP;
}

/*
 * Before the program is stopped; threads that start until then need more, and are refused by the
 * kernel at worst.
 */
static int needs_reckon(const struct perf_object *object, struct event_needs *needs)
{
	size_t groups = 1;
	unsigned int *cpus = NULL;
	int err = object->request.flags & EVENT_RINGS ? cpus_present(&cpus, &needs->rings) : 0;

	free(cpus);
	if (err)
		return err;

	if (object->request.scope == EVENT_PROCESS) {
		long threads = target_status_number(object->request.pid, "Threads");

		if (threads <= 0)
			return -WM_E_GONE;
		groups = (size_t)threads;
	} else if (object->request.scope == EVENT_CPUS) {
		groups = object->request.cpu_count;
	} else if (object->request.scope == EVENT_SYSTEM) {
		groups = (size_t)sysconf(_SC_NPROCESSORS_CONF);
	}
	if (perf_object_is_threads(object) && needs->rings)
		groups *= needs->rings;
	needs->descriptors = groups * object->request.source_count + needs->rings;
	return 0;
}

/* Whatever is taken is claimed before. */
static int prepare(struct perf_object *object, struct detail detail)
{
	struct event_needs needs = { 0 };
	int err = perf_sources_proven(&object->request, object->sources, detail);

	/* the kernel takes a breakpoint there, which never fires */
	if (!err && perf_object_is_threads(object) && target_is_kernels(object->request.pid))
		err = detail_set(detail, -EINVAL, "%d is a thread of the kernel, without a program",
				 (int)object->request.pid);
	if (!err)
		err = needs_reckon(object, &needs);
	if (!err)
		err = descriptors_need(needs.descriptors, detail);
	needs.ring_bytes = object->request.ring_bytes;
	if (!err)
		err = claims_write(object, &needs, detail);
	if (needs.rings && !needs.ring_bytes)
		needs.ring_bytes = RINGS_LARGE_BYTES;
	while (err == -WM_E_LIMIT && needs.rings && !object->request.ring_bytes &&
	       needs.ring_bytes > RINGS_SMALL_BYTES) {
		needs.ring_bytes /= 2;
		err = claims_write(object, &needs, detail);
	}
	if (!err && needs.rings)
		err = rings_open(&object->rings, needs.ring_bytes < RINGS_LARGE_BYTES
							 ? needs.ring_bytes
							 : object->request.ring_bytes);
	return err;
}

/*
 * Try the first source, before anything is stopped: what will be refused is refused at once. The
 * first event of all on a machine also takes the kernel a grace period, some 20 ms, which it
 * remembers for a second.
 */
static int try_one(struct perf_object *object, struct detail detail)
{
	struct instance_form form = perf_object_form(object);
	struct instance one = { .tid = object->request.pid, .cpu = -1, .is_leader = 1 };
	int err;

	if (!perf_object_is_threads(object))
		return 0;
	object->is_exchanged = !instance_keeps_place();
	/* what a thread starts meanwhile is to have none of it */
	form.flags &= ~(unsigned int)EVENT_CHILDREN;
	form.scope = EVENT_THREAD;
	/* what is reserved is known to be had */
	err = object->request.reserved ? 0 : instance_open(&one, &object->sources[0], &form, -1);
	if (!err && !object->request.reserved)
		close(one.fd);
	else if (err != -ESRCH) /* its first thread may have ended */
		return perf_object_refused(object, &one, err, detail);
	return 0;
}

static int open_thread(struct perf_object *object, struct detail detail)
{
	int is_ended, err;

	err = perf_object_open_group(object, object->request.pid, -1, 0, 1, &is_ended, detail);
	object->rounds = 1;
	return is_ended ? -WM_E_GONE : err;
}

static int open_cpus(struct perf_object *object, struct detail detail)
{
	unsigned int *online = NULL;
	const unsigned int *cpus = object->request.cpus;
	size_t count = object->request.cpu_count;
	int is_ended, err = 0;

	if (object->request.scope == EVENT_SYSTEM) {
		err = cpus_online(&online, &count);
		cpus = online;
	}
	for (size_t i = 0; i < count && !err; i++) {
		err = perf_object_open_group(object, -1, (int)cpus[i], 0, 1, &is_ended, detail);
		if (err == -ENODEV && online && object->groups)
			err = 0; /* it has gone since */
	}
	free(online);
	object->rounds = 1;
	return err;
}

static int open_all(struct perf_object *object, const struct stop *stop, struct detail detail)
{
	object->is_grouped = (stop || !perf_object_is_threads(object)) && !object->rings.count;
	switch (object->request.scope) {
	case EVENT_THREAD:
		return open_thread(object, detail);
	case EVENT_PROCESS:
		return stop ? perf_object_open_stopped(object, detail)
			    : perf_object_open_rounds(object, detail);
	default:
		return open_cpus(object, detail);
	}
}

/* Note which event belongs to which source, for the readers of the rings. */
static int ids_take(struct perf_object *object)
{
	int err = 0;

	for (size_t i = object->rings.id_count; object->rings.count && i < object->count && !err;
	     i++)
		err = rings_add(&object->rings, object->instances[i].fd,
				object->instances[i].source);
	return err;
}

/*
 * Threads that run may have been on their way while we looked: one that is being started is not
 * listed yet, and one whose creator was just enabled has that one's state from before, for the
 * kernel holds no lock over both. So look again a little later, and enable again; for those that
 * are, that is nothing.
 */
static int arm_late(struct perf_object *object, struct detail detail)
{
	int err = 0;

	for (int i = 0; i < LATE_PASSES && !err; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = LATE_NS }, NULL);
		err = perf_object_open_rounds(object, detail);
		if (!err)
			err = ids_take(object);
		if (!err)
			perf_object_enable(object);
	}
	return err == -WM_E_GONE ? 0 : err;
}

/* From the stop on to the end of it. */
static int arm_stopped(struct perf_object *object, struct detail detail)
{
	uint64_t looked_ns = ticks_monotonic_ns();
	struct stop *stop;
	int err = perf_object_stop(object, &stop);

	/* the kernel passes no place on: it is free until it is opened again */
	if (!err && object->request.reserved)
		perf_object_close(object->request.reserved);
	if (!err)
		err = open_all(object, stop, detail);
	if (!err)
		err = ids_take(object);
	if (!err && object->request.settle)
		err = object->request.settle(object->request.settle_data, object->generation);
	if (!err) {
		perf_object_enable(object);
		object->program = perf_program_id(object->request.pid);
		if (!stop && object->request.scope == EVENT_PROCESS)
			err = arm_late(object, detail);
		if (!err)
			err = perf_object_follow_begin(object, looked_ns);
		object->armed_ns = ticks_monotonic_ns();
		object->was_stopped = stop != NULL;
	}
	stop_resume(stop);
	return err;
}

/* From the stop on to the end of it; threads that run are looked for as arm_late() does. */
static int reserve_stopped(struct perf_object *object, struct detail detail)
{
	struct stop *stop;
	int err = perf_object_stop(object, &stop), passes = 0;

	if (!err)
		err = open_all(object, stop, detail);
	while (!err && !stop && object->request.scope == EVENT_PROCESS && passes++ < LATE_PASSES) {
		nanosleep(&(struct timespec){ .tv_nsec = LATE_NS }, NULL);
		err = perf_object_open_rounds(object, detail);
	}
	stop_resume(stop);
	return err;
}

/* Arming failed: the claim takes its places again. */
static void reserve_again(struct perf_object *reserved, struct detail detail)
{
	char words[256] = "";
	int err;

	if (!reserved || reserved->state != EVENT_RESERVED || reserved->count)
		return;
	err = reserve_stopped(reserved, (struct detail){ words, sizeof(words) });
	if (err) {
		size_t used = strnlen(detail.text, detail.bytes);

		perf_object_disarm(reserved);
		if (used < detail.bytes)
			snprintf(detail.text + used, detail.bytes - used,
				 "; what was reserved is lost: %s", words);
	}
}

static int take_all(struct perf_object *object, int (*take)(struct perf_object *, struct detail),
		    struct detail detail)
{
	int err;

	if (object->state != EVENT_PREPARING)
		return -EINVAL;
	err = prepare(object, detail);
	if (!err)
		err = try_one(object, detail);
	if (!err)
		err = take(object, detail);
	if (!err)
		return 0;
	perf_object_close(object);
	rings_release(&object->rings);
	claims_remove(object);
	claims_name_holder(object, err, detail);
	reserve_again(object->request.reserved, detail);
	return err;
}

int perf_object_arm(struct perf_object *object, struct detail detail)
{
	int err = take_all(object, arm_stopped, detail);

	if (err)
		return err;
	object->state = EVENT_ARMED; /* preparing -> armed */
	claims_confirm(object);
	if (object->request.reserved)
		perf_object_disarm(object->request.reserved);
	object->request.reserved = NULL;
	return 0;
}

int perf_object_reserve(struct perf_object *object, struct detail detail)
{
	int err = take_all(object, reserve_stopped, detail);

	if (err)
		return err;
	object->state = EVENT_RESERVED; /* preparing -> reserved */
	claims_confirm(object);
	return 0;
}

int perf_object_reserves(const struct perf_object *reserved, const struct event_request *request,
			 struct detail detail)
{
	const struct event_request *has = &reserved->request;

	if (reserved->state != EVENT_RESERVED)
		return detail_set(detail, -EINVAL, "the claim has nothing reserved");
	if (has->scope != request->scope ||
	    (perf_object_is_threads(reserved) && has->pid != request->pid) ||
	    (has->scope == EVENT_CPUS &&
	     (has->cpu_count != request->cpu_count ||
	      memcmp(has->cpus, request->cpus, has->cpu_count * sizeof(*has->cpus)))))
		return detail_set(detail, -EINVAL, "the claim is on another scope");
	if (has->source_count < request->source_count)
		return detail_set(detail, -EINVAL, "the claim has %u debug registers, not %u",
				  has->source_count, request->source_count);
	return 0;
}
