/* SPDX-License-Identifier: MIT */
/*
 * waymark report --locks: who held a mutex while others waited for it. Of --waits: what threads
 * waited for in calls of the C library.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/watch_where.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static const struct row_column lock_columns[] = {
	{ "mutex", ROW_TEXT, ROW_PLAIN, 0,
	  "its variable, and where in it, or its module and offset; else its address" },
	{ "mutex_address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "in the process" },
	{ "pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the process" },
	{ "waiter", ROW_TEXT, ROW_PLAIN, 0, "the thread that waited: its name and number" },
	{ "waiter_tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its number" },
	{ "holder", ROW_TEXT, ROW_PLAIN, 0, "the thread that held it meanwhile" },
	{ "holder_tid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "its number" },
	{ "waits", ROW_U64, ROW_COUNT, 0, "how often it waited for that thread" },
	{ "waited", ROW_U64, ROW_NS, 0, "for how long, all together" },
	{ "longest", ROW_U64, ROW_NS, 0, "the longest wait that had a part of it" },
	{ "held", ROW_U64, ROW_NS, ROW_QUIET,
	  "for how long the holder had it, all these times together; 0: its lock is not recorded" },
	{ "place", ROW_TEXT, ROW_PLAIN, 0, "where the holder locked it" },
	WATCH_WHERE_COLUMNS,
};
static ROW_TABLE(report_lock_table, "lock",
		 "Who held a mutex while others waited for it (report --locks).", lock_columns);

/* "shop-1234" in text[], which is returned. */
static const char *lock_thread_text(const struct report_locks *locks, const struct lock_row *row,
				    uint32_t tid, char text[48])
{
	const char *name = thread_names_find(&locks->names, row->pid, tid, row->last_ns);

	snprintf(text, 48, "%s-%" PRIu32, name ? name : "?", tid);
	return text;
}

static void lock_row_put(struct rows *rows, const struct report_locks *locks,
			 struct lock_names *names, const struct lock_row *row)
{
	static const struct spot_frame nowhere;
	/* a return address: the call is before it */
	const struct where *where = row->place ? watch_where_at(locks->wheres, row->process,
								row->last_ns, row->place - 1)
					       : NULL;
	const struct spot_frame *frame = where ? &where->spot.frames[0] : &nowhere;
	char waiter[48], holder[48], place[WATCH_WHERE_BYTES];

	ROWS_PUT(rows, lock_columns,
		 row_text(lock_name(names, locks->images, row->process, row->last_ns, row->mutex,
				    sizeof(pthread_mutex_t))),
		 row_address(row->mutex), row_u64(row->pid),
		 row_text(lock_thread_text(locks, row, row->waiter, waiter)), row_u64(row->waiter),
		 row_text(lock_thread_text(locks, row, row->holder, holder)), row_u64(row->holder),
		 row_u64(row->waits), row_u64(row->waited_ns), row_u64(row->longest_ns),
		 row_u64(row->held_ns),
		 row_text(where ? watch_where_text(where, place, sizeof(place)) : NULL),
		 WATCH_WHERE_VALUES(row->place, where ? where->spot.module : NULL,
				    where ? where->spot.offset : 0, frame));
}

int report_locks_read(struct report_locks *locks, struct images *images)
{
	struct pass_observer *observer = &locks->locks.observer;
	int err;

	locks->images = images;
	if (!locks_has(images->reader))
		return -WM_E_NOT_RECORDED;
	err = thread_names_read(&locks->names, images->reader);
	if (!err)
		err = watch_wheres_read(&locks->wheres, images);
	if (!err)
		err = locks_open(&locks->locks, images->reader);
	if (!err)
		err = pass_read(images->reader, &observer, 1);
	locks_finish(&locks->locks);
	return err;
}

void report_locks_release(struct report_locks *locks)
{
	locks_release(&locks->locks);
	watch_wheres_free(locks->wheres);
	thread_names_release(&locks->names);
}

void report_locks_print(const struct report_locks *locks, uint64_t shown, struct rows *rows)
{
	struct lock_names names = { 0 };

	rows_open(rows, &report_lock_table,
		  &(struct rows_layout){ .none = "No thread waited for a mutex that another held.",
					 .shown = shown,
					 .more = "-n 0 shows all" });
	for (size_t i = 0; i < locks->locks.count; i++)
		lock_row_put(rows, locks, &names, &locks->locks.rows[i]);
	rows_close(rows);
	lock_names_release(&names);
}

/* ---- calls that wait ---- */

static const struct row_column wait_call_columns[] = {
	{ "thread", ROW_TEXT, ROW_PLAIN, 0, "the name of the threads" },
	{ "call", ROW_TEXT, ROW_PLAIN, 0, "the function of the C library that waited" },
	{ "for", ROW_TEXT, ROW_PLAIN, 0,
	  "the lock, named as in the table lock; the descriptor; null: time, a signal, several "
	  "descriptors, a thread or a process" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "of the lock; null: it is for none" },
	{ "fd", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the descriptor, likewise" },
	{ "count", ROW_U64, ROW_COUNT, 0, "so many calls took longer than a microsecond" },
	{ "time", ROW_U64, ROW_NS, 0, "from their begins to their ends" },
	{ "max", ROW_U64, ROW_NS, 0, "the longest" },
	{ "woken_by", ROW_TEXT, ROW_PLAIN, 0,
	  "the thread that ended most of that time, by a call for the same lock" },
	{ "stack", ROW_TEXT, ROW_PLAIN, 0, "who called, the innermost first" },
};
static ROW_TABLE(report_wait_call_table, "wait_call",
		 "What threads waited for, by the calls that record --waits records (--waits).",
		 wait_call_columns);

struct wait_calls_printing {
	const struct report_wait_calls *waits;
	struct lock_names names;
	char fd[16], waker[48], stack[REPORT_STACK_BYTES];
};

static void wait_call_make(void *data, size_t number, struct row_value *row)
{
	struct wait_calls_printing *printing = data;
	const struct samples *samples = &printing->waits->stacks;
	const struct wait_call_row *call = &printing->waits->calls.rows[number];
	const char *object = NULL;

	snprintf(printing->fd, sizeof(printing->fd), "fd %d", (int)call->object);
	if (call->lock_bytes)
		object = lock_name(&printing->names, samples->images, call->process, call->last_ns,
				   call->object, call->lock_bytes);
	else if (call->has_fd)
		object = printing->fd;
	if (call->waker_comm)
		snprintf(printing->waker, sizeof(printing->waker), "%s-%" PRIu32, call->waker_comm,
			 samples->threads[call->waker].tid);
	ROWS_FILL(row, wait_call_columns, row_text(call->comm), row_text(call->function),
		  row_text(object), call->lock_bytes ? row_address(call->object) : row_null(),
		  call->has_fd ? row_u64((uint32_t)call->object) : row_null(), row_u64(call->count),
		  row_u64(call->ns), row_u64(call->longest_ns),
		  row_text(call->waker_comm ? printing->waker : NULL),
		  row_text(report_stack_text(&samples->stacks,
					     samples->stacks.all[call->stack].outer, 0,
					     printing->stack)));
}

const char *report_wait_text(const struct report_wait_calls *waits, struct lock_names *names,
			     const struct wait_call *call, char text[REPORT_WAIT_BYTES])
{
	const char *lock = call->lock_bytes
				   ? lock_name(names, waits->stacks.images, call->process,
					       call->end_ns, call->object, call->lock_bytes)
				   : NULL;

	if (lock)
		snprintf(text, REPORT_WAIT_BYTES, "%s(%s)", call->function, lock);
	else if (call->has_fd)
		snprintf(text, REPORT_WAIT_BYTES, "%s(fd %d)", call->function, (int)call->object);
	else
		snprintf(text, REPORT_WAIT_BYTES, "%s", call->function);
	return text;
}

int report_wait_calls(struct report_wait_calls *waits, struct images *images)
{
	static const struct samples_options all;
	int err = wait_calls_has(images->reader) ? samples_open(&waits->stacks, images, &all) : 0;

	return err || !waits->stacks.reader ? err : wait_calls_open(&waits->calls, &waits->stacks);
}

void report_wait_calls_release(struct report_wait_calls *waits)
{
	wait_calls_release(&waits->calls);
	if (waits->stacks.reader)
		samples_close(&waits->stacks);
}

void report_wait_calls_print(struct rows *rows, const struct report *report,
			     const struct rows_layout *layout)
{
	struct wait_calls_printing printing = { .waits = &report->wait_calls };
	const struct rows_sorted sorted = {
		.table = &report_wait_call_table,
		.column = (unsigned int)rows_column(&report_wait_call_table, "time"),
		.count = report->wait_calls.calls.count,
		.make = wait_call_make,
		.data = &printing,
	};

	rows_put_sorted(rows, &sorted, layout);
	lock_names_release(&printing.names);
}
