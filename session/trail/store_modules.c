/* SPDX-License-Identifier: MIT */
/* The modules that a store was told of: their records and paths, one behind the other, across chunks. */
#include "session/trail/store_own.h"

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

int store_module_add(struct trail_store *store, const struct control_module *module,
		     const char *path)
{
	uint32_t bytes = (uint32_t)strnlen(path, PATH_MAX - 1);

	if (!log_fits(store, sizeof(store->pid) + sizeof(*module) + sizeof(bytes) + bytes))
		return -ENOSPC;
	log_put(store, &store->pid, sizeof(store->pid));
	log_put(store, module, sizeof(*module));
	log_put(store, &bytes, sizeof(bytes));
	log_put(store, path, bytes);
	return 0;
}

struct log_place {
	uint32_t chunk, at;
};

/* 0 at the end, where nothing or all of it is. */
static int log_get(const struct trail_store *store, struct log_place *place, void *to, size_t bytes)
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
			*place = (struct log_place){ .chunk = chunk->next };
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

int trail_store_modules(const struct trail_store *store, pid_t pid, struct trail_sink *to)
{
	struct log_place place = { .chunk = store->modules.first };
	struct control_module module;
	char path[PATH_MAX];
	uint32_t bytes;
	pid_t whose;
	int err = 0;

	while (!err && log_get(store, &place, &whose, sizeof(whose)) &&
	       log_get(store, &place, &module, sizeof(module)) &&
	       log_get(store, &place, &bytes, sizeof(bytes)) && bytes < sizeof(path) &&
	       log_get(store, &place, path, bytes)) {
		path[bytes] = '\0';
		if (!pid || whose == pid)
			err = to->calls->module(to, &module, path);
	}
	return err;
}
