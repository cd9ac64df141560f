/* SPDX-License-Identifier: MIT */
#include "trace/trail/range.h"

#include "base/array.h"
#include "base/sorted.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

uint64_t trail_ns(const struct trace_reader *reader, const struct trail_path *path, uint64_t ticks)
{
	return reader_ns(reader, stream_clock(reader, path->stream), ticks);
}

/* Blocks that were written at that very time ran before it; an event was then. */
static int is_from(const struct trail_part *part, uint64_t ns, uint64_t from_ns)
{
	return part->count ? ns > from_ns : ns >= from_ns;
}

/* The first part that may be as late as a time; or the first event that is later. */
static size_t part_at(const struct trace_reader *reader, const struct trail_path *path,
		      uint64_t bound_ns, int is_end)
{
	size_t i = 0;

	for (; i < path->count; i++) {
		const struct trail_part *part = &path->parts[i];
		uint64_t ns = trail_ns(reader, path, part->ticks);

		if (is_end ? !part->count && ns > bound_ns : is_from(part, ns, bound_ns))
			break;
	}
	return i;
}

/* The bound's place, as a cursor: before the first item inside, or before the first outside. */
static void bound_seek(struct trail_cursor *cursor, const struct trace_reader *reader,
		       const struct trail_bound *bound, int is_end)
{
	switch (bound->kind) {
	case TRAIL_BOUND_BLOCK:
		trail_seek(cursor, bound->value);
		break;
	case TRAIL_BOUND_NS:
		cursor->part = part_at(reader, cursor->path, bound->value, is_end);
		break;
	default:
		if (is_end)
			trail_seek_end(cursor);
	}
}

static uint64_t index_at(const struct trail_path *path, size_t part, uint32_t id)
{
	return part < path->count ? path->parts[part].before + id : path->blocks;
}

void trail_range_init(struct trail_range *range, const struct trace_reader *reader,
		      const struct trail_path *path, const struct trail_bound *from,
		      const struct trail_bound *to)
{
	struct trail_cursor end = { .path = path };

	*range = (struct trail_range){ .cursor.path = path };
	bound_seek(&range->cursor, reader, from, 0);
	bound_seek(&end, reader, to, 1);
	if (end.part < range->cursor.part ||
	    (end.part == range->cursor.part && end.id < range->cursor.id))
		end = range->cursor;
	range->end_part = end.part;
	range->end_id = end.id;
	range->first = index_at(path, range->cursor.part, range->cursor.id);
	range->end = index_at(path, end.part, end.id);
}

int trail_range_next(struct trail_range *range, struct trail_item *item)
{
	if (range->cursor.part > range->end_part ||
	    (range->cursor.part == range->end_part && range->cursor.id >= range->end_id))
		return 0;
	return trail_next(&range->cursor, item);
}

/* Without its first blocks. */
static void part_behead(struct trail_part *part, uint32_t blocks)
{
	struct trail_cursor at = { .path = &(struct trail_path){ .parts = part }, .id = blocks };
	const struct trail_run *run;

	if (!blocks)
		return;
	run = trail_cursor_run(&at);
	part->ids += 4 * (size_t)(part->has_paths ? run->word : blocks);
	part->words = 0; /* who needs them only looks ahead */
	if (part->has_paths)
		part->skip = (uint8_t)(blocks - run->first + (run->word ? 0 : part->skip));
	part->before += blocks;
	part->count -= blocks;
}

int trail_range_cut(const struct trail_range *range, struct trail_path *cut)
{
	const struct trail_path *path = range->cursor.path;
	size_t first = range->cursor.part, end = range->end_part + (range->end_id != 0);
	struct trail_part *part;

	if (range->end_part == first && range->end_id <= range->cursor.id)
		end = first; /* it is empty */

	*cut = *path;
	if (end < path->count && end > first && !range->end_id && !path->parts[end].count &&
	    path->parts[end].between.left)
		end++;
	cut->count = cut->room = end > first ? end - first : 0;
	cut->blocks = range->end;
	cut->parts = malloc((cut->count + 1) * sizeof(*cut->parts));
	if (!cut->parts)
		return -ENOMEM;
	if (!cut->count)
		return 0;
	memcpy(cut->parts, path->parts + first, cut->count * sizeof(*cut->parts));
	part = &cut->parts[cut->count - 1];
	if (range->end_id)
		part->count = range->end_id;
	part = &cut->parts[0];
	part_behead(part, range->cursor.id);
	return 0;
}

void trail_range_uncut(const struct trail_range *range, struct trail_cursor *cursor)
{
	if (!cursor->part)
		cursor->id += range->cursor.id;
	cursor->part += range->cursor.part;
	cursor->path = range->cursor.path;
	cursor->run = (struct trail_run){ 0 };
}

/* ---- events ---- */

struct moments {
	struct trail_moment *all;
	size_t count, room;
};

static int is_called(const struct trace_class *class, const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(class->name, name, bytes) &&
	       (!class->name[bytes] || !strcmp(class->name + bytes, ":begin"));
}

static int has_event(const struct trace_reader *reader, const struct trace_stream *stream,
		     const char *name)
{
	const struct trace_schema *schema = stream->packets ? stream_schema(reader, stream) : NULL;

	for (uint32_t i = 0; schema && i < schema->count; i++)
		if (is_called(schema->classes[i], name))
			return 1;
	return 0;
}

static int stream_moments(struct trace_reader *reader, struct trace_stream *stream,
			  const char *name, struct moments *moments)
{
	const struct trace_schema *schema = stream_schema(reader, stream);
	uint32_t clock = stream_clock(reader, stream);
	struct trace_packet packet;
	uint64_t offset = 0;

	while (reader_stream_packet(reader, stream, &offset, &packet))
		while (packet.walk.at < packet.walk.end) {
			const struct trace_class *class;
			const uint8_t *fields;

			/* what is damaged is said when the trail is read, if it is of one */
			if (reader_packet_event(&packet, schema, &class, &fields))
				break;
			if (!is_called(class, name))
				continue;
			if (array_grow(&moments->all, &moments->room, moments->count + 1,
				       sizeof(*moments->all)))
				return -ENOMEM;
			moments->all[moments->count++] = (struct trail_moment){
				reader_ns(reader, clock, packet.walk.ticks), stream->pid,
				stream->tid
			};
		}
	return 0;
}

int trail_event_find(struct trace_reader *reader, const char *name, uint64_t nth,
		     struct trail_moment *moment, uint64_t *count)
{
	struct moments moments = { 0 };
	int err = 0, is_known = 0;

	for (uint32_t i = 0; i < reader->stream_count && !err; i++) {
		struct trace_stream *stream = &reader->streams[i];
		int was_mapped = stream->map != NULL;

		if (!has_event(reader, stream, name))
			continue;
		is_known = 1;
		err = reader_stream_open(reader, stream);
		if (!err)
			err = stream_moments(reader, stream, name, &moments);
		if (!was_mapped)
			reader_stream_unmap(stream);
	}
	*count = moments.count;
	if (!err && !is_known)
		err = -ENOENT;
	else if (!err && (!nth || nth > moments.count))
		err = -ERANGE;
	if (!err) {
		sorted_make(moments.all, moments.count, sizeof(*moments.all));
		*moment = moments.all[nth - 1];
	}
	free(moments.all);
	return err;
}

/* Whether the code behind an event runs up to a time without a loss. */
static int goes_on_to(const struct trace_reader *reader, const struct trail_path *path, size_t from,
		      uint64_t ns)
{
	for (size_t i = from + 1; i < path->count; i++) {
		const struct trail_part *part = &path->parts[i];

		if (!part->count && part->between.event == TRAIL_LOST)
			return 0;
		/* of blocks it is an upper bound */
		if (trail_ns(reader, path, part->ticks) >= ns)
			return 1;
	}
	return 0;
}

int trail_trapped(const struct trace_reader *reader, const struct trail_path *path,
		  const struct trail_moment *moment, uint64_t *block)
{
	size_t last = path->count;

	if (path->stream->pid != moment->pid || path->stream->tid != moment->tid)
		return 0;
	for (size_t i = 0; i < path->count; i++) {
		const struct trail_part *part = &path->parts[i];

		if (part->count || part->between.event != TRAIL_SIGNAL ||
		    part->between.values[0] != SIGTRAP)
			continue;
		if (trail_ns(reader, path, part->ticks) > moment->ns)
			break;
		last = i;
	}
	if (last == path->count || !goes_on_to(reader, path, last, moment->ns))
		return 0;
	*block = path->parts[last].before;
	return 1;
}
