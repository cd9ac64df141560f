/* SPDX-License-Identifier: MIT */
/* The public API of trails: their records. waymark/trail.h documents its promises. */
#include "record/trail/trail.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

struct store_thread *trail_thread_of(const struct wm_trail *trail, pid_t tid)
{
	struct store_thread *thread = NULL;

	while ((thread = trail_store_thread(trail->store, thread)))
		if (!tid || store_thread_tid(thread) == tid)
			break;
	return thread;
}

static int no_thread(struct wm_trail *trail, pid_t tid)
{
	return trail_fail(trail, -ESRCH, tid ? "tid %d: no such thread in the trail" : "no thread",
			  (int)tid);
}

/* ---- status ---- */

static void status_live(const struct wm_trail *trail, struct wm_trail_status *status)
{
	struct trail_store_status store;

	trail_store_status(trail->store, &store);
	status->origin = trail->options.origin;
	status->threads = store.threads;
	status->live = store.live;
	status->bytes = store.bytes;
	status->used_bytes = store.used_bytes;
	status->branches = store.blocks;
	status->events = store.events;
	status->lost = store.lost_blocks + store.missing_blocks;
	status->lost_events = store.lost_events;
	status->lost_threads = store.lost_threads;
}

static void status_recorded(const struct wm_trail *trail, struct wm_trail_status *status)
{
	static const enum wm_trail_origin origins[] = { [TRAIL_STEP] = TRAIL_ORIGIN_ORACLE,
							[TRAIL_PT] = WM_TRAIL_ORIGIN_PT,
							[TRAIL_BTS] = WM_TRAIL_ORIGIN_BTS,
							[TRAIL_SOFT] = WM_TRAIL_ORIGIN_SOFT };
	const struct recorded *recorded = trail->recorded;

	status->threads = (uint32_t)recorded->count;
	for (size_t i = 0; i < recorded->count; i++) {
		const struct path_index *index = &recorded->paths[i];
		uint32_t origin = index->path->origin;

		if (!i && origin < sizeof(origins) / sizeof(*origins))
			status->origin = origins[origin];
		status->branches += index->path->blocks;
		status->events += index->records - index->path->blocks;
	}
}

int wm_trail_status_get(struct wm_trail *trail, struct wm_trail_status *status)
{
	struct wm_trail_status made = { 0 };
	int state, err = trail_enter_reading(trail, &state);

	if (err)
		return err;
	if (!status || status->size < sizeof(status->size)) {
		err = trail_fail(trail, -EINVAL, "status.size: %zu", status ? status->size : 0);
	} else {
		made.size = status->size < sizeof(made) ? status->size : sizeof(made);
		made.state = trail->state;
		made.error = trail->error;
		made.pid = trail->pid;
		made.read = trail->read;
		made.unfollowed = trail->unfollowed;
		if (trail->recorded)
			status_recorded(trail, &made);
		else
			status_live(trail, &made);
		memcpy(status, &made, made.size);
	}
	trail_leave(trail, state);
	return err;
}

int wm_trail_threads(struct wm_trail *trail, pid_t *tids, size_t room)
{
	struct store_thread *thread = NULL;
	int state, count = trail_enter_reading(trail, &state);

	if (count)
		return count;
	if (!tids && room) {
		count = trail_fail(trail, -EINVAL, "tids: NULL, with room for %zu", room);
	} else if (trail->recorded) {
		const struct recorded *recorded = trail->recorded;

		for (; (size_t)count < recorded->count; count++)
			if ((size_t)count < room)
				tids[count] = (pid_t)recorded->paths[count].path->stream->tid;
	} else {
		for (; (thread = trail_store_thread(trail->store, thread)); count++)
			if ((size_t)count < room)
				tids[count] = store_thread_tid(thread);
	}
	trail_leave(trail, state);
	return count;
}

/* ---- records ---- */

int64_t wm_trail_records(struct wm_trail *trail, pid_t tid)
{
	int state, err = trail_enter_reading(trail, &state);
	const struct store_thread *thread;
	const struct path_index *path;
	int64_t count;

	if (err)
		return err;
	if (trail->recorded) {
		path = recorded_path(trail, tid);
		count = path ? (int64_t)path->records : no_thread(trail, tid);
	} else {
		thread = trail_thread_of(trail, tid);
		count = thread ? (int64_t)store_thread_records(thread) : no_thread(trail, tid);
	}
	trail_leave(trail, state);
	return count;
}

/* A record of the store as branch_make() takes it. */
static struct branch_item item_of(const struct store_record *record)
{
	return (struct branch_item){ .entry = record->entry,
				     .code = record->code,
				     .between = record->entry ? NULL : &record->between,
				     .monotonic_ns = record->ticks };
}

struct branch_thread trail_thread_name(const struct wm_trail *trail,
				       const struct store_thread *thread)
{
	pid_t pid = store_thread_pid(thread);

	return (struct branch_thread){ pid ? pid : trail->pid, store_thread_tid(thread) };
}

static int get_live(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	const struct store_thread *thread = trail_thread_of(trail, tid);
	struct store_record records[3]; /* before, the one, after */
	struct branch_item items[3];
	int has_before, has_after;

	if (!thread)
		return no_thread(trail, tid);
	if (!store_thread_record(trail->store, thread, index, &records[1]))
		return 0;
	has_before = store_thread_record(trail->store, thread, index + 1, &records[0]);
	has_after = index && store_thread_record(trail->store, thread, index - 1, &records[2]);
	for (int i = !has_before; i < 2 + has_after; i++)
		items[i] = item_of(&records[i]);
	if (!has_before && store_thread_taken(thread)) {
		items[0] = (struct branch_item){ .entry = store_thread_taken(thread) };
		has_before = 1;
	}
	branch_make(branch, has_before ? &items[0] : NULL, &items[1], has_after ? &items[2] : NULL,
		    trail_thread_name(trail, thread));
	return 1;
}

static int get_recorded(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	const struct path_index *path = recorded_path(trail, tid);
	struct trail_cursor cursor;

	if (!path)
		return no_thread(trail, tid);
	if (index >= path->records)
		return 0;
	snapshot_path_seek(path, path->records - index, &cursor);
	snapshot_branch(&cursor,
			(struct branch_thread){ (pid_t)path->path->stream->pid,
						(pid_t)path->path->stream->tid },
			branch);
	return 1;
}

int wm_trail_get(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	int state, result = trail_enter_reading(trail, &state);

	if (result)
		return result;
	if (!branch || branch->size < sizeof(branch->size))
		result = trail_fail(trail, -EINVAL, "branch.size: %zu", branch ? branch->size : 0);
	else if (trail->recorded)
		result = get_recorded(trail, tid, index, branch);
	else
		result = get_live(trail, tid, index, branch);
	trail_leave(trail, state);
	return result;
}

/* ---- forgotten ---- */

static int is_read(struct wm_trail *trail, const char *what)
{
	return trail->recorded
		       ? trail_fail(trail, -EINVAL,
				    "%s: it was read from a trace; walk it with a cursor", what)
		       : 0;
}

int wm_trail_clear(struct wm_trail *trail)
{
	int state, err = trail_enter(trail, &state);

	if (err)
		return err;
	err = is_read(trail, "it can't be cleared");
	if (!err) {
		/* discard the records of the program's threads, too */
		if (trail->options.origin == WM_TRAIL_ORIGIN_SOFT)
			trail_fetch(trail, READ_MS);
		trail_store_clear(trail->store);
		trail_fd_lower(trail);
		pthread_cond_broadcast(&trail->changed);
	}
	trail_leave(trail, state);
	return err;
}

/* Take one and give it to the callback; *result is the callback's. 0: no record. */
static int drain_one(struct wm_trail *trail, struct store_thread *thread,
		     int (*branch)(const struct wm_branch *branch, void *data), void *data,
		     int *result)
{
	uint64_t records = store_thread_records(thread);
	const struct trail_entry *taken = store_thread_taken(thread);
	struct trail_entry last = taken ? *taken : (struct trail_entry){ 0 };
	struct branch_item before = { .entry = &last }, item, after;
	struct wm_branch made = { .size = sizeof(made) };
	struct store_record record, next;
	struct branch_thread of = trail_thread_name(trail, thread);
	int has_next = records > 1 && store_thread_record(trail->store, thread, records - 2, &next);

	if (!store_thread_take(trail->store, thread, &record))
		return 0;
	item = item_of(&record);
	if (has_next)
		after = item_of(&next);
	branch_make(&made, taken ? &before : NULL, &item, has_next ? &after : NULL, of);
	trail->read++;
	*result = branch(&made, data);
	return 1;
}

int wm_trail_read(struct wm_trail *trail, int (*branch)(const struct wm_branch *branch, void *data),
		  void *data)
{
	int state, result = trail_enter_reading(trail, &state);
	struct store_thread *thread, *next;

	if (result)
		return result;
	trail_fd_lower(trail);
	result = is_read(trail, "it can't be read this way");
	if (!result && !branch)
		result = trail_fail(trail, -EINVAL, "branch: no callback");
	thread = result ? NULL : trail_store_thread(trail->store, NULL);
	for (; thread && !result; thread = next) {
		next = trail_store_thread(trail->store, thread);
		while (!result && drain_one(trail, thread, branch, data, &result))
			;
	}
	if (result) /* the callback may have left some */
		trail_fd_raise(trail);
	pthread_cond_broadcast(&trail->changed);
	trail_leave(trail, state);
	return result;
}
