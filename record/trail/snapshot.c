/* SPDX-License-Identifier: MIT */
#include "record/trail/snapshot.h"

#include "base/array.h"
#include "record/trail/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct taking {
	struct snapshot *snapshot;
	uint32_t *ids; /* ours in their tables + 1, by the store's */
};

/* ---- the process's modules ---- */

/* A sink for modules alone. */
struct module_sink {
	struct trail_sink sink;
	struct fact_process *process;
};

static int module_add(struct trail_sink *sink, const struct control_module *module,
		      const char *path)
{
	return fact_module_add(((struct module_sink *)sink)->process,
			       &(struct fact_module){ .base = module->base, .gone = module->gone },
			       path, module->build_id, module->build_id_bytes);
}

/* ---- its records ---- */

/* NULL: no memory. */
static struct snapshot_table *table_of(struct snapshot *snapshot, uint32_t from)
{
	struct snapshot_table **at = &snapshot->tables;

	while (*at && (*at)->from != from)
		at = &(*at)->next;
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			(*at)->from = from;
	}
	return *at;
}

static int define(struct taking *taking, struct snapshot_table *in,
		  const struct store_record *record, uint32_t *id)
{
	uint8_t run[sizeof(struct trail_entry) + TRAIL_BLOCK_BYTES_MAX];
	size_t bytes = sizeof(struct trail_entry);

	memcpy(run, record->entry, bytes);
	if (record->code) {
		memcpy(run + bytes, record->code, record->entry->bytes);
		bytes += record->entry->bytes;
	}
	*id = in->defined;
	taking->ids[record->id] = ++in->defined;
	return trail_table_define(&in->table, *id, run, bytes);
}

static struct trail_part *part_add(struct trail_path *path, uint64_t ticks)
{
	if (array_grow(&path->parts, &path->room, path->count + 1, sizeof(*path->parts)))
		return NULL;
	path->parts[path->count] = (struct trail_part){ .before = path->blocks, .ticks = ticks };
	return &path->parts[path->count++];
}

static int take_block(struct taking *taking, const struct store_record *record)
{
	struct snapshot *snapshot = taking->snapshot;
	struct trail_path *path = &snapshot->path;
	struct trail_part *part = path->count ? &path->parts[path->count - 1] : NULL;
	struct snapshot_table *in = table_of(snapshot, record->from);
	uint32_t id = taking->ids[record->id] - 1;
	int err = in ? 0 : -ENOMEM;

	if (!err && !taking->ids[record->id])
		err = define(taking, in, record, &id);

	if (err)
		return err;
	if (!part || !part->count || part->ticks != record->ticks || part->table != &in->table)
		part = part_add(path, record->ticks);
	if (!part || array_grow(&snapshot->ids, &snapshot->id_room, snapshot->id_count + 1, 4))
		return -ENOMEM;
	memcpy(snapshot->ids + 4 * snapshot->id_count++, &id, 4);
	part->count++;
	part->table = &in->table;
	path->blocks++;
	return 0;
}

static int record_take(const struct store_record *record, void *data)
{
	struct taking *taking = data;
	struct trail_part *part;

	if (record->entry)
		return take_block(taking, record);
	part = part_add(&taking->snapshot->path, record->ticks);
	if (!part)
		return -ENOMEM;
	part->between = record->between;
	return 0;
}

/* Once all modules are known. */
static int eras_take(struct snapshot *snapshot)
{
	struct module_epochs epochs = { 0 };
	int err = trails_epochs_read(&epochs, &snapshot->process);
	uint32_t number = 0;

	for (struct snapshot_table *at = snapshot->tables; at && !err; at = at->next) {
		struct trail_era *era = &at->table.era;

		era->number = number++;
		if (at->from == STORE_NO_EPOCH)
			continue;
		era->from = at->from;
		era->to = module_epochs_end(&epochs, at->from);
	}
	module_epochs_release(&epochs);
	return err;
}

int snapshot_take(struct snapshot *snapshot, struct trail_store *store,
		  const struct store_thread *thread, pid_t pid)
{
	static const struct trail_sink_calls calls = { .module = module_add };
	struct module_sink modules = { .sink.calls = &calls, .process = &snapshot->process };
	struct taking taking = { .snapshot = snapshot };
	struct trail_path *path = &snapshot->path;
	int err;

	*snapshot = (struct snapshot){ .process.pid = (uint32_t)pid };
	taking.ids = calloc(trail_store_ids(store) + 1, sizeof(*taking.ids));
	if (!taking.ids)
		return -ENOMEM;
	err = trail_store_modules(store, store_thread_pid(thread), &modules.sink);
	if (!err)
		err = store_thread_each(store, thread, record_take, &taking);
	if (!err)
		err = eras_take(snapshot);
	free(taking.ids);
	for (size_t i = 0; i < path->count; i++)
		if (path->parts[i].count)
			path->parts[i].ids = snapshot->ids + 4 * path->parts[i].before;
	return err;
}

void snapshot_release(struct snapshot *snapshot)
{
	fact_modules_release(&snapshot->process);
	free(snapshot->path.parts);
	free(snapshot->ids);
	for (struct snapshot_table *at = snapshot->tables, *next; at; at = next) {
		next = at->next;
		trail_table_release(&at->table);
		free(at);
	}
	*snapshot = (struct snapshot){ 0 };
}

/* ---- records by index ---- */

int snapshot_path_init(struct path_index *index, const struct trail_path *path)
{
	*index = (struct path_index){ .path = path,
				      .before = calloc(path->count + 1, sizeof(*index->before)) };
	if (!index->before)
		return -ENOMEM;
	for (size_t i = 0; i < path->count; i++) {
		index->before[i] = index->records;
		index->records += path->parts[i].count ? path->parts[i].count : 1;
	}
	return 0;
}

void snapshot_path_release(struct path_index *index)
{
	free(index->before);
	*index = (struct path_index){ 0 };
}

void snapshot_path_seek(const struct path_index *index, uint64_t number,
			struct trail_cursor *cursor)
{
	size_t low = 0, high = index->path->count;

	*cursor = (struct trail_cursor){ .path = index->path };
	if (number >= index->records) {
		trail_seek_end(cursor);
		return;
	}
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (index->before[middle] <= number)
			low = middle;
		else
			high = middle;
	}
	cursor->part = low;
	cursor->id = (uint32_t)(number - index->before[low]);
}

/* A trail's item as branch_make() takes it; *entry is room for the block. */
static struct branch_item branch_item_of(const struct trail_item *item, struct trail_entry *entry)
{
	struct branch_item made = { .between = item->between, .monotonic_ns = item->ticks };

	if (item->block) {
		*entry = branch_entry(item->block);
		made.entry = entry;
		made.code = trail_table_code(item->table, item->block);
	}
	return made;
}

void snapshot_branch(const struct trail_cursor *cursor, struct branch_thread of,
		     struct wm_branch *branch)
{
	struct trail_cursor back = *cursor, on = *cursor;
	struct branch_item items[3];
	struct trail_entry entries[3];
	struct trail_item item;
	int has_before, has_after;

	has_after = trail_next(&on, &item);
	if (has_after)
		items[2] = branch_item_of(&item, &entries[2]);
	trail_previous(&back, &item);
	items[1] = branch_item_of(&item, &entries[1]);
	has_before = trail_previous(&back, &item);
	if (has_before)
		items[0] = branch_item_of(&item, &entries[0]);
	branch_make(branch, has_before ? &items[0] : NULL, &items[1], has_after ? &items[2] : NULL,
		    of);
}
