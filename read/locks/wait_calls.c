/* SPDX-License-Identifier: MIT */
#include "read/locks/wait_calls.h"

#include "base/array.h"
#include "base/name_match.h"
#include "read/locks/call_roles.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* What a call of a function is, and what its first argument. */
enum call_kind {
	CALL_NONE,
	CALL_WAITS, /* for time, a signal, a process, a set of descriptors */
	CALL_OF_FD,
	CALL_OF_LOCK,
	CALL_OF_CONDITION, /* the same; it lets the lock go that is its second argument */
	CALL_WAKES,
};

#define CALLS(names, fields) "func:" names "@libc.so.6/" fields ",if=duration>1us,bt/"
#define CALLS_OF(name) CALLS(name, "arg1")

/* Functions that others call are left out: sleep(3) is in clock_nanosleep(2). */
const char *const wait_specs[WAIT_SPECS] = {
	CALLS_OF("pthread_mutex_*lock"),
	CALLS_OF("pthread_rwlock_*lock"),
	CALLS("pthread_cond_*wait", "arg1,arg2"),
	CALLS_OF("pthread_cond_[bs]*"),
	CALLS_OF("pthread_barrier_wait"),
	CALLS_OF("pthread_*join*"),
	CALLS_OF("sem_*wait"),
	CALLS_OF("sem_post"),
	CALLS_OF("clock_nanosleep"),
	CALLS_OF("poll"),
	CALLS_OF("ppoll"),
	CALLS_OF("select"),
	CALLS_OF("pselect"),
	CALLS_OF("epoll_*wait*"),
	CALLS_OF("read"),
	CALLS_OF("readv"),
	CALLS_OF("pread"),
	CALLS_OF("recv"),
	CALLS_OF("recvfrom"),
	CALLS_OF("recvmsg"),
	CALLS_OF("accept"),
	CALLS_OF("accept4"),
	CALLS_OF("connect"),
	CALLS_OF("write"),
	CALLS_OF("writev"),
	CALLS_OF("pwrite"),
	CALLS_OF("send"),
	CALLS_OF("sendto"),
	CALLS_OF("sendmsg"),
	CALLS_OF("flock"),
	CALLS_OF("fsync"),
	CALLS_OF("fdatasync"),
	CALLS_OF("wait4"),
	CALLS_OF("waitid"),
	CALLS_OF("sigsuspend"),
};

/* The first that fits. */
static const struct call_function {
	const char *names; /* behind libc: */
	uint8_t kind;
	uint8_t lock_bytes;
} functions[] = {
	{ "*_try*", CALL_NONE, 0 },
	{ "pthread_*_unlock", CALL_WAKES, 0 },
	{ "pthread_cond_signal", CALL_WAKES, 0 },
	{ "pthread_cond_broadcast", CALL_WAKES, 0 },
	{ "sem_post", CALL_WAKES, 0 },
	{ "pthread_cond_*wait", CALL_OF_CONDITION, sizeof(pthread_cond_t) },
	{ "pthread_mutex_*lock", CALL_OF_LOCK, sizeof(pthread_mutex_t) },
	{ "pthread_rwlock_*lock", CALL_OF_LOCK, sizeof(pthread_rwlock_t) },
	{ "pthread_barrier_wait", CALL_OF_LOCK, sizeof(pthread_barrier_t) },
	{ "sem_*wait", CALL_OF_LOCK, sizeof(sem_t) },
	{ "pthread_*join*", CALL_WAITS, 0 },
	{ "clock_nanosleep", CALL_WAITS, 0 },
	{ "poll", CALL_WAITS, 0 },
	{ "ppoll", CALL_WAITS, 0 },
	{ "*select", CALL_WAITS, 0 },
	{ "wait4", CALL_WAITS, 0 },
	{ "waitid", CALL_WAITS, 0 },
	{ "sigsuspend", CALL_WAITS, 0 },
	{ "epoll_*wait*", CALL_OF_FD, 0 },
	{ "*read", CALL_OF_FD, 0 },
	{ "readv", CALL_OF_FD, 0 },
	{ "recv*", CALL_OF_FD, 0 },
	{ "accept*", CALL_OF_FD, 0 },
	{ "connect", CALL_OF_FD, 0 },
	{ "*write", CALL_OF_FD, 0 },
	{ "writev", CALL_OF_FD, 0 },
	{ "send*", CALL_OF_FD, 0 },
	{ "f*sync", CALL_OF_FD, 0 },
	{ "flock", CALL_OF_FD, 0 },
};

/* A lock was let go. */
struct wake {
	uint64_t object, ns;
	uint32_t pid, thread;
};

struct wait_calls_reading {
	struct call_roles roles;
	struct wait_call *calls;
	struct wake *wakes;
	size_t call_count, call_room, wake_count, wake_room;
};

/* ---- event classes ---- */

/* Whether its value is a number: of an argument, what libc's headers say of it. */
static int is_number(uint8_t type)
{
	return type == WM_TYPE_PTR || type == WM_TYPE_I32 || type == WM_TYPE_U32 ||
	       type == WM_TYPE_I64 || type == WM_TYPE_U64;
}

static int8_t field_of(const struct trace_class *class, const char *name)
{
	for (uint8_t i = 0; i < class->count; i++)
		if (is_number(class->types[i]) && !strcmp(class->fields[i], name))
			return (int8_t)i;
	return CALL_FIELD_NONE;
}

static struct call_role role_of(const struct trace_class *class)
{
	static const char libc[] = "libc:";
	const char *name = class->name + strlen(libc);
	struct call_role role = { .object = field_of(class, "arg1"),
				  .lock = field_of(class, "arg2"),
				  .duration = field_of(class, "duration") };

	if (role.duration == CALL_FIELD_NONE || role.object == CALL_FIELD_NONE ||
	    class->kind == 'b' || class->kind == 'e' ||
	    strncmp(class->name, libc, strlen(libc)) != 0)
		return role;
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (name_match(functions[i].names, name)) {
			role.kind = functions[i].kind;
			role.lock_bytes = functions[i].lock_bytes;
			break;
		}
	return role;
}

int wait_calls_has(const struct trace_reader *reader)
{
	return call_roles_have(&reader->meta, role_of, 0);
}

/* ---- the pass ---- */

static int wake_add(struct wait_calls_reading *reading, const struct wait_call *call,
		    uint64_t object)
{
	if (array_grow(&reading->wakes, &reading->wake_room, reading->wake_count + 1,
		       sizeof(*reading->wakes)))
		return -ENOMEM;
	reading->wakes[reading->wake_count++] = (struct wake){
		.object = object, .ns = call->begin_ns, .pid = call->pid, .thread = call->thread
	};
	return 0;
}

static int call_add(struct wait_calls *calls, const struct merge_event *event,
		    const struct call_role *role)
{
	struct wait_calls_reading *reading = calls->reading;
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct wait_call call = { .function = strchr(event->class->name, ':') + 1,
				  .end_ns = event->ns,
				  .pid = event->pid,
				  .tid = event->tid,
				  .process = event->stream->process,
				  .waker = WAIT_NO_WAKER,
				  .has_fd = role->kind == CALL_OF_FD,
				  .lock_bytes = role->lock_bytes };
	uint64_t ns;
	int err = samples_thread_find(calls->samples, event->pid, event->tid, event->ns,
				      &call.thread);

	if (err)
		return err;
	trace_fields(fields, event->class, event->fields);
	ns = fields[role->duration].value.u;
	call.begin_ns = ns < event->ns ? event->ns - ns : event->ns;
	call.object = role->kind == CALL_WAITS ? 0 : fields[role->object].value.u;
	if (role->kind == CALL_WAKES)
		return wake_add(reading, &call, call.object);
	if (role->kind == CALL_OF_CONDITION && role->lock != CALL_FIELD_NONE)
		err = wake_add(reading, &call, fields[role->lock].value.u);
	if (!err)
		err = samples_stack(calls->samples, event, 0, &call.stack);
	if (err ||
	    array_grow(&reading->calls, &reading->call_room, reading->call_count + 1, sizeof(call)))
		return -ENOMEM;
	reading->calls[reading->call_count++] = call;
	return 0;
}

static int calls_want(const struct pass_observer *observer, uint32_t process,
		      const struct trace_class *class)
{
	return call_role_find(&((const struct wait_calls *)observer)->reading->roles, process,
			      class) != NULL;
}

static int calls_take(struct pass_observer *observer, const struct merge_event *event)
{
	struct wait_calls *calls = (struct wait_calls *)observer;
	const struct call_role *role = call_role_find(&calls->reading->roles,
						      event->stream->process, event->class);

	return role ? call_add(calls, event, role) : 0;
}

int wait_calls_open(struct wait_calls *calls, struct samples *samples)
{
	*calls = (struct wait_calls){ .observer = { calls_want, calls_take },
				      .samples = samples,
				      .reading = calloc(1, sizeof(*calls->reading)) };
	return calls->reading
		       ? call_roles_make(&calls->reading->roles, &samples->reader->meta, role_of)
		       : -ENOMEM;
}

/* ---- wakers ---- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int wake_order(const void *left, const void *right)
{
	const struct wake *a = left, *b = right;

	if (a->pid != b->pid)
		return ORDER(a->pid, b->pid);
	return a->object != b->object ? ORDER(a->object, b->object) : ORDER(a->ns, b->ns);
}

/* The thread that last let the lock go while this one waited. WAIT_NO_WAKER: none is known. */
static uint32_t waker_of(const struct wait_calls_reading *reading, const struct wait_call *call)
{
	const struct wake until = { .object = call->object, .ns = call->end_ns, .pid = call->pid };
	size_t low = 0, high = reading->wake_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (wake_order(&reading->wakes[middle], &until) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low--) {
		const struct wake *wake = &reading->wakes[low];

		if (wake->pid != call->pid || wake->object != call->object ||
		    wake->ns < call->begin_ns)
			break;
		if (wake->thread != call->thread)
			return wake->thread;
	}
	return WAIT_NO_WAKER;
}

/* ---- rows ---- */

static const char *thread_comm(const struct wait_calls *calls, uint32_t number, uint64_t ns)
{
	const struct samples_thread *thread = &calls->samples->threads[number];
	const char *comm = thread_names_find(&calls->samples->names, thread->pid, thread->tid, ns);

	return comm && *comm ? comm : thread->comm;
}

/* Those of one row. */
static int row_order(const struct wait_call *a, const struct wait_call *b)
{
	int order = strcmp(a->comm, b->comm);

	if (!order)
		order = strcmp(a->function, b->function);
	if (order)
		return order;
	if (a->pid != b->pid)
		return ORDER(a->pid, b->pid);
	return a->object != b->object ? ORDER(a->object, b->object) : ORDER(a->stack, b->stack);
}

/* And of these, those of a waker. */
static int call_order(const void *left, const void *right)
{
	const struct wait_call *a = left, *b = right;
	int order = row_order(a, b);

	return order ? order : ORDER(a->waker, b->waker);
}

static int rows_make(struct wait_calls *calls)
{
	const struct wait_calls_reading *reading = calls->reading;
	struct wait_call_row *row;
	uint64_t waker_ns = 0;

	calls->rows = row = calloc(reading->call_count + 1, sizeof(*row));
	if (!row)
		return -ENOMEM;
	for (size_t i = 0; i < reading->call_count; i++) {
		const struct wait_call *call = &reading->calls[i];
		const struct wait_call *last = i ? call - 1 : call;
		int is_new = !i || row_order(last, call) != 0;
		uint64_t ns = call->end_ns - call->begin_ns;

		if (is_new)
			calls->rows[calls->count++] = (struct wait_call_row){
				.function = call->function,
				.comm = call->comm,
				.stack = call->stack,
				.process = call->process,
				.lock_bytes = call->lock_bytes,
				.has_fd = call->has_fd,
				.object = call->object,
			};
		row = &calls->rows[calls->count - 1];
		row->count++;
		row->ns += ns;
		row->longest_ns = ns > row->longest_ns ? ns : row->longest_ns;
		row->last_ns = call->end_ns > row->last_ns ? call->end_ns : row->last_ns;
		waker_ns = is_new || last->waker != call->waker ? ns : waker_ns + ns;
		if (call->waker == WAIT_NO_WAKER || waker_ns < row->waker_ns)
			continue;
		row->waker = call->waker;
		row->waker_comm = thread_comm(calls, call->waker, call->end_ns);
		row->waker_ns = waker_ns;
	}
	return 0;
}

/* By the thread, and the end. */
static int end_order(const void *left, const void *right)
{
	const struct wait_call *a = left, *b = right;

	if (a->pid != b->pid)
		return ORDER(a->pid, b->pid);
	return a->tid != b->tid ? ORDER(a->tid, b->tid) : ORDER(a->end_ns, b->end_ns);
}

const struct wait_call *wait_calls_longest(const struct wait_calls *calls, uint32_t pid,
					   uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
	const struct wait_calls_reading *reading = calls->reading;
	const struct wait_call from = { .pid = pid, .tid = tid, .end_ns = from_ns };
	const struct wait_call *longest = NULL;
	size_t low = 0, high = reading ? reading->call_count : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_order(&reading->calls[middle], &from) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; reading && low < reading->call_count; low++) {
		const struct wait_call *call = &reading->calls[low];

		if (call->pid != pid || call->tid != tid || call->end_ns > to_ns)
			break;
		if (call->begin_ns >= from_ns &&
		    (!longest ||
		     call->end_ns - call->begin_ns > longest->end_ns - longest->begin_ns))
			longest = call;
	}
	return longest;
}

int wait_calls_finish(struct wait_calls *calls)
{
	struct wait_calls_reading *reading = calls->reading;
	int err;

	if (reading->wake_count)
		qsort(reading->wakes, reading->wake_count, sizeof(*reading->wakes), wake_order);
	for (size_t i = 0; i < reading->call_count; i++) {
		struct wait_call *call = &reading->calls[i];

		call->comm = thread_comm(calls, call->thread, call->end_ns);
		if (call->lock_bytes)
			call->waker = waker_of(reading, call);
	}
	if (reading->call_count)
		qsort(reading->calls, reading->call_count, sizeof(*reading->calls), call_order);
	err = rows_make(calls);
	if (reading->call_count)
		qsort(reading->calls, reading->call_count, sizeof(*reading->calls), end_order);
	return err;
}

void wait_calls_release(struct wait_calls *calls)
{
	struct wait_calls_reading *reading = calls->reading;

	if (reading) {
		call_roles_release(&reading->roles);
		free(reading->calls);
		free(reading->wakes);
	}
	free(reading);
	free(calls->rows);
	*calls = (struct wait_calls){ 0 };
}
