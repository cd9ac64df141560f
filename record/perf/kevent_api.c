/* SPDX-License-Identifier: MIT */
/* The public API of event objects. waymark/kevent.h documents its promises. */
#include "target/process/call.h"
#include "record/perf/claim_places.h"
#include "record/perf/object.h"
#include "record/perf/sized_copy.h"
#include "target/claim/ledger.h"
#include "target/process/pollable.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/kevent.h>

#define DETAIL_BYTES 1024
/* as of the release that had them first */
#define SOURCE_BYTES (offsetof(struct wm_kevent_source, what) + sizeof(const char *))
#define REQUEST_BYTES (offsetof(struct wm_kevent_request, follow) + sizeof(enum wm_follow))
#ifndef PIDFD_THREAD
#define PIDFD_THREAD 0200u /* O_EXCL; Linux 6.9 */
#endif
#define RING_BYTES_MIN 4096u
#define RING_BYTES_MAX (1u << 30)
#define FLAGS_ALL                                                                                  \
	(WM_KEVENT_FLAG_SIGNAL | WM_KEVENT_FLAG_RINGS | WM_KEVENT_FLAG_KERNEL |                    \
	 WM_KEVENT_FLAG_NO_STOP)

_Static_assert(WM_KEVENT_KIND_WRITE == (int)EVENT_WRITE &&
		       WM_KEVENT_KIND_READ_WRITE == (int)EVENT_READ_WRITE &&
		       WM_KEVENT_KIND_EXECUTE == (int)EVENT_EXECUTE &&
		       WM_KEVENT_SCOPE_THREAD == (int)EVENT_THREAD &&
		       WM_KEVENT_SCOPE_PROCESS == (int)EVENT_PROCESS &&
		       WM_KEVENT_SCOPE_CPUS == (int)EVENT_CPUS &&
		       WM_KEVENT_SCOPE_SYSTEM == (int)EVENT_SYSTEM &&
		       WM_KEVENT_FLAG_SIGNAL == EVENT_SIGNAL &&
		       WM_KEVENT_FLAG_RINGS == EVENT_RINGS &&
		       WM_KEVENT_FLAG_KERNEL == EVENT_KERNEL &&
		       WM_KEVENT_FLAG_NO_STOP == EVENT_NO_STOP &&
		       WM_KEVENT_STATE_PREPARING == (int)EVENT_PREPARING &&
		       WM_KEVENT_STATE_DISARMED == (int)EVENT_DISARMED &&
		       WM_KEVENT_SOURCES_MAX == EVENT_SOURCES_MAX,
	       "inside and outside they are the same numbers");

struct wm_kevent {
	struct perf_object *inner;
	struct wm_kevent_request request; /* as it was opened; its pointers are not valid */
	struct ledger *ledger;
	struct wm_claim *claim; /* whose places it takes; NULL: none */
	pid_t owner;		/* the process that opened it */
	int is_reading;
	int pidfd;		   /* of the process or thread, once armed; -1: none */
	struct pollable *pollable; /* wm_kevent_fd(); NULL: the caller did not ask for it */
	char detail[DETAIL_BYTES];
};

static _Thread_local char open_detail[DETAIL_BYTES]; /* of what could not be opened */

/* Where an object's words go; NULL: those of what could not be opened. */
static struct detail words(struct wm_kevent *object)
{
	return (struct detail){ object ? object->detail : open_detail, DETAIL_BYTES };
}

const char *wm_kevent_detail(const struct wm_kevent *object)
{
	return object ? object->detail : open_detail;
}

/* Each call but detail and close. */
static int enter(struct wm_kevent *object)
{
	if (!object)
		return -EINVAL;
	if (object->owner != getpid())
		return -ECHILD;
	if (object->is_reading)
		return -EDEADLK;
	object->detail[0] = '\0';
	return 0;
}

/* ---- what comes in ---- */

static int source_take(struct event_source *to, const struct wm_kevent_source *from, unsigned int i,
		       uint32_t flags, struct detail detail)
{
	struct wm_kevent_source source;
	int err = sized_copy(&source, sizeof(source), from, from->size, SOURCE_BYTES);

	if (err)
		return detail_set(detail, err, "sources[%u].size: %zu", i, from->size);
	if (source.kind < WM_KEVENT_KIND_WRITE || source.kind > WM_KEVENT_KIND_EXECUTE)
		return detail_set(detail, -EINVAL, "sources[%u].kind: %d", i, (int)source.kind);
	if (flags & WM_KEVENT_FLAG_SIGNAL && source.data & EVENT_OBJECT_BITS)
		return detail_set(detail, -EINVAL, "sources[%u].data: its low 16 bits are not 0",
				  i);
	*to = (struct event_source){
		.kind = (enum event_kind)source.kind,
		.bytes = source.bytes,
		.address = source.address,
		.sig_data = source.data,
		.what = source.what,
	};
	return 0;
}

static int sources_take(struct event_source to[EVENT_SOURCES_MAX],
			const struct wm_kevent_source *from, unsigned int count, uint32_t flags,
			struct detail detail)
{
	const unsigned char *at = (const unsigned char *)from;
	int err = 0;

	if (!from || !count || count > WM_KEVENT_SOURCES_MAX)
		return detail_set(detail, -EINVAL, "sources: %u, from 1 to %d", from ? count : 0,
				  WM_KEVENT_SOURCES_MAX);
	for (unsigned int i = 0; i < count && !err; i++) {
		const struct wm_kevent_source *one = (const void *)(at + i * from->size);

		if (i && one->size != from->size)
			return detail_set(detail, -EINVAL,
					  "sources[%u].size: %zu, of the first %zu", i, one->size,
					  from->size);
		err = source_take(&to[i], one, i, flags, detail);
	}
	return err;
}

static int flags_check(const struct wm_kevent_request *request, struct detail detail)
{
	int is_threads = request->scope == WM_KEVENT_SCOPE_THREAD ||
			 request->scope == WM_KEVENT_SCOPE_PROCESS;
	uint32_t flags = request->flags;

	if (flags & ~FLAGS_ALL)
		return detail_set(detail, -EINVAL, "request.flags: %#x is not known",
				  flags & ~FLAGS_ALL);
	if (flags & WM_KEVENT_FLAG_SIGNAL && flags & WM_KEVENT_FLAG_RINGS)
		return detail_set(detail, -EINVAL, "request.flags: a signal or rings, not both");
	if (!is_threads && flags & WM_KEVENT_FLAG_SIGNAL)
		return detail_set(detail, -EINVAL,
				  "request.flags: WM_KEVENT_FLAG_SIGNAL is not for CPUs");
	if (request->follow > WM_FOLLOW_CHILDREN)
		return detail_set(detail, -EINVAL, "request.follow: %d", (int)request->follow);
	if (!is_threads && request->follow == WM_FOLLOW_CHILDREN)
		return detail_set(detail, -EINVAL,
				  "request.follow: WM_FOLLOW_CHILDREN is not for CPUs");
	return 0;
}

static int request_check(const struct wm_kevent_request *request, struct detail detail)
{
	int is_threads = request->scope == WM_KEVENT_SCOPE_THREAD ||
			 request->scope == WM_KEVENT_SCOPE_PROCESS;
	uint32_t ring_bytes = request->ring_bytes;

	if (request->scope < WM_KEVENT_SCOPE_THREAD || request->scope > WM_KEVENT_SCOPE_SYSTEM)
		return detail_set(detail, -EINVAL, "request.scope: %d", (int)request->scope);
	if (is_threads && request->pid <= 0)
		return detail_set(detail, -EINVAL, "request.pid: %d", (int)request->pid);
	if (request->scope == WM_KEVENT_SCOPE_CPUS && (!request->cpus || !request->cpu_count))
		return detail_set(detail, -EINVAL, "request.cpus: none");
	if (ring_bytes && (ring_bytes & (ring_bytes - 1) || ring_bytes < RING_BYTES_MIN ||
			   ring_bytes > RING_BYTES_MAX || !(request->flags & WM_KEVENT_FLAG_RINGS)))
		return detail_set(detail, -EINVAL, "request.ring_bytes: %u%s", ring_bytes,
				  request->flags & WM_KEVENT_FLAG_RINGS
					  ? ""
					  : ", without WM_KEVENT_FLAG_RINGS");
	return flags_check(request, detail);
}

/* ---- its life ---- */

static int inner_new(struct wm_kevent *object, const struct wm_kevent_request *from)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request = {
		.scope = (enum event_scope)from->scope,
		.flags = from->flags |
			 (from->follow == WM_FOLLOW_CHILDREN ? (uint32_t)EVENT_CHILDREN : 0),
		.pid = from->pid,
		.cpus = from->cpus,
		.cpu_count = from->cpu_count,
		.sources = sources,
		.source_count = from->source_count,
		.ring_bytes = from->ring_bytes,
	};
	int err = sources_take(sources, from->sources, from->source_count, from->flags,
			       words(object));

	if (!err)
		err = ledger_new(&object->ledger);
	if (!err && from->claim)
		err = claim_places(from->claim, &request, words(object));
	request.ledger = object->ledger;
	if (!err)
		err = perf_object_new(&object->inner, &request, words(object));
	if (!err)
		object->claim = from->claim;
	return err;
}

int wm_kevent_open(struct wm_kevent **object, const struct wm_kevent_request *request)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_kevent *new;
	struct wm_kevent_request own;
	int err;

	open_detail[0] = '\0';
	if (!object)
		return detail_set(words(NULL), -EINVAL, "no place for the object");
	*object = NULL;
	if (!request)
		return detail_set(words(NULL), -EINVAL, "no request");
	err = sized_copy(&own, sizeof(own), request, request->size, REQUEST_BYTES);
	if (err)
		return detail_set(words(NULL), err, "request.size: %zu", request->size);
	err = request_check(&own, words(NULL));
	if (err)
		return err;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->owner = getpid();
	new->request = own;
	new->pidfd = -1;
	err = inner_new(new, &own);
	if (err) {
		memcpy(open_detail, new->detail, sizeof(open_detail));
		wm_kevent_close(new);
		return err;
	}
	*object = new;
	return 0;
}

static int is_of_target(const struct wm_kevent *object)
{
	return object->request.scope == WM_KEVENT_SCOPE_THREAD ||
	       object->request.scope == WM_KEVENT_SCOPE_PROCESS;
}

/*
 * Hits are in memory, where only a look finds them; and so is the end of a target without a pidfd.
 */
static void update_tick(const struct wm_kevent *object)
{
	int is_armed = perf_object_state(object->inner) == EVENT_ARMED;

	pollable_tick(object->pollable, is_armed && (object->request.flags & WM_KEVENT_FLAG_RINGS ||
						     (is_of_target(object) && object->pidfd < 0)));
}

/* Armed: from here on its end is noticed. Before Linux 6.9 there is no pidfd of a thread. */
static void watch_target(struct wm_kevent *object)
{
	unsigned int flags = object->request.scope == WM_KEVENT_SCOPE_THREAD ? PIDFD_THREAD : 0;

	if (is_of_target(object))
		object->pidfd = (int)syscall(SYS_pidfd_open, object->request.pid, flags);
	if (object->pidfd >= 0)
		pollable_add(object->pollable, object->pidfd);
	update_tick(object);
}

static int has_target_ended(const struct wm_kevent *object)
{
	struct pollfd end = { .fd = object->pidfd, .events = POLLIN };
	struct target target;
	char state;

	if (!is_of_target(object) || !perf_object_armed_ns(object->inner))
		return 0;
	if (object->pidfd >= 0)
		return poll(&end, 1, 0) > 0;
	if (target_read(&target, object->request.pid))
		return 1;
	if (object->request.scope == WM_KEVENT_SCOPE_PROCESS)
		return target_has_ended(&target);
	state = target_thread_state(target.pid, object->request.pid);
	return !state || state == 'Z' || state == 'X';
}

int wm_kevent_fd(struct wm_kevent *object)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = enter(object);

	if (err)
		return err;
	if (!object->pollable) {
		err = pollable_new(&object->pollable);
		if (!err && object->pidfd >= 0)
			err = pollable_add(object->pollable, object->pidfd);
		if (err) {
			pollable_free(object->pollable);
			object->pollable = NULL;
			return detail_set(words(object), err, "a descriptor to poll");
		}
		update_tick(object);
	}
	return object->pollable->fd;
}

int wm_kevent_arm(struct wm_kevent *object)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = enter(object);

	if (err)
		return err;
	if (perf_object_state(object->inner) != EVENT_PREPARING)
		return detail_set(words(object), -EINVAL, "it is armed, or was");
	err = perf_object_arm(object->inner, words(object));
	if (!err)
		watch_target(object);
	return err;
}

/* A request for modify: what wm_kevent_open() took, with other sources. */
static int change_take(struct wm_kevent *object, const struct wm_kevent_request *from,
		       struct event_source sources[EVENT_SOURCES_MAX], enum event_modify *how)
{
	const struct wm_kevent_request *was = &object->request;
	struct wm_kevent_request to;
	int err;

	if (perf_object_state(object->inner) != EVENT_ARMED)
		return detail_set(words(object), -EINVAL, "it is not armed");
	if (!from)
		return detail_set(words(object), -EINVAL, "no request");
	err = sized_copy(&to, sizeof(to), from, from->size, REQUEST_BYTES);
	if (err)
		return detail_set(words(object), err, "request.size: %zu", from->size);
	if (to.source_count != was->source_count)
		return detail_set(words(object), -EINVAL, "sources: %u, not %u", to.source_count,
				  was->source_count);
	if (to.scope != was->scope || to.pid != was->pid || to.follow != was->follow ||
	    to.cpu_count != was->cpu_count || to.ring_bytes != was->ring_bytes ||
	    (to.flags ^ was->flags) & ~WM_KEVENT_FLAG_NO_STOP)
		return detail_set(words(object), -EINVAL, "request: more than its sources differs");
	*how = to.flags & WM_KEVENT_FLAG_NO_STOP ? EVENT_MODIFY_RUNNING : EVENT_MODIFY_STOPPED;
	return sources_take(sources, to.sources, to.source_count, to.flags, words(object));
}

int wm_kevent_modify(struct wm_kevent *object, const struct wm_kevent_request *to,
		     struct wm_kevent_gap *gap)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct event_source sources[EVENT_SOURCES_MAX];
	struct wm_kevent_gap reported = { .size = gap ? gap->size : 0 };
	enum event_modify how = EVENT_MODIFY_RUNNING;
	struct event_gap was = { 0 };
	int err = enter(object);

	if (err)
		return err;
	if (gap && gap->size < sizeof(gap->size))
		return detail_set(words(object), -EINVAL, "gap.size: %zu", gap->size);
	err = change_take(object, to, sources, &how);
	if (!err)
		err = perf_object_modify(object->inner, sources, how, &was, words(object));
	reported.first_ns = was.first_ns;
	reported.last_ns = was.last_ns;
	reported.was_stopped = was.was_stopped;
	reported.generation = perf_object_generation(object->inner);
	if (gap)
		memcpy(gap, &reported,
		       reported.size < sizeof(reported) ? reported.size : sizeof(reported));
	return err;
}

int wm_kevent_rescan(struct wm_kevent *object)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = enter(object);

	if (err)
		return err;
	if (perf_object_state(object->inner) != EVENT_ARMED)
		return detail_set(words(object), -EINVAL, "it is not armed");
	err = perf_object_follow(object->inner, words(object));
	if (!err) /* what a CPU can't have now is no error */
		object->detail[0] = '\0';
	return err;
}

int wm_kevent_disarm(struct wm_kevent *object)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = enter(object);

	if (err)
		return err;
	perf_object_disarm(object->inner);
	update_tick(object);
	return 0;
}

void wm_kevent_close(struct wm_kevent *object)
{
	struct session_call call SESSION_CALL = session_call_begin();
	if (!object)
		return;
	if (object->owner == getpid())
		perf_object_release(object->inner);
	else
		perf_object_leave(object->inner);
	wm_claim_release(object->claim);
	ledger_free(object->ledger);
	pollable_free(object->pollable);
	if (object->pidfd >= 0)
		close(object->pidfd);
	free(object);
}

/* ---- status ---- */

int wm_kevent_status_get(struct wm_kevent *object, struct wm_kevent_status *status)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_kevent_status now;
	int err = enter(object);

	if (err)
		return err;
	if (!status || status->size < sizeof(status->size))
		return detail_set(words(object), -EINVAL, "status.size: %zu",
				  status ? status->size : 0);
	now = (struct wm_kevent_status){
		.size = status->size,
		.state = (enum wm_kevent_state)perf_object_state(object->inner),
		.generation = perf_object_generation(object->inner),
		.armed_ns = perf_object_armed_ns(object->inner),
		.disarmed_ns = perf_object_disarmed_ns(object->inner),
		.lost = perf_object_lost(object->inner),
		.stray = perf_object_stray(object->inner),
		.has_target_ended = has_target_ended(object),
	};
	memcpy(status, &now, now.size < sizeof(now) ? now.size : sizeof(now));
	return 0;
}

int wm_kevent_count(struct wm_kevent *object, unsigned int source, uint64_t *hits)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = enter(object);

	if (err)
		return err;
	if (!hits || source >= object->request.source_count)
		return detail_set(words(object), -EINVAL, "source %u of %u", source,
				  object->request.source_count);
	return perf_object_count(object->inner, source, hits);
}

int wm_kevent_coverage(struct wm_kevent *object, struct wm_kevent_coverage *coverage,
		       struct wm_kevent_missing *missing, size_t room)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct event_coverage inner;
	struct wm_kevent_coverage now;
	int err = enter(object);

	if (err)
		return err;
	if (!coverage || coverage->size < sizeof(coverage->size))
		return detail_set(words(object), -EINVAL, "coverage.size: %zu",
				  coverage ? coverage->size : 0);
	if (!missing && room)
		return detail_set(words(object), -EINVAL, "missing: NULL, with room for %zu", room);
	err = perf_object_coverage(object->inner, &inner);
	if (err)
		return err;
	now = (struct wm_kevent_coverage){
		.size = coverage->size,
		.wanted = inner.wanted,
		.opened = inner.opened,
		.inherited = inner.inherited,
		.missing = inner.missing_count,
		.ended = inner.ended,
		.starved = inner.starved,
		.was_stopped = inner.was_stopped,
		.sees_kernel = inner.sees_kernel,
	};
	memcpy(coverage, &now, now.size < sizeof(now) ? now.size : sizeof(now));
	for (size_t i = 0; i < inner.missing_count && i < room; i++)
		missing[i] = (struct wm_kevent_missing){ .tid = inner.missing[i].tid,
							 .cpu = inner.missing[i].cpu,
							 .error = inner.missing[i].error };
	perf_coverage_release(&inner);
	return (int)now.missing;
}

int wm_kevent_uncovered(struct wm_kevent *object, struct wm_kevent_uncovered *uncovered,
			size_t room)
{
	struct session_call call SESSION_CALL = session_call_begin();
	const struct event_uncovered *all;
	int err = enter(object);
	size_t count;

	if (err)
		return err;
	if (!uncovered && room)
		return detail_set(words(object), -EINVAL, "uncovered: NULL, with room for %zu",
				  room);
	all = perf_object_uncovered(object->inner, &count);
	for (size_t i = 0; i < count && i < room; i++)
		uncovered[i] = (struct wm_kevent_uncovered){ .cpu = all[i].cpu,
							     .first_ns = all[i].first_ns,
							     .last_ns = all[i].last_ns };
	return (int)count;
}

struct handing {
	int (*hit)(const struct wm_kevent_hit *hit, void *data);
	void *data;
};

static int hand_over(void *data, const struct event_record *record)
{
	const struct handing *handing = data;
	struct wm_kevent_hit hit = {
		.size = sizeof(hit),
		.time_ns = record->time_ns,
		.ip = record->ip,
		.address = record->address,
		.pid = record->pid,
		.tid = record->tid,
		.cpu = record->cpu,
		.source = record->source,
		.flags = (record->has_regs ? WM_KEVENT_HIT_HAS_REGISTERS : 0) |
			 (record->is_kernel ? WM_KEVENT_HIT_BY_KERNEL : 0),
	};

	_Static_assert(sizeof(hit.registers) == sizeof(record->regs), "the same");
	memcpy(hit.registers, record->regs, sizeof(hit.registers));
	return handing->hit(&hit, handing->data);
}

int wm_kevent_read(struct wm_kevent *object,
		   int (*hit)(const struct wm_kevent_hit *hit, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct handing handing = { hit, data };
	int err = enter(object);

	if (err)
		return err;
	if (!hit)
		return detail_set(words(object), -EINVAL, "no callback");
	if (perf_object_state(object->inner) == EVENT_PREPARING)
		return detail_set(words(object), -EINVAL, "it is not armed yet");
	pollable_take(object->pollable);
	object->is_reading = 1;
	err = perf_object_drain(object->inner, perf_object_state(object->inner) == EVENT_DISARMED,
				hand_over, &handing);
	object->is_reading = 0;
	return err;
}
