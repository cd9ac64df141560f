/* SPDX-License-Identifier: MIT */
#include "read/locks/locks.h"

#include "base/array.h"
#include "read/locks/call_roles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

const char *const lock_specs[LOCK_SPECS] = {
	"func:pthread_mutex_*lock/arg1,ret:i32,bt=1/",
	"func:pthread_cond_*wait/arg2,ret:i32,bt=1/",
};

enum role_kind {
	ROLE_NONE,
	ROLE_LOCK,	/* it begins to wait for a mutex */
	ROLE_TRY,	/* it takes the mutex, or does not */
	ROLE_LOCKED,	/* the end of both */
	ROLE_UNLOCK,	/* it gives the mutex up */
	ROLE_COND,	/* it does so, and will have it again */
	ROLE_COND_ENDS, /* it has it again */
};

static const struct lock_function {
	const char *name; /* behind MODULE: */
	uint8_t begins, ends;
	const char *argument;
} functions[] = {
	{ "pthread_mutex_lock", ROLE_LOCK, ROLE_LOCKED, "arg1" },
	{ "pthread_mutex_timedlock", ROLE_LOCK, ROLE_LOCKED, "arg1" },
	{ "pthread_mutex_clocklock", ROLE_LOCK, ROLE_LOCKED, "arg1" },
	{ "pthread_mutex_trylock", ROLE_TRY, ROLE_LOCKED, "arg1" },
	{ "pthread_mutex_unlock", ROLE_UNLOCK, ROLE_NONE, "arg1" },
	{ "pthread_cond_wait", ROLE_COND, ROLE_COND_ENDS, "arg2" },
	{ "pthread_cond_timedwait", ROLE_COND, ROLE_COND_ENDS, "arg2" },
	{ "pthread_cond_clockwait", ROLE_COND, ROLE_COND_ENDS, "arg2" },
};

/* A mutex, and who has it. */
struct mutex {
	uint64_t address, since_ns, place;
	uint32_t pid, process;
	uint32_t holder;  /* a thread's number; NONE */
	uint32_t depth;	  /* so often it has locked it, as a recursive one */
	uint32_t waiters; /* the first thread that waits for it; NONE */
	uint32_t epoch;
};

/* A thread, and the call that it is in. */
struct lock_thread {
	uint32_t pid, tid;
	uint32_t mutex; /* that the call is about; NONE: it is in none */
	uint32_t next;	/* that waits for the same mutex; NONE */
	uint32_t row;	/* of the last holder that it waited for; NONE */
	uint32_t epoch;
	int is_waiting;
	uint64_t begin_ns, place;
	uint64_t until_ns; /* so far the wait is in rows */
};

struct locks_reading {
	const struct trace_reader *reader;
	struct call_roles roles;
	struct mutex *mutexes;
	struct lock_thread *threads;
	size_t mutex_count, mutex_room, thread_count, thread_room;
	struct slots mutex_slots, thread_slots, row_slots;
	uint32_t epoch; /* what is of another is not known any more */
};

/* ---- event classes ---- */

static int8_t field_of(const struct trace_class *class, const char *name)
{
	for (uint8_t i = 0; i < class->count; i++)
		if (!strcmp(class->fields[i], name))
			return (int8_t)i;
	return CALL_FIELD_NONE;
}

static struct call_role role_of(const struct trace_class *class)
{
	static const struct call_role none;
	const char *name = strchr(class->name, ':');
	size_t bytes = name ? strcspn(++name, ":") : 0;
	struct call_role role = { .result = field_of(class, "ret") };

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const struct lock_function *function = &functions[i];

		if (bytes != strlen(function->name) || strncmp(name, function->name, bytes) != 0)
			continue;
		role.kind = class->kind == 'e' ? function->ends : function->begins;
		role.caller = field_of(class, "callchain");
		role.object = field_of(class, function->argument);
		if (role.object == CALL_FIELD_NONE)
			role.object = field_of(class, "mutex");
		return class->kind != 'e' && role.object == CALL_FIELD_NONE ? none : role;
	}
	return none;
}

int locks_has(const struct trace_reader *reader)
{
	return call_roles_have(&reader->meta, role_of, ROLE_LOCK);
}

/* ---- mutexes, threads, rows ---- */

/* NULL: no memory. */
static struct mutex *mutex_find(struct locks_reading *reading, const struct merge_event *event,
				uint64_t address)
{
	uint32_t hash = slots_hash(address ^ (uint64_t)event->pid << 40), found;
	struct mutex *mutex;

	if (slots_fit(&reading->mutex_slots) ||
	    array_grow(&reading->mutexes, &reading->mutex_room, reading->mutex_count + 1,
		       sizeof(*reading->mutexes)))
		return NULL;
	for (uint64_t at = hash; slots_next(&reading->mutex_slots, hash, &at, &found);) {
		mutex = &reading->mutexes[found];
		if (mutex->address == address && mutex->pid == event->pid)
			goto fresh;
	}
	slots_add(&reading->mutex_slots, hash, (uint32_t)reading->mutex_count);
	mutex = &reading->mutexes[reading->mutex_count++];
	*mutex = (struct mutex){ .address = address, .pid = event->pid };
	mutex->epoch = reading->epoch - 1;
fresh:
	mutex->process = event->stream->process;
	if (mutex->epoch != reading->epoch) {
		mutex->epoch = reading->epoch;
		mutex->holder = mutex->waiters = NONE;
	}
	return mutex;
}

/* NULL: no memory. */
static struct lock_thread *thread_find(struct locks_reading *reading,
				       const struct merge_event *event)
{
	uint32_t hash = slots_hash((uint64_t)event->pid << 32 | event->tid), found;
	struct lock_thread *thread;

	if (slots_fit(&reading->thread_slots) ||
	    array_grow(&reading->threads, &reading->thread_room, reading->thread_count + 1,
		       sizeof(*reading->threads)))
		return NULL;
	for (uint64_t at = hash; slots_next(&reading->thread_slots, hash, &at, &found);) {
		thread = &reading->threads[found];
		if (thread->pid == event->pid && thread->tid == event->tid)
			goto fresh;
	}
	slots_add(&reading->thread_slots, hash, (uint32_t)reading->thread_count);
	thread = &reading->threads[reading->thread_count++];
	*thread = (struct lock_thread){ .pid = event->pid, .tid = event->tid };
	thread->epoch = reading->epoch - 1;
fresh:
	if (thread->epoch != reading->epoch) {
		thread->epoch = reading->epoch;
		thread->mutex = NONE;
		thread->is_waiting = 0;
	}
	return thread;
}

/* The row's number; NONE: no memory. */
static uint32_t row_find(struct locks *locks, const struct mutex *mutex, uint32_t waiter,
			 uint32_t holder, uint64_t place)
{
	struct locks_reading *reading = locks->reading;
	uint32_t hash = slots_hash(mutex->address + place * 31 + ((uint64_t)waiter << 48) +
				   ((uint64_t)holder << 32) + mutex->pid);
	uint32_t found;

	if (slots_fit(&reading->row_slots) ||
	    array_grow(&locks->rows, &locks->room, locks->count + 1, sizeof(*locks->rows)))
		return NONE;
	for (uint64_t at = hash; slots_next(&reading->row_slots, hash, &at, &found);) {
		const struct lock_row *row = &locks->rows[found];

		if (row->mutex == mutex->address && row->pid == mutex->pid &&
		    row->waiter == waiter && row->holder == holder && row->place == place)
			return found;
	}
	slots_add(&reading->row_slots, hash, (uint32_t)locks->count);
	locks->rows[locks->count] = (struct lock_row){ .mutex = mutex->address,
						       .process = mutex->process,
						       .pid = mutex->pid,
						       .waiter = waiter,
						       .holder = holder,
						       .place = place };
	return (uint32_t)locks->count++;
}

/* ---- waits ---- */

static void waiter_add(struct mutex *mutex, struct lock_thread *thread, uint32_t number)
{
	thread->next = mutex->waiters;
	mutex->waiters = number;
	thread->is_waiting = 1;
	thread->row = NONE;
	thread->until_ns = thread->begin_ns;
}

static void waiter_remove(struct locks_reading *reading, struct mutex *mutex,
			  struct lock_thread *thread)
{
	uint32_t *at = &mutex->waiters, number = (uint32_t)(thread - reading->threads);

	while (*at != NONE && *at != number)
		at = &reading->threads[*at].next;
	if (*at == number)
		*at = thread->next;
	thread->is_waiting = 0;
}

/* How long it is from then; 0 where a damaged trace has it the other way round. */
static uint64_t time_since(uint64_t from_ns, uint64_t ns)
{
	return ns > from_ns ? ns - from_ns : 0;
}

/* A part of a wait, up to `ns`, counts to a row. */
static void row_add(struct lock_row *row, struct lock_thread *waiter, uint64_t ns)
{
	uint64_t wait_ns = time_since(waiter->begin_ns, ns);

	row->waited_ns += time_since(waiter->until_ns, ns);
	row->last_ns = ns;
	waiter->until_ns = ns;
	if (wait_ns > row->longest_ns)
		row->longest_ns = wait_ns;
}

/* The thread waited until now for the one that has the mutex. 0 or -ENOMEM. */
static int wait_charge(struct locks *locks, const struct mutex *mutex, struct lock_thread *waiter,
		       const struct lock_thread *holder, uint64_t ns)
{
	uint64_t place = mutex->holder == NONE ? 0 : mutex->place;
	uint32_t number = row_find(locks, mutex, waiter->tid, holder->tid, place);

	if (number == NONE)
		return -ENOMEM;
	if (waiter->row != number)
		locks->rows[number].waits++;
	waiter->row = number;
	row_add(&locks->rows[number], waiter, ns);
	return 0;
}

/* ---- events ---- */

/* Where the call returns to: a callchain has the place of the event, and then that. */
static uint64_t caller_of(const struct call_role *role, const struct wm_event_field *fields)
{
	const struct wm_event_field *field = &fields[role->caller];

	if (role->caller == CALL_FIELD_NONE || field->type != WM_TYPE_ADDRESSES ||
	    field->value.run.bytes < 2 * sizeof(uint64_t))
		return 0;
	return load_u64((const uint8_t *)field->value.run.start + sizeof(uint64_t));
}

/* It has the mutex now. */
static void mutex_hold(struct locks_reading *reading, struct mutex *mutex,
		       const struct lock_thread *thread, uint64_t ns)
{
	uint32_t number = (uint32_t)(thread - reading->threads);

	if (mutex->holder == number) {
		mutex->depth++;
		return;
	}
	mutex->holder = number;
	mutex->depth = 1;
	mutex->since_ns = ns;
	mutex->place = thread->place;
}

/*
 * A thread gives the mutex up: those that wait for it waited for this thread. Where its lock is not
 * in the trace, they did since they began.
 */
static int mutex_release(struct locks *locks, struct mutex *mutex, const struct lock_thread *thread,
			 uint64_t ns, int is_whole)
{
	struct locks_reading *reading = locks->reading;
	uint32_t number = (uint32_t)(thread - reading->threads);
	int is_known = mutex->holder == number;

	if (is_known && !is_whole && --mutex->depth)
		return 0;
	for (uint32_t at = mutex->waiters; at != NONE; at = reading->threads[at].next) {
		struct lock_thread *waiter = &reading->threads[at];
		int err = at == number ? 0 : wait_charge(locks, mutex, waiter, thread, ns);

		if (err)
			return err;
		if (at == number || !is_known)
			continue;
		locks->rows[waiter->row].holds++;
		locks->rows[waiter->row].held_ns += time_since(mutex->since_ns, ns);
	}
	mutex->holder = NONE;
	return 0;
}

/* The end of a call that took a mutex, or did not. */
static int lock_end(struct locks *locks, struct lock_thread *thread, uint64_t ns, uint64_t result)
{
	struct locks_reading *reading = locks->reading;
	struct mutex *mutex = &reading->mutexes[thread->mutex];
	int has_it = !result || result == EOWNERDEAD, err = 0;

	thread->mutex = NONE;
	if (thread->is_waiting) {
		waiter_remove(reading, mutex, thread);
		if (!has_it && mutex->holder != NONE)
			err = wait_charge(locks, mutex, thread, &reading->threads[mutex->holder],
					  ns);
		else if (has_it && thread->row != NONE)
			row_add(&locks->rows[thread->row], thread, ns);
	}
	if (has_it)
		mutex_hold(reading, mutex, thread, ns);
	return err;
}

/* A call begins that is about a mutex. */
static int lock_begin(struct locks *locks, struct lock_thread *thread, enum role_kind kind,
		      const struct merge_event *event, uint64_t address)
{
	struct locks_reading *reading = locks->reading;
	struct mutex *mutex = mutex_find(reading, event, address);

	if (!mutex)
		return -ENOMEM;
	/* one whose end is not there: the thread jumped out of a signal handler, or ended */
	if (thread->is_waiting)
		waiter_remove(reading, &reading->mutexes[thread->mutex], thread);
	if (kind == ROLE_UNLOCK)
		return mutex_release(locks, mutex, thread, event->ns, 0);
	thread->mutex = (uint32_t)(mutex - reading->mutexes);
	thread->begin_ns = event->ns;
	if (kind == ROLE_LOCK)
		waiter_add(mutex, thread, (uint32_t)(thread - reading->threads));
	return kind == ROLE_COND ? mutex_release(locks, mutex, thread, event->ns, 1) : 0;
}

static int lock_event(struct locks *locks, const struct call_role *role,
		      const struct merge_event *event)
{
	struct lock_thread *thread = thread_find(locks->reading, event);
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	uint64_t result;

	if (!thread)
		return -ENOMEM;
	trace_fields(fields, event->class, event->fields);
	if (role->kind != ROLE_LOCKED && role->kind != ROLE_COND_ENDS) {
		thread->place = caller_of(role, fields);
		return lock_begin(locks, thread, role->kind, event, fields[role->object].value.u);
	}
	if (thread->mutex == NONE)
		return 0;
	result = role->result == CALL_FIELD_NONE || role->kind == ROLE_COND_ENDS
			 ? 0
			 : fields[role->result].value.u;
	return lock_end(locks, thread, event->ns, result);
}

/* ---- the pass ---- */

static int locks_want(const struct pass_observer *observer, uint32_t process,
		      const struct trace_class *class)
{
	return call_role_find(&((const struct locks *)observer)->reading->roles, process, class) !=
	       NULL;
}

static int locks_take(struct pass_observer *observer, const struct merge_event *event)
{
	struct locks *locks = (struct locks *)observer;
	const struct call_role *role = call_role_find(&locks->reading->roles,
						      event->stream->process, event->class);

	/* a lock or an unlock may be in what is missing */
	if (pass_is_gap(event))
		locks->reading->epoch++;
	return role ? lock_event(locks, role, event) : 0;
}

int locks_open(struct locks *locks, const struct trace_reader *reader)
{
	*locks = (struct locks){ .observer = { locks_want, locks_take },
				 .reading = calloc(1, sizeof(*locks->reading)) };
	if (!locks->reading)
		return -ENOMEM;
	locks->reading->reader = reader;
	return call_roles_make(&locks->reading->roles, &reader->meta, role_of);
}

static int by_waited(const void *left, const void *right)
{
	const struct lock_row *a = left, *b = right;

	if (a->waited_ns != b->waited_ns)
		return a->waited_ns > b->waited_ns ? -1 : 1;
	return (a->mutex > b->mutex) - (a->mutex < b->mutex);
}

void locks_finish(struct locks *locks)
{
	if (locks->count)
		qsort(locks->rows, locks->count, sizeof(*locks->rows), by_waited);
}

void locks_release(struct locks *locks)
{
	struct locks_reading *reading = locks->reading;

	if (reading) {
		call_roles_release(&reading->roles);
		free(reading->mutexes);
		free(reading->threads);
		free(reading->mutex_slots.all);
		free(reading->thread_slots.all);
		free(reading->row_slots.all);
		free(reading);
	}
	free(locks->rows);
	*locks = (struct locks){ 0 };
}
