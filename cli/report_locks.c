/* SPDX-License-Identifier: MIT */
/*
 * waymark report --locks: who held a mutex while others waited for it.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/watch_where.h"
#include "target/code/symbol.h"

#include <inttypes.h>
#include <stdio.h>
#include <waymark/error.h>

static const struct row_column lock_columns[] = {
	{ "mutex", ROW_TEXT, ROW_PLAIN, 0,
	  "its variable, or its module and offset; else its address" },
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

/* "pool_lock", "shop+0x4080" or the address, in text[], which is returned. */
static const char *mutex_text(struct images *images, const struct lock_row *row, char text[128])
{
	struct image *image = images_get(images, row->process);
	const struct image_place *place;
	const struct image_module *module;

	if (image)
		image = image_then(image, row->last_ns, NULL);
	place = image ? image_place(image, row->mutex) : NULL; /* opens the module's file */
	module = place ? place->module : NULL;
	if (!module)
		snprintf(text, 128, "0x%" PRIx64, row->mutex);
	else if (!module->file ||
		 code_symbol_data_at(module->file, row->mutex - module->base, text, 128))
		snprintf(text, 128, "%s+0x%" PRIx64, module->name, row->mutex - module->base);
	return text;
}

static void lock_row_put(struct rows *rows, const struct report_locks *locks,
			 const struct lock_row *row)
{
	static const struct spot_frame nowhere;
	/* a return address: the call is before it */
	const struct where *where = row->place ? watch_where_at(locks->wheres, row->process,
								row->last_ns, row->place - 1)
					       : NULL;
	const struct spot_frame *frame = where ? &where->spot.frames[0] : &nowhere;
	char mutex[128], waiter[48], holder[48], place[WATCH_WHERE_BYTES];

	ROWS_PUT(rows, lock_columns, row_text(mutex_text(locks->images, row, mutex)),
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
	rows_open(rows, &report_lock_table,
		  &(struct rows_layout){ .none = "No thread waited for a mutex that another held.",
					 .shown = shown,
					 .more = "-n 0 shows all" });
	for (size_t i = 0; i < locks->locks.count; i++)
		lock_row_put(rows, locks, &locks->locks.rows[i]);
	rows_close(rows);
}
