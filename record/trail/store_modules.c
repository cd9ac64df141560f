/* SPDX-License-Identifier: MIT */
/*
 * The modules of a store: their times, records and paths, one behind the other, across chunks. Two
 * modules at one address share block ids; the times distinguish them.
 */
#include "record/trail/store_own.h"

#include <errno.h>
#include <limits.h>

#define SHARE 8 /* of all chunks, one in so many, but one at least */

struct log_chunk {
	uint32_t next, reserved;
	uint8_t bytes[];
};

static uint32_t chunk_room(const struct trail_store *store)
{
	return store->pool.chunk_bytes - (uint32_t)sizeof(struct log_chunk);
}

static int log_fits(struct trail_store *store, size_t bytes)
{
	const struct store_log *log = &store->modules;
	uint32_t most = store->pool.count / SHARE ? store->pool.count / SHARE : 1;
	size_t room = log->chunks ? chunk_room(store) - log->used : 0;
	uint32_t chunks;

	if (bytes <= room)
		return 1;
	chunks = (uint32_t)((bytes - room + chunk_room(store) - 1) / chunk_room(store));
	if (log->chunks + chunks > most)
		return 0;
	while (store->pool.free < chunks)
		if (!store_make_way(store))
			return 0;
	return 1;
}

static void log_put(struct trail_store *store, const void *from, size_t bytes)
{
	struct store_log *log = &store->modules;
	const uint8_t *at = from;

	while (bytes) {
		struct log_chunk *chunk = log->last ? store_pool_at(&store->pool, log->last) : NULL;
		uint32_t room = chunk ? chunk_room(store) - log->used : 0;
		uint32_t some = bytes < room ? (uint32_t)bytes : room;

		if (!room) {
			uint32_t new = store_pool_take(&store->pool);

			if (chunk)
				chunk->next = new;
			else
				log->first = new;
			log->last = new;
			log->used = 0;
			log->chunks++;
			*(struct log_chunk *)store_pool_at(&store->pool,
							   new) = (struct log_chunk){ 0 };
			continue;
		}
		memcpy(chunk->bytes + log->used, at, some);
		log->used += some;
		at += some;
		bytes -= some;
	}
}

/* The time of the last record that was put. */
static uint64_t ticks_now(const struct trail_store *store)
{
	uint64_t now = 0;

	for (const struct store_thread *thread = store->threads; thread; thread = thread->next) {
		uint64_t last = thread->newest ? store_run_at(store, thread->newest)->ticks : 0;

		last = last > thread->end_ticks ? last : thread->end_ticks;
		last = last > thread->ticks ? last : thread->ticks;
		now = now > last ? now : last;
	}
	return now;
}

int store_module_add(struct trail_store *store, const struct control_module *module,
		     const char *path)
{
	uint32_t bytes = (uint32_t)strnlen(path, PATH_MAX - 1);
	struct store_noted noted = { .ticks = ticks_now(store), .pid = store->pid };

	if (!log_fits(store, sizeof(noted) + sizeof(*module) + sizeof(bytes) + bytes))
		return -ENOSPC;
	log_put(store, &noted, sizeof(noted));
	log_put(store, module, sizeof(*module));
	log_put(store, &bytes, sizeof(bytes));
	log_put(store, path, bytes);
	return 0;
}

/* 0 at the end, where nothing or all of it is. */
static int log_get(const struct trail_store *store, struct store_log_place *place, void *to,
		   size_t bytes)
{
	uint8_t *at = to;

	while (bytes) {
		const struct log_chunk *chunk;
		uint32_t end, some;

		if (!place->chunk)
			return 0;
		chunk = store_pool_at(&store->pool, place->chunk);
		end = place->chunk == store->modules.last ? store->modules.used : chunk_room(store);
		if (place->at == end) {
			place->chunk = chunk->next;
			place->at = 0;
			continue;
		}
		some = end - place->at < bytes ? end - place->at : (uint32_t)bytes;
		memcpy(at, chunk->bytes + place->at, some);
		place->at += some;
		at += some;
		bytes -= some;
	}
	return 1;
}

static void next_find(const struct trail_store *store, struct store_log_place *place)
{
	place->has_next = log_get(store, place, &place->next, sizeof(place->next));
}

void store_modules_begin(const struct trail_store *store, pid_t pid, struct store_log_place *place)
{
	*place = (struct store_log_place){ .pid = pid, .chunk = store->modules.first };
	next_find(store, place);
}

int store_modules_tell(const struct trail_store *store, struct store_log_place *place,
		       uint64_t ticks, struct trail_sink *to)
{
	struct control_module module;
	char path[PATH_MAX];
	uint32_t bytes;
	int err = 0;

	while (!err && place->has_next && place->next.ticks < ticks &&
	       log_get(store, place, &module, sizeof(module)) &&
	       log_get(store, place, &bytes, sizeof(bytes)) && bytes < sizeof(path) &&
	       log_get(store, place, path, bytes)) {
		path[bytes] = '\0';
		if (!place->pid || place->next.pid == place->pid)
			err = to->calls->module(to, &module, path);
		next_find(store, place);
	}
	return err;
}

int trail_store_modules(const struct trail_store *store, pid_t pid, struct trail_sink *to)
{
	struct store_log_place place;

	store_modules_begin(store, pid, &place);
	return store_modules_tell(store, &place, UINT64_MAX, to);
}
