/* SPDX-License-Identifier: MIT */
/*
 * An event object: its life (object.h lists the steps of arming), what it takes in the ledger, what
 * of its scope it covers.
 */
#include "record/perf/object.h"

#include "arch/perf_registers.h"
#include "base/array.h"
#include "record/perf/cpus.h"
#include "record/perf/instance.h"
#include "record/perf/perf_record.h"
#include "record/perf/refused.h"
#include "record/perf/rings.h"
#include "record/perf/sampler.h"
#include "target/claim/holder.h"
#include "target/claim/ledger.h"
#include "target/claim/limits.h"
#include "target/process/ticks.h"
#include "target/trial/trial.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define LATE_PASSES 2
#define LATE_NS 4000000
#define MODIFY_PASSES 3
#define HOLDER_BYTES 512
#define BESIDE_MAX 3

static int perf_object_is_threads(const struct perf_object *object)
{
	return object->request.scope == EVENT_THREAD || object->request.scope == EVENT_PROCESS;
}

/* Whether what a thread starts has its events. */
static int perf_object_inherits(const struct perf_object *object)
{
	return object->request.scope == EVENT_PROCESS || object->request.flags & EVENT_CHILDREN;
}

/* Registers that a claim has for this object in the ledger, until it is armed. */
static uint64_t perf_object_reserved(const struct perf_object *object)
{
	return object->request.reserved ? object->request.reserved->claim_sources : 0;
}

static int request_check(const struct event_request *request)
{
	int is_threads = request->scope == EVENT_THREAD || request->scope == EVENT_PROCESS;

	if (request->scope < EVENT_THREAD || request->scope > EVENT_SYSTEM)
		return -EINVAL;
	if (!request->source_count || request->source_count > EVENT_SOURCES_MAX)
		return -EINVAL;
	if (is_threads && request->pid <= 0)
		return -EINVAL;
	if (request->scope == EVENT_CPUS && !request->cpu_count)
		return -EINVAL;
	if (!is_threads && request->flags & (EVENT_SIGNAL | EVENT_CHILDREN))
		return -EINVAL;
	if (request->flags & EVENT_SIGNAL && request->flags & EVENT_RINGS)
		return -EINVAL;
	return 0;
}

/* Copy a source into its place; its `what` stays where the new one has none. */
static void source_set(struct perf_object *object, unsigned int source,
		       const struct event_source *to)
{
	char *what = object->what[source];

	if (to->what && to->what != what) {
		strncpy(what, to->what, EVENT_WHAT_BYTES - 1);
		what[EVENT_WHAT_BYTES - 1] = '\0';
	}
	object->sources[source] = *to;
	object->sources[source].what = *what ? what : NULL;
}

static int request_copy(struct perf_object *object, const struct event_request *request)
{
	object->request = *request;
	object->request.cpus = NULL;
	object->request.sources = object->sources;
	for (unsigned int i = 0; i < request->source_count; i++)
		source_set(object, i, &request->sources[i]);
	if (request->scope == EVENT_CPUS) {
		size_t bytes = request->cpu_count * sizeof(*request->cpus);
		unsigned int *cpus = malloc(bytes);

		if (!cpus)
			return -ENOMEM;
		memcpy(cpus, request->cpus, bytes);
		object->request.cpus = cpus;
	}
	return 0;
}

/*
 * ---- the ledger ----
 *
 * What an object takes, in the ledger: written ahead of it, removed behind it
 * (target/claim/ledger.h). Rows are in this order: one for each source (on CPUs: for each source on
 * each), then what comes with them: descriptors, SIGTRAP, locked memory.
 */

static void say_what(struct claim *claim, const struct event_source *from)
{
	if (from->what)
		snprintf(claim->what, sizeof(claim->what), "%s", from->what);
	else
		snprintf(claim->what, sizeof(claim->what), "watch:0x%llx/%u",
			 (unsigned long long)from->address, from->bytes);
}

static void source_fill(struct claim *claim, const struct perf_object *object,
			const struct event_source *from)
{
	*claim = (struct claim){
		.resource = CLAIM_DEBUG_REGISTER,
		.scope = object->request.scope == EVENT_THREAD ? CLAIM_OF_THREAD : CLAIM_OF_PROCESS,
		.target = object->request.pid,
		.count = 1,
		.address = from->address,
		.bytes = from->bytes,
	};
	say_what(claim, from);
}

/* Row i is source i % sources; on CPUs, of one after the other. */
static void register_fill(struct claim *claim, const struct perf_object *object, size_t row)
{
	unsigned int sources = object->request.source_count;

	source_fill(claim, object, &object->sources[row % sources]);
	if (!object->claim_cpus)
		return;
	claim->scope = CLAIM_OF_CPU;
	claim->target = (int32_t)object->claim_cpus[row / sources];
}

/* Whichever CPUs there are now. */
static int cpus_of(const struct perf_object *object, unsigned int **cpus, size_t *count)
{
	if (object->request.scope == EVENT_SYSTEM)
		return cpus_online(cpus, count);
	*count = object->request.cpu_count;
	*cpus = malloc(*count * sizeof(**cpus));
	if (!*cpus)
		return -ENOMEM;
	memcpy(*cpus, object->request.cpus, *count * sizeof(**cpus));
	return 0;
}

static void descriptors_fill(struct claim *claim, const struct perf_object *object, size_t count)
{
	*claim = (struct claim){ .resource = CLAIM_DESCRIPTORS,
				 .scope = CLAIM_OF_PROCESS,
				 .target = getpid(),
				 .count = count };
	say_what(claim, &object->sources[0]);
}

static void memory_fill(struct claim *claim, const struct perf_object *object, uint64_t bytes)
{
	*claim = (struct claim){ .resource = CLAIM_LOCKED_MEMORY,
				 .scope = CLAIM_OF_USER,
				 .target = (int32_t)geteuid(),
				 .count = bytes };
	say_what(claim, &object->sources[0]);
}

/* Fill in the claims beside the registers; returns how many. */
static size_t beside_fill(struct claim *claims, const struct perf_object *object,
			  const struct event_needs *needs)
{
	size_t count = 0;

	descriptors_fill(&claims[count++], object, needs->descriptors);
	if (object->request.flags & EVENT_SIGNAL) {
		claims[count] = (struct claim){ .resource = CLAIM_SIGTRAP,
						.scope = CLAIM_OF_PROCESS,
						.target = object->request.pid,
						.count = 1 };
		say_what(&claims[count++], &object->sources[0]);
	}
	if (needs->rings)
		memory_fill(&claims[count++], object,
			    rings_locked_bytes(needs->rings, needs->ring_bytes));
	return count;
}

static void claims_remove(struct perf_object *object)
{
	if (object->claims)
		ledger_remove(object->request.ledger, object->claims, object->claim_count);
	free(object->claims);
	free(object->claim_cpus);
	object->claims = NULL;
	object->claim_cpus = NULL;
	object->claim_count = object->claim_sources = 0;
}

int object_claims_write(struct perf_object *object, const struct event_needs *needs,
			struct detail detail)
{
	size_t places = 1;
	struct claim *all;
	int err = 0;

	if (!object->request.ledger)
		return 0;
	if (!perf_object_is_threads(object))
		err = cpus_of(object, &object->claim_cpus, &places);
	if (err)
		return err;
	object->claim_sources = object->claim_count = places * object->request.source_count;
	object->claims = calloc(object->claim_count + BESIDE_MAX, sizeof(*object->claims));
	all = calloc(object->claim_count + BESIDE_MAX, sizeof(*all));
	for (size_t i = 0; all && i < object->claim_sources; i++)
		register_fill(&all[i], object, i);
	if (all)
		object->claim_count += beside_fill(all + object->claim_sources, object, needs);
	err = all && object->claims
		      ? limits_claim(object->request.ledger, all, object->claim_count,
				     object->claims, perf_object_reserved(object), detail)
		      : -ENOMEM;
	free(all);
	if (err)
		claims_remove(object);
	return err;
}

/* In front of what comes with the registers. */
int object_claims_add(struct perf_object *object, unsigned int cpu)
{
	unsigned int sources = object->request.source_count, *cpus;
	struct claim all[EVENT_SOURCES_MAX];
	uint64_t ids[EVENT_SOURCES_MAX], *claims;
	size_t rows = object->claim_sources;
	int err;

	if (!object->claims || cpus_has(object->claim_cpus, rows / sources, cpu))
		return 0;
	claims = reallocarray(object->claims, object->claim_count + sources, sizeof(*claims));
	if (claims)
		object->claims = claims;
	cpus = reallocarray(object->claim_cpus, rows / sources + 1, sizeof(*cpus));
	if (cpus)
		object->claim_cpus = cpus;
	if (!claims || !cpus)
		return -ENOMEM;
	cpus[rows / sources] = cpu;
	for (unsigned int i = 0; i < sources; i++)
		register_fill(&all[i], object, rows + i);
	err = limits_claim(object->request.ledger, all, sources, ids, 0, (struct detail){ 0 });
	if (err)
		return err;
	ledger_confirm(object->request.ledger, ids, sources);
	claims += rows;
	memmove(claims + sources, claims, (object->claim_count - rows) * sizeof(*claims));
	memcpy(claims, ids, sources * sizeof(*ids));
	object->claim_sources += sources;
	object->claim_count += sources;
	return 0;
}

static void claims_confirm(struct perf_object *object)
{
	struct claim claim;

	if (!object->claims)
		return;
	/* threads came and went since it was reckoned, and there may have been less memory */
	descriptors_fill(&claim, object, object->extent.count + object->rings.count);
	ledger_change(object->request.ledger, object->claims[object->claim_sources], &claim);
	if (object->rings.count) {
		memory_fill(&claim, object, rings_memory(&object->rings));
		ledger_change(object->request.ledger, object->claims[object->claim_count - 1],
			      &claim);
	}
	ledger_confirm(object->request.ledger, object->claims, object->claim_count);
}

void object_claims_change(struct perf_object *object)
{
	struct claim claim;

	if (!object->claims)
		return;
	for (size_t i = 0; i < object->claim_sources; i++) {
		register_fill(&claim, object, i);
		ledger_change(object->request.ledger, object->claims[i], &claim);
	}
}

static void claims_disarmed(struct perf_object *object)
{
	size_t kept = object->rings.count ? 1 : 0;

	if (!object->claims)
		return;
	ledger_remove(object->request.ledger, object->claims, object->claim_count - kept);
}

/*
 * Add the holder of what -WM_E_EVENT_TAKEN, -WM_E_NO_DESCRIPTORS or -WM_E_MEMORY_LIMIT refused to
 * the words. Searches all processes: do not call it while a process is stopped.
 */
static void claims_name_holder(const struct perf_object *object, int err, struct detail detail)
{
	pid_t tid = object->refused.tid > 0 ? object->refused.tid : 0;
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, tid, tid ? -1 : object->refused.cpu };
	char text[HOLDER_BYTES] = "";
	size_t used = detail.text ? strnlen(detail.text, detail.bytes) : detail.bytes;

	uint64_t taken = err == -WM_E_EVENT_TAKEN ? object->refused_taken : 0;

	if (err == -WM_E_NO_DESCRIPTORS)
		wanted = (struct claim_wanted){ CLAIM_DESCRIPTORS, getpid(), -1 };
	else if (err == -WM_E_MEMORY_LIMIT)
		wanted = (struct claim_wanted){ CLAIM_LOCKED_MEMORY, 0, -1 };
	else if (err != -WM_E_EVENT_TAKEN)
		return;
	if (used + 1 >= detail.bytes || !claim_holder_text_of(&wanted, taken, text, sizeof(text)))
		return;
	snprintf(detail.text + used, detail.bytes - used, "%s%s", used ? "; " : "", text);
}

/* ---- its events ---- */

static struct perf_object *object_of(struct extent *extent)
{
	return (struct perf_object *)(void *)((char *)extent -
					      offsetof(struct perf_object, extent));
}

static struct instance_form object_form(const struct perf_object *object)
{
	return (struct instance_form){
		.scope = object->request.scope,
		.flags = object->request.flags,
		.generation = object->generation,
		.is_exchanged = object->is_exchanged,
	};
}

/*
 * All sources in one place. They are a group unless threads run, or have rings. ring: NULL without
 * rings.
 */
static int open_place(struct perf_object *object, pid_t tid, int cpu, const struct cpu_ring *ring,
		      struct detail detail)
{
	struct extent *extent = &object->extent;
	struct instance_form form = object_form(object);
	int is_grouped = !ring && (tid < 0 || extent_is_stopped(extent)), leader = -1;

	if (extent_reserve(extent, object->request.source_count))
		return -ENOMEM;
	for (unsigned int i = 0; i < object->request.source_count; i++) {
		struct instance instance = {
			.tid = tid,
			.cpu = cpu,
			.source = i,
			.is_leader = !is_grouped || !i,
		};
		int err = instance_open(&instance, &object->sources[i], &form,
					instance.is_leader ? -1 : leader);

		if (err == -ESRCH)
			return err;
		if (err)
			return perf_object_refused(object, &instance, err, detail);
		extent_add(extent, &instance);
		leader = leader < 0 ? instance.fd : leader;
		if (ring)
			err = instance_to_ring(&instance, ring->fd);
		if (ring && !err)
			err = rings_add(&object->rings, instance.fd, i);
		if (err)
			return perf_object_refused(object, &instance, err, detail);
	}
	return 0;
}

/* A CPU that comes later has a ring and a claim first. */
static int open_all(struct extent *extent, pid_t tid, int cpu, struct detail detail)
{
	struct perf_object *object = object_of(extent);
	struct rings *rings = &object->rings;
	int err = 0;

	/* the kernel passes no place on: it is free until it is opened again */
	if (object->request.reserved)
		extent_close(&object->request.reserved->extent);
	if (cpu >= 0 && object->request.flags & EVENT_RINGS)
		err = rings_open_cpu(rings, (unsigned int)cpu);
	if (!err && tid < 0)
		err = object_claims_add(object, (unsigned int)cpu);
	if (!err && !rings->count)
		return open_place(object, tid, cpu, NULL, detail);
	for (unsigned int i = 0; i < rings->count && !err; i++)
		if (cpu < 0 || rings->all[i].cpu == (unsigned int)cpu)
			err = open_place(object, tid, (int)rings->all[i].cpu, &rings->all[i],
					 detail);
	return err;
}

/* What it counted is ours from here on. */
static void leave(struct extent *extent, const struct instance *instance)
{
	struct instance_count count;

	if (!instance_read(instance, &count))
		object_of(extent)->hits[instance->source] += count.hits;
}

static int lacks_ring(struct extent *extent, unsigned int cpu)
{
	return !rings_has(&object_of(extent)->rings, cpu);
}

/*
 * A CPU that was not even present when the rings were opened: open a ring, and an event for it on
 * each thread. Threads that start meanwhile might have the event or not. So where threads inherit
 * events, do this only while all threads are stopped.
 */
static int open_late(struct extent *extent, unsigned int cpu, uint64_t *open_ns,
		     struct detail detail)
{
	struct perf_object *object = object_of(extent);
	pid_t one = object->request.pid, *tids = NULL;
	size_t first = extent->count;
	int count = 1, err = rings_open_cpu(&object->rings, cpu);

	if (!err)
		err = extent_stop(extent);
	if (!err && !extent_is_stopped(extent) && perf_object_inherits(object))
		err = -WM_E_EVENT_CAME_LATER;
	if (!err && object->request.scope == EVENT_PROCESS)
		count = target_threads(one, &tids);
	if (count < 0)
		err = count;
	for (int i = 0; i < count && !err; i++) {
		err = open_all(extent, tids ? tids[i] : one, (int)cpu, detail);
		err = err == -ESRCH ? 0 : err;
	}
	for (size_t i = first; i < extent->count && !err; i++)
		instance_enable(&extent->opened[i]);
	*open_ns = ticks_monotonic_ns();
	extent_resume(extent);
	free(tids);
	if (err) {
		extent_close_from(extent, first);
		rings_close_cpu(&object->rings, cpu);
	}
	return err;
}

static const struct extent_way way = { open_all, leave, NULL, NULL };
static const struct extent_way way_rings = { open_all, leave, lacks_ring, open_late };

static void object_extent_set(struct perf_object *object)
{
	const struct event_request *request = &object->request;
	int is_threads = perf_object_is_threads(object), has_rings = request->flags & EVENT_RINGS;

	object->extent = (struct extent){
		.way = has_rings ? &way_rings : &way,
		.ids = is_threads ? &request->pid : NULL,
		.id_count = 1,
		.are_threads = request->scope == EVENT_THREAD,
		.stop = request->flags & EVENT_NO_STOP || request->pid == getpid()
				? EXTENT_STOP_NEVER
				: EXTENT_STOP_FIRST,
		.cpus = request->cpus,
		.cpu_count = request->cpu_count,
		.cgroup_fd = -1,
		.needs = request->source_count,
	};
}

int perf_object_new(struct perf_object **object, const struct event_request *request,
		    struct detail detail)
{
	struct perf_object *new;
	int err = request_check(request);

	*object = NULL;
	for (unsigned int i = 0; i < request->source_count && !err; i++)
		err = perf_source_check(&request->sources[i], request->flags, detail);
	if (err)
		return err;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	err = request_copy(new, request);
	object_extent_set(new);
	if (err)
		perf_object_release(new);
	else
		*object = new;
	return err;
}

/* ---- arming ---- */

/* Whether each kind of source works on this machine (target/trial/trial.h). */
static int sources_proven(const struct perf_object *object, const struct event_source *sources,
			  struct detail detail)
{
	static const enum trial of_event[] = {
		[EVENT_WRITE] = TRIAL_BREAKPOINT_WRITE,
		[EVENT_READ_WRITE] = TRIAL_BREAKPOINT_ACCESS,
		[EVENT_EXECUTE] = TRIAL_BREAKPOINT_EXECUTE,
	};
	int err = 0;

	for (unsigned int i = 0; i < object->request.source_count && !err; i++)
		err = trial_need(of_event[sources[i].kind], -WM_E_BREAKPOINT_DEAD, detail);
	if (!err && !perf_object_is_threads(object))
		err = trial_need(TRIAL_BREAKPOINT_CPU, -WM_E_BREAKPOINT_DEAD, detail);
	if (!err && object->request.flags & EVENT_SIGNAL)
		err = trial_need(TRIAL_BREAKPOINT_SIGNAL, -WM_E_BREAKPOINT_DEAD, detail);
	return err;
}

/*
 * Before the program is stopped; threads that start until then need more, and are refused by the
 * kernel at worst.
 */
static int needs_reckon(struct perf_object *object, struct event_needs *needs)
{
	unsigned int *cpus = NULL;
	int err = object->request.flags & EVENT_RINGS ? cpus_present(&cpus, &needs->rings) : 0;

	free(cpus);
	object->extent.needs = object->request.source_count;
	if (perf_object_is_threads(object) && needs->rings)
		object->extent.needs *= needs->rings;
	needs->descriptors = extent_wanted(&object->extent) + needs->rings;
	return err;
}

/* Whatever is taken is claimed before. */
static int prepare(struct perf_object *object, struct detail detail)
{
	struct event_needs needs = { 0 };
	int err = sources_proven(object, object->sources, detail);

	/* the kernel takes a breakpoint there, which never fires */
	if (!err && perf_object_is_threads(object) && target_is_kernels(object->request.pid))
		err = detail_set(detail, -EINVAL, "%d is a thread of the kernel, without a program",
				 (int)object->request.pid);
	if (!err)
		err = needs_reckon(object, &needs);
	if (!err)
		err = perf_descriptors_need(needs.descriptors, detail);
	needs.ring_bytes = object->request.ring_bytes;
	if (!err)
		err = object_claims_write(object, &needs, detail);
	if (needs.rings && !needs.ring_bytes)
		needs.ring_bytes = RINGS_LARGE_BYTES;
	while (err == -WM_E_LIMIT && needs.rings && !object->request.ring_bytes &&
	       needs.ring_bytes > RINGS_SMALL_BYTES) {
		needs.ring_bytes /= 2;
		err = object_claims_write(object, &needs, detail);
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
	struct instance_form form = object_form(object);
	struct instance one = { .tid = object->request.pid, .cpu = -1, .is_leader = 1 };
	int err;

	if (!perf_object_is_threads(object))
		return 0;
	object->is_exchanged = !instance_keeps_place();
	/* what a thread starts meanwhile is to have none of it */
	form.flags &= ~(unsigned int)EVENT_CHILDREN;
	form.scope = EVENT_THREAD;
	if (object->request.reserved) /* known to be had */
		return 0;
	err = instance_open(&one, &object->sources[0], &form, -1);
	if (!err)
		close(one.fd);
	/* its first thread may have ended */
	return err && err != -ESRCH ? perf_object_refused(object, &one, err, detail) : 0;
}

static int open_extent(struct perf_object *object, struct detail detail)
{
	int err = extent_open(&object->extent, detail);

	if (!err && object->extent.is_doubtful)
		err = detail_set(detail, -WM_E_STRICT,
				 "it keeps starting threads, and can't be stopped");
	return err;
}

/*
 * Identifies the program that a process runs, as far as it is shown: where its stack began, and its
 * file. A first thread that has ended shows neither, but then another program can't have come.
 */
static uint64_t program_id(pid_t pid)
{
	uint64_t stack = target_first_stack(pid);
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &file))
		return stack;
	return stack ^ (uint64_t)file.st_ino << 20 ^ (uint64_t)file.st_dev << 52;
}

/*
 * All is open. A thread that was just started while they run has the state that its creator's
 * events had before, for the kernel holds no lock over both: so enable again a little later.
 */
static int enable_all(struct perf_object *object)
{
	const struct event_request *request = &object->request;
	int is_running = request->scope == EVENT_PROCESS && !extent_is_stopped(&object->extent);
	int err = request->settle ? request->settle(request->settle_data, object->generation) : 0;

	if (err)
		return err;
	extent_enable(&object->extent);
	object->program = program_id(request->pid);
	for (int i = 0; i < LATE_PASSES && is_running; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = LATE_NS }, NULL);
		extent_enable(&object->extent);
	}
	object->armed_ns = object->extent.begun_ns = ticks_monotonic_ns();
	object->was_stopped = (uint8_t)extent_is_stopped(&object->extent);
	return 0;
}

/* Arming failed: the claim takes its places again. */
static void reserve_again(struct perf_object *reserved, struct detail detail)
{
	char words[256] = "";
	int err;

	if (!reserved || reserved->state != EVENT_RESERVED || reserved->extent.count)
		return;
	err = open_extent(reserved, (struct detail){ words, sizeof(words) });
	extent_resume(&reserved->extent);
	if (err) {
		size_t used = strnlen(detail.text, detail.bytes);

		perf_object_disarm(reserved);
		if (used < detail.bytes)
			snprintf(detail.text + used, detail.bytes - used,
				 "; what was reserved is lost: %s", words);
	}
}

/* preparing -> armed or reserved */
static int open_to(struct perf_object *object, enum event_state state, struct detail detail)
{
	int err;

	if (object->state != EVENT_PREPARING)
		return -EINVAL;
	err = prepare(object, detail);
	if (!err)
		err = try_one(object, detail);
	if (!err)
		err = open_extent(object, detail);
	if (!err && state == EVENT_ARMED)
		err = enable_all(object);
	extent_resume(&object->extent);
	if (!err) {
		object->state = state;
		claims_confirm(object);
		return 0;
	}
	extent_close(&object->extent);
	rings_release(&object->rings);
	claims_remove(object);
	claims_name_holder(object, err, detail);
	reserve_again(object->request.reserved, detail);
	return err;
}

int perf_object_arm(struct perf_object *object, struct detail detail)
{
	int err = open_to(object, EVENT_ARMED, detail);

	if (err)
		return err;
	if (object->request.reserved)
		perf_object_disarm(object->request.reserved);
	object->request.reserved = NULL;
	return 0;
}

int perf_object_reserve(struct perf_object *object, struct detail detail)
{
	return open_to(object, EVENT_RESERVED, detail);
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

void perf_object_let_stop(struct perf_object *object)
{
	if (object->request.pid != getpid())
		object->extent.stop = EXTENT_STOP_FIRST;
}

/* ---- CPUs that come later ---- */

int perf_object_follow(struct perf_object *object, struct detail detail)
{
	struct extent *extent = &object->extent;
	size_t events = extent->count, first = extent->uncovered_count;
	int err;

	if (object->state != EVENT_ARMED || object->disarmed_ns)
		return -EINVAL;
	err = extent_follow(extent, detail);
	for (size_t i = first; i < extent->uncovered_count; i++)
		rings_missed(&object->rings, (unsigned int)extent->uncovered[i].cpu,
			     extent->uncovered[i].first_ns, extent->uncovered[i].last_ns);
	if (extent->count != events)
		claims_confirm(object);
	return err;
}

const struct event_uncovered *perf_object_uncovered(const struct perf_object *object, size_t *count)
{
	*count = object->extent.uncovered_count;
	return object->extent.uncovered;
}

/*
 * ---- changed in place ----
 *
 * The kernel changes an event and what inherited it one after the other, each by disable, change,
 * enable; at an error it stops where it is, and leaves the one that failed off if it had been
 * opened disabled. So whatever happens, all that may have been touched are given the old source
 * again, which enables them.
 */

/* Modify instances from `first`, which counts down to 0 at `end`. *done: how many were modified. */
static int change(const struct perf_object *object, const struct event_source *sources,
		  uint8_t generation, size_t end, size_t *done)
{
	struct instance_form form = object_form(object);

	form.generation = generation;
	for (size_t i = 0; i < end; i++) {
		int err = instance_modify(&object->extent.opened[i],
					  &sources[object->extent.opened[i].source], &form);

		if (err) {
			*done = i;
			return err;
		}
	}
	*done = end;
	return 0;
}

/* Those that were changed, and the one that refused. */
static int put_back(struct perf_object *object, size_t changed)
{
	size_t end = changed < object->extent.count ? changed + 1 : changed, done;

	return change(object, object->sources, object->generation, end, &done);
}

/*
 * A thread that was started meanwhile may have some of the old and some of the new, for the kernel
 * copies the source without its lock. So while they run, change all again as long as there are
 * newcomers.
 */
static int change_running(const struct perf_object *object, const struct event_source *sources,
			  uint8_t generation, size_t *changed)
{
	int err = 0, is_same = 0;

	for (int i = 0; i <= MODIFY_PASSES && !err && !is_same; i++) {
		pid_t *tids = NULL;
		int count = target_threads(object->request.pid, &tids);

		err = change(object, sources, generation, object->extent.count, changed);
		is_same = extent_threads_are(object->request.pid, tids, count);
		free(tids);
		if (err && i) /* the passes before changed all */
			*changed = object->extent.count;
	}
	return err;
}

static int change_all(struct perf_object *object, const struct event_source *sources,
		      int is_stopped, uint8_t generation, struct detail detail)
{
	int is_running = object->request.scope == EVENT_PROCESS && !is_stopped;
	size_t changed = 0;
	int err = is_running ? change_running(object, sources, generation, &changed)
			     : change(object, sources, generation, object->extent.count, &changed);

	if (err && changed < object->extent.count)
		/* what the kernel says of none, it says of the first */
		detail_set(detail, err, "source %u", object->extent.opened[changed].source);
	if (!err && object->request.settle)
		err = object->request.settle(object->request.settle_data, generation);
	if (err && put_back(object, changed))
		return detail_set(detail, -WM_E_EVENT_TORN, "%zu events", object->extent.count);
	return err;
}

int perf_object_modify(struct perf_object *object, const struct event_source *sources,
		       enum event_modify how, struct event_gap *gap, struct detail detail)
{
	struct event_gap own = { .generation = object->generation };
	uint8_t generation = (uint8_t)(object->generation + 1);
	int is_stopped = 0;
	int err = object->state == EVENT_ARMED && !object->disarmed_ns ? 0 : -EINVAL;

	for (unsigned int i = 0; i < object->request.source_count && !err; i++)
		err = perf_source_check(&sources[i], object->request.flags, detail);
	if (!err)
		err = sources_proven(object, sources, detail);
	if (!err && how == EVENT_MODIFY_STOPPED)
		err = extent_stop(&object->extent);
	if (!err) {
		object->state = EVENT_MODIFYING; /* armed -> modifying */
		is_stopped = extent_is_stopped(&object->extent);
		own.first_ns = ticks_monotonic_ns();
		err = change_all(object, sources, is_stopped, generation, detail);
		own.last_ns = ticks_monotonic_ns();
		own.was_stopped = (uint8_t)is_stopped;
		object->state = EVENT_ARMED; /* modifying -> armed */
		if (!err) {
			object->generation = own.generation = generation;
			for (unsigned int i = 0; i < object->request.source_count; i++)
				source_set(object, i, &sources[i]);
		}
	}
	extent_resume(&object->extent);
	if (!err)
		object_claims_change(object);
	if (err == -WM_E_EVENT_TORN)
		perf_object_disarm(object);
	if (gap)
		*gap = own;
	return err;
}

/* ---- hits read from the rings; those outside of armed are counted and dropped ---- */

static int is_within(const struct perf_object *object, uint64_t time_ns)
{
	return time_ns >= object->armed_ns &&
	       (!object->disarmed_ns || time_ns <= object->disarmed_ns);
}

struct draining {
	struct perf_object *object;
	struct sampler_form form;
	int is_lacking;
	int (*take)(void *data, const struct event_record *record);
	void *data;
};

/* The instruction's own address comes first, and the kernel's marks are between. */
static void callers_take(struct event_record *hit, const struct sampler_record *from)
{
	int is_first = 1;

	for (size_t i = 0; i < from->caller_count; i++) {
		uint64_t address;

		memcpy(&address, (const uint8_t *)from->callers + i * sizeof(address),
		       sizeof(address));
		if (address >= (uint64_t)PERF_CONTEXT_MAX)
			continue;
		if (!is_first && hit->caller_count < EVENT_CALLERS_MAX)
			hit->callers[hit->caller_count++] = address;
		is_first = 0;
	}
}

static int hit_take(struct draining *draining, const struct sampler_record *from,
		    unsigned int source, unsigned int cpu, uint64_t time_ns)
{
	struct perf_object *object = draining->object;
	struct event_record hit = {
		.time_ns = time_ns,
		.ip = from->ip,
		.address = object->sources[source].address,
		.pid = from->pid,
		.tid = from->tid,
		.cpu = cpu,
		.source = source,
		.has_regs = from->user_regs_abi == PERF_SAMPLE_REGS_ABI_64,
		.is_kernel = (uint8_t)from->is_kernel,
	};

	hit.after_loss = (uint8_t)(rings_after_loss(&object->rings, time_ns) |
				   draining->is_lacking);
	if (!is_within(object, time_ns)) {
		object->stray++;
		object->strays[source]++;
		return 0;
	}
	if (hit.has_regs) {
		memcpy(hit.regs, from->user_regs, sizeof(hit.regs));
		if (!(draining->form.user_regs & PERF_REGISTER_IP_BIT))
			hit.regs[perf_register_ip] = hit.ip;
	}
	callers_take(&hit, from);
	object->taken++;
	return draining->take(draining->data, &hit);
}

static int record_take(void *data, const struct perf_event_header *header, unsigned int cpu,
		       uint64_t time_ns)
{
	struct draining *draining = data;
	struct perf_object *object = draining->object;
	struct sampler_record sample;
	struct perf_record record;
	unsigned int source;

	if (header->type == PERF_RECORD_FORK && !perf_record_read(&record, header, RINGS_COMMON))
		object->forks += record.pid != record.ppid; /* a thread's are of one process */
	if (header->type != PERF_RECORD_SAMPLE)
		return 0;
	if (rings_sample_source(&object->rings, header, &source) &&
	    sampler_sample_read(header, &draining->form, &sample) > 0)
		return hit_take(draining, &sample, source, cpu, time_ns);
	object->stray++;
	return 0;
}

int perf_object_drain(struct perf_object *object, int is_last,
		      int (*take)(void *data, const struct event_record *record), void *data)
{
	int has_read = perf_object_is_threads(object) && perf_object_inherits(object) &&
		       !object->is_exchanged;
	struct draining draining = {
		.object = object,
		.form = { .sample_type = rings_sample_type(object->request.flags) |
					 (has_read ? PERF_SAMPLE_READ : 0),
			  .user_regs = rings_registers(object->request.flags) },
		.is_lacking = extent_is_lacking(&object->extent),
		.take = take,
		.data = data,
	};
	int err = object->request.flags & EVENT_RINGS ? rings_fill(&object->rings) : -EINVAL;

	return err ? err : rings_hand_over(&object->rings, is_last, record_take, &draining);
}

uint64_t perf_object_forks(const struct perf_object *object)
{
	return object->forks;
}

/*
 * The kernel's records of losses come with the next that finds room; the counts know of the last
 * ones too.
 */
uint64_t perf_object_lost(const struct perf_object *object)
{
	uint64_t hits = 0, lost = 0;
	uint64_t reported = object->taken + object->stray + rings_pending(&object->rings);

	for (unsigned int i = 0; i < object->rings.count; i++)
		lost += object->rings.all[i].lost_reported;
	if (object->state != EVENT_DISARMED || !(object->request.flags & EVENT_RINGS))
		return lost;
	for (unsigned int i = 0; i < object->request.source_count; i++)
		hits += object->hits[i];
	return hits > reported ? hits - reported : 0;
}

uint64_t perf_object_stray_of(const struct perf_object *object, unsigned int source)
{
	return object->strays[source];
}

uint64_t perf_object_stray(const struct perf_object *object)
{
	return object->stray;
}

int perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits)
{
	*hits = 0;
	if (source >= object->request.source_count)
		return -EINVAL;
	*hits = object->hits[source];
	for (size_t i = 0; i < object->extent.count; i++) {
		struct instance_count one;
		int err;

		if (object->extent.opened[i].source != source)
			continue;
		err = instance_read(&object->extent.opened[i], &one);
		if (err)
			return err;
		*hits += one.hits;
	}
	return 0;
}

/* ---- its end ---- */

void perf_object_quiet(struct perf_object *object)
{
	if (object->state != EVENT_ARMED || object->disarmed_ns)
		return;
	extent_follow_end(&object->extent);
	object->disarmed_ns = ticks_monotonic_ns();
	extent_disable(&object->extent);
}

void perf_object_disarm(struct perf_object *object)
{
	if (object->state == EVENT_ARMED) {
		perf_object_quiet(object);
		for (unsigned int i = 0; i < object->request.source_count; i++) {
			uint64_t hits;

			perf_object_count(object, i, &hits);
			object->hits[i] = hits;
		}
	}
	extent_close(&object->extent);
	claims_disarmed(object);
	object->state = EVENT_DISARMED;
}

static void perf_object_free(struct perf_object *object)
{
	free((void *)object->request.cpus);
	extent_release(&object->extent);
	rings_release(&object->rings);
	claims_remove(object);
	free(object);
}

void perf_object_release(struct perf_object *object)
{
	if (!object)
		return;
	perf_object_disarm(object);
	perf_object_free(object);
}

/* No ioctl(2): it would reach the owner's. */
void perf_object_leave(struct perf_object *object)
{
	if (!object)
		return;
	extent_close(&object->extent);
	perf_object_free(object);
}

enum event_state perf_object_state(const struct perf_object *object)
{
	return object->state;
}

uint64_t perf_object_armed_ns(const struct perf_object *object)
{
	return object->armed_ns;
}

uint64_t perf_object_disarmed_ns(const struct perf_object *object)
{
	return object->disarmed_ns;
}

uint8_t perf_object_generation(const struct perf_object *object)
{
	return object->generation;
}

const struct event_source *perf_object_sources(const struct perf_object *object)
{
	return object->sources;
}

/*
 * ---- what is covered ----
 *
 * What of the scope is covered now. A thread that came later has its creator's events, unless the
 * program was replaced by another, which ends all threads but its first and takes the events from
 * that. The kernel says nothing of it: the registers stay accounted as long as we have the
 * descriptors. So look whether it is still the program that it was.
 */

/* Events that were opened together, sorted by thread or CPU. */
struct group {
	pid_t tid;
	int cpu;
	int is_there;
};

struct groups {
	struct group *all;
	unsigned int count;
	int is_replaced; /* the program */
};

static int by_place(const void *a, const void *b)
{
	const struct group *left = a, *right = b;

	if (left->tid != right->tid)
		return (left->tid > right->tid) - (left->tid < right->tid);
	return (left->cpu > right->cpu) - (left->cpu < right->cpu);
}

static int groups_read(struct groups *groups, const struct perf_object *object)
{
	const struct extent *extent = &object->extent;
	unsigned int kept = 0;

	*groups = (struct groups){ .all = calloc(extent->count + 1, sizeof(*groups->all)) };
	if (!groups->all)
		return -ENOMEM;
	for (size_t i = 0; i < extent->count; i++)
		groups->all[i] = (struct group){
			.tid = extent->opened[i].tid,
			.cpu = extent->opened[i].tid > 0 ? -1 : extent->opened[i].cpu,
		};
	qsort(groups->all, extent->count, sizeof(*groups->all), by_place);
	for (size_t i = 0; i < extent->count; i++)
		if (!kept || by_place(&groups->all[i], &groups->all[kept - 1]))
			groups->all[kept++] = groups->all[i];
	groups->count = kept;
	return 0;
}

static struct group *group_find(const struct groups *groups, pid_t tid, int cpu)
{
	struct group key = { .tid = tid, .cpu = cpu };

	return groups->count ? bsearch(&key, groups->all, groups->count, sizeof(key), by_place)
			     : NULL;
}

static int missing_add(struct event_coverage *coverage, pid_t tid, int cpu, int error)
{
	size_t room = coverage->missing_room;

	if (array_grow(&coverage->missing, &room, coverage->missing_count + 1,
		       sizeof(*coverage->missing)))
		return -ENOMEM;
	coverage->missing_room = (unsigned int)room;
	coverage->missing[coverage->missing_count++] = (struct event_missing){
		.tid = tid,
		.cpu = cpu,
		.error = error,
	};
	return 0;
}

/* A thread that is there now. */
static int thread_cover(struct event_coverage *coverage, const struct perf_object *object,
			const struct groups *groups, pid_t tid)
{
	struct group *group = group_find(groups, tid, -1);
	char state = target_thread_state(object->request.pid, tid);

	if (!state || state == 'Z' || state == 'X') /* a leader that has ended before the others */
		return 0;
	coverage->wanted++;
	if (object->state != EVENT_ARMED)
		return 0;
	if (group)
		group->is_there = 1;
	if (groups->is_replaced)
		return missing_add(coverage, tid, -1, -WM_E_EVENT_EXEC);
	if (group)
		coverage->opened++;
	else
		coverage->inherited++;
	return 0;
}

static int threads_cover(struct event_coverage *coverage, const struct perf_object *object,
			 struct groups *groups)
{
	pid_t one = object->request.pid, *tids = NULL;
	uint64_t now;
	int count = 1, err = 0;

	if (object->request.scope == EVENT_PROCESS)
		count = target_threads(object->request.pid, &tids);
	else if (!target_thread_state(one, one) && target_status_number(one, "Tgid") < 0)
		count = -ESRCH;
	if (count < 0)
		err = count == -ESRCH ? -WM_E_GONE : count;
	now = program_id(object->request.pid);
	groups->is_replaced = object->state == EVENT_ARMED && now && now != object->program;
	for (int i = 0; i < count && !err; i++)
		err = thread_cover(coverage, object, groups, tids ? tids[i] : one);
	free(tids);
	return err;
}

/* A CPU that is online. */
static int cpu_cover(struct event_coverage *coverage, const struct perf_object *object,
		     const struct groups *groups, int cpu)
{
	const struct place *place = extent_place(&object->extent, cpu);
	struct group *group = group_find(groups, -1, cpu);
	uint64_t enabled_ns;

	if (!place && object->request.scope != EVENT_SYSTEM)
		return 0;
	coverage->wanted++;
	if (object->state != EVENT_ARMED)
		return 0;
	if (group && place && extent_place_lives(&object->extent, cpu, &enabled_ns)) {
		coverage->opened++;
		return 0;
	}
	if (place && place->error && place->error != -ENODEV)
		return missing_add(coverage, -1, cpu, place->error);
	return missing_add(coverage, -1, cpu,
			   place ? -WM_E_EVENT_CPU_BACK : -WM_E_EVENT_CAME_LATER);
}

static int cpus_cover(struct event_coverage *coverage, const struct perf_object *object,
		      struct groups *groups)
{
	size_t count;
	unsigned int *cpus;
	int err = cpus_online(&cpus, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = cpu_cover(coverage, object, groups, (int)cpus[i]);
	for (size_t i = 0; i < object->extent.place_count && !err; i++) {
		int cpu = object->extent.places[i].cpu;

		if (object->state != EVENT_ARMED || cpus_has(cpus, count, (unsigned int)cpu))
			continue;
		coverage->wanted++;
		err = missing_add(coverage, -1, cpu, -ENODEV);
	}
	free(cpus);
	return err;
}

/* Rings are of the CPUs that were there; threads on others are not seen. */
static int rings_cover(struct event_coverage *coverage, const struct perf_object *object)
{
	size_t count;
	unsigned int *cpus;
	int err;

	if (!object->rings.count || object->state != EVENT_ARMED)
		return 0;
	err = cpus_online(&cpus, &count);
	for (size_t i = 0; i < count && !err; i++) {
		const struct place *place = extent_place(&object->extent, (int)cpus[i]);
		int why = place ? place->error : 0;

		if (!rings_has(&object->rings, cpus[i]))
			err = missing_add(coverage, -1, (int)cpus[i],
					  why && why != -ENODEV ? why : -WM_E_EVENT_CAME_LATER);
	}
	free(cpus);
	return err;
}

unsigned int perf_object_starved(const struct perf_object *object, unsigned int source)
{
	unsigned int starved = 0;

	for (size_t i = 0; i < object->extent.count; i++) {
		const struct instance *instance = &object->extent.opened[i];
		struct instance_count count;

		/* one for each CPU of a thread's runs on one at a time */
		if (instance->source != source || (instance->tid > 0 && instance->cpu >= 0))
			continue;
		if (!instance_read(instance, &count))
			starved += count.third < count.enabled_ns;
	}
	return starved;
}

int perf_object_coverage(struct perf_object *object, struct event_coverage *coverage)
{
	struct groups groups;
	int err = groups_read(&groups, object);

	*coverage = (struct event_coverage){
		.was_stopped = object->was_stopped,
		.sees_kernel = (object->request.flags & EVENT_KERNEL) != 0,
	};
	if (err)
		return err;
	if (perf_object_is_threads(object))
		err = threads_cover(coverage, object, &groups);
	if (!err && perf_object_is_threads(object))
		err = rings_cover(coverage, object);
	else if (!err)
		err = cpus_cover(coverage, object, &groups);
	for (unsigned int i = 0; i < object->request.source_count; i++)
		coverage->starved += perf_object_starved(object, i);
	for (unsigned int i = 0; i < groups.count && perf_object_is_threads(object); i++)
		coverage->ended += !groups.all[i].is_there;
	free(groups.all);
	if (err)
		perf_coverage_release(coverage);
	return err;
}

void perf_coverage_release(struct event_coverage *coverage)
{
	free(coverage->missing);
	coverage->missing = NULL;
	coverage->missing_count = coverage->missing_room = 0;
}
