/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_paths.h"

#include "base/array.h"
#include "trace/trail/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (UINT64_C(1) << 20)
#define NUMBERS_MAX (1u << 30)
#define GAP_MAX 4096u /* ids that were given to nothing */

struct soft_chunk {
	struct soft_chunk *next;
	size_t used, bytes;
	_Alignas(16) uint8_t space[];
};

/* What one has taken, all may have. */
struct soft_family {
	uint32_t members;
	struct soft_chunk *chunks;
	uint64_t bytes; /* of the chunks */
};

static void *chunk_take(struct soft_paths *paths, size_t bytes)
{
	struct soft_family *family = paths->family;
	struct soft_chunk *chunk;
	size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	void *taken;

	if (!family) {
		family = calloc(1, sizeof(*family));
		if (!family)
			return NULL;
		family->members = 1;
		paths->family = family;
	}
	chunk = family->chunks;
	bytes = (bytes + 15) & ~(size_t)15;
	if (!chunk || chunk->bytes - chunk->used < bytes) {
		room = (room + 15) & ~(size_t)15;
		if (family->bytes + room > SOFT_PATHS_BYTES_MAX)
			return NULL;
		chunk = malloc(sizeof(*chunk) + room);
		if (!chunk)
			return NULL;
		*chunk = (struct soft_chunk){ .next = family->chunks, .bytes = room };
		family->chunks = chunk;
		family->bytes += room;
	}
	taken = chunk->space + chunk->used;
	chunk->used += bytes;
	return taken;
}

/* Ids up to, and not including, `end`. */
static int reach(struct soft_paths *paths, uint32_t first, uint64_t end)
{
	if (!first || first < paths->count || first - paths->count > GAP_MAX || end > ENGINE_EVENT)
		return -EPROTO;
	/* few bytes of the log skip many ids */
	if (end * sizeof(*paths->list) > SOFT_PATHS_BYTES_MAX ||
	    array_grow(&paths->list, &paths->room, end, sizeof(*paths->list)))
		return -ENOMEM;
	memset(paths->list + paths->count, 0, (end - paths->count) * sizeof(*paths->list));
	paths->count = end;
	return 0;
}

/* The blocks of a trace, whose bytes are at *at, up to `end`. */
static int take_blocks(struct trail_source_block *blocks, uint32_t count, const uint8_t **at,
		       const uint8_t *end)
{
	for (uint32_t i = 0; i < count; i++) {
		struct trail_entry *entry = &blocks[i].entry;
		size_t code;

		if ((size_t)(end - *at) < sizeof(*entry))
			return -EPROTO;
		memcpy(entry, *at, sizeof(*entry));
		*at += sizeof(*entry);
		code = entry->flags & TRAIL_HAS_CODE ? (entry->bytes + 7u) & ~7u : 0;
		if (!trail_entry_is_sane(entry) || (size_t)(end - *at) < code)
			return -EPROTO;
		blocks[i].code = code ? *at : NULL;
		*at += code;
	}
	return 0;
}

static int take_trace(struct soft_paths *paths, const uint8_t *entry, size_t bytes)
{
	const uint8_t *at = entry + sizeof(struct engine_trace), *end = entry + bytes;
	struct trail_source_block *blocks;
	struct engine_trace trace;
	int err;

	if (bytes < sizeof(trace))
		return -EPROTO;
	memcpy(&trace, entry, sizeof(trace));
	if (!trace.blocks || !trace.exits || paths->blocks > NUMBERS_MAX ||
	    trace.blocks > bytes / sizeof(struct trail_entry))
		return -EPROTO;
	blocks = chunk_take(paths, trace.blocks * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	err = take_blocks(blocks, trace.blocks, &at, end);
	if (!err && (size_t)(end - at) < trace.exits * sizeof(uint16_t))
		err = -EPROTO;
	if (!err)
		err = reach(paths, trace.first_id, trace.first_id + (uint64_t)trace.exits);
	for (uint32_t i = 0; i < trace.exits && !err; i++) {
		uint16_t count;

		memcpy(&count, at + i * sizeof(count), sizeof(count));
		if (!count || count > trace.blocks)
			return -EPROTO;
		paths->list[trace.first_id + i] = (struct soft_path){
			blocks,	       paths->first_number + trace.first_id + i,
			paths->blocks, count,
			trace.blocks,  paths->moment
		};
	}
	paths->blocks += trace.blocks;
	return err;
}

static int take_prefix(struct soft_paths *paths, const uint8_t *entry, size_t bytes)
{
	struct engine_prefix prefix;
	const struct soft_path *of;
	int err;

	if (bytes < sizeof(prefix))
		return -EPROTO;
	memcpy(&prefix, entry, sizeof(prefix));
	of = soft_path_of(paths, prefix.of);
	if (!of || !prefix.blocks || prefix.blocks > of->trace)
		return -EPROTO;
	err = reach(paths, prefix.id, prefix.id + UINT64_C(1));
	if (err)
		return err;
	of = soft_path_of(paths, prefix.of); /* it may have moved */
	paths->list[prefix.id] = (struct soft_path){ of->blocks, paths->first_number + prefix.id,
						     of->first,	 (uint16_t)prefix.blocks,
						     of->trace,	 of->moment };
	return 0;
}

static int take_module(struct soft_paths *paths, const uint8_t *entry, size_t bytes)
{
	struct engine_module module;
	const char *path = (const char *)entry + sizeof(module);
	int64_t moment;

	if (bytes < sizeof(module))
		return -EPROTO;
	memcpy(&module, entry, sizeof(module));
	if (bytes == sizeof(module))
		path = "";
	else if (!memchr(path, '\0', bytes - sizeof(module)))
		return -EPROTO;
	moment = paths->on_module ? paths->on_module(paths->data, &module, path) : 0;
	if (moment < 0)
		return (int)moment;
	paths->moment = (uint32_t)moment;
	return 0;
}

static int take_entry(struct soft_paths *paths, const uint8_t *from,
		      const struct engine_entry *head)
{
	uint8_t *copy;

	if (head->kind == ENGINE_ENTRY_PAD)
		return 0;
	copy = chunk_take(paths, head->bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, from, head->bytes);
	memcpy(copy, head, sizeof(*head)); /* as it was checked */
	switch (head->kind) {
	case ENGINE_ENTRY_TRACE:
		return take_trace(paths, copy, head->bytes);
	case ENGINE_ENTRY_PREFIX:
		return take_prefix(paths, copy, head->bytes);
	case ENGINE_ENTRY_MODULE:
	case ENGINE_ENTRY_GONE:
		return take_module(paths, copy, head->bytes);
	default:
		return -EPROTO;
	}
}

int soft_paths_take(struct soft_paths *paths, const struct soft_channel *channel)
{
	struct engine_channel *head = soft_channel_head(channel);
	uint64_t room = channel->sizes.log_bytes;
	uint64_t put = __atomic_load_n(&head->log_put, __ATOMIC_ACQUIRE);
	int had = 0;

	if (!paths->error && put - paths->taken > room)
		paths->error = -EPROTO;
	while (!paths->error && paths->taken != put) {
		uint64_t at = paths->taken % room;
		uint64_t whole = put - paths->taken < room - at ? put - paths->taken : room - at;
		const uint8_t *from = channel->base + channel->log_at + at;
		struct engine_entry entry;

		memcpy(&entry, from, sizeof(entry));
		if (whole < sizeof(entry) || entry.bytes < sizeof(entry) || entry.bytes % 8 ||
		    entry.bytes > whole)
			paths->error = -EPROTO;
		else
			paths->error = take_entry(paths, from, &entry);
		paths->taken += paths->error ? 0 : entry.bytes;
		had = 1;
	}
	if (had)
		soft_channel_give_log(channel, paths->taken);
	return paths->error ? paths->error : had;
}

int soft_paths_copy(struct soft_paths *copy, const struct soft_paths *paths, uint32_t end)
{
	size_t count = end < paths->count ? end : paths->count;

	if (!count)
		return 0;
	if (array_grow(&copy->list, &copy->room, count, sizeof(*copy->list)))
		return -ENOMEM;
	memcpy(copy->list, paths->list, count * sizeof(*copy->list));
	copy->count = count;
	for (size_t i = 0; i < count; i++)
		copy->list[i].moment = 0; /* its own begin with what is there now */
	copy->blocks = paths->blocks;
	copy->first_number = paths->first_number;
	copy->family = paths->family;
	if (copy->family)
		copy->family->members++;
	return 0;
}

static void family_leave(struct soft_family *family)
{
	if (!family || --family->members)
		return;
	while (family->chunks) {
		struct soft_chunk *next = family->chunks->next;

		free(family->chunks);
		family->chunks = next;
	}
	free(family);
}

void soft_paths_renew(struct soft_paths *paths)
{
	family_leave(paths->family);
	paths->family = NULL;
	paths->first_number += (uint32_t)paths->count;
	paths->count = 0;
	paths->taken = 0;
}

void soft_paths_release(struct soft_paths *paths)
{
	family_leave(paths->family);
	free(paths->list);
	paths->family = NULL;
	paths->list = NULL;
	paths->count = paths->room = 0;
}
