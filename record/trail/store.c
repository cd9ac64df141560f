/* SPDX-License-Identifier: MIT */
#include "record/trail/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- its memory: one mapping, cut into chunks of one size that are taken and given back ---- */

#define NO_CHUNK 0u /* chunks count from 1 */

struct store_pool {
	uint8_t *chunks; /* the first */
	uint32_t chunk_bytes;
	uint32_t count, free;
	uint32_t first_free; /* each free one names the next in its first word */
	uint32_t never_used; /* from this one on */
};

static void *store_pool_at(const struct store_pool *pool, uint32_t chunk)
{
	return pool->chunks + (size_t)(chunk - 1) * pool->chunk_bytes;
}

static void store_pool_init(struct store_pool *pool, uint8_t *memory, size_t bytes,
			    uint32_t chunk_bytes)
{
	*pool = (struct store_pool){ .chunks = memory,
				     .chunk_bytes = chunk_bytes,
				     .count = (uint32_t)(bytes / chunk_bytes),
				     .never_used = 1 };
	pool->free = pool->count;
}

/* A free one, with undefined contents, or NO_CHUNK. */
static uint32_t store_pool_take(struct store_pool *pool)
{
	uint32_t chunk = pool->first_free;

	if (!pool->free)
		return NO_CHUNK;
	pool->free--;
	if (!chunk)
		return pool->never_used++;
	pool->first_free = *(uint32_t *)store_pool_at(pool, chunk);
	return chunk;
}

static void store_pool_give(struct store_pool *pool, uint32_t chunk)
{
	*(uint32_t *)store_pool_at(pool, chunk) = pool->first_free;
	pool->first_free = chunk;
	pool->free++;
}

/*
 * ---- its table: what the ids of its records mean. An id counts the records that have it, and is
 * another block's when none has: ids are the store's own, and mean nothing outside.
 *
 * It lives in chunks of the store's pool, and takes none by itself when it has to grow: its owner
 * decides what gives way (struct store_blocks.wants_chunk).
 */

struct store_block {
	uint32_t id, next; /* next in its slot: id + 1, or 0 */
	uint32_t refs;	   /* records that have it */
	uint32_t from;	   /* the epoch's name; STORE_NO_EPOCH */
	struct trail_entry entry;
	uint8_t code[]; /* entry.bytes of it with TRAIL_HAS_CODE */
};

#define STORE_BLOCK_BYTES_MAX                                                                      \
	((sizeof(struct store_block) + TRAIL_BLOCK_BYTES_MAX + 7) & ~(size_t)7)

struct store_blocks {
	struct store_pool *pool;
	uint32_t *slots; /* id + 1 by start and code, chained */
	uint32_t slot_count;
	uint32_t *map; /* chunks of places by id */
	uint32_t map_count;
	uint32_t ids;			 /* ever given */
	uint32_t free_id;		 /* + 1: chained in their places */
	uint32_t first, last;		 /* chunks of blocks */
	uint32_t chunks;		 /* of both kinds */
	uint64_t used_bytes, dead_bytes; /* of blocks; of these, of those that no record has */
	/* A chunk for the table; NO_CHUNK: none is free. It may call store_blocks_sweep(). */
	uint32_t (*wants_chunk)(void *owner);
	void *owner;
};

/* A chunk of blocks, one after the other. */
struct block_chunk {
	uint32_t next, used; /* used: of `bytes` */
	uint8_t bytes[];
};

#define PLACE_UNIT 8u /* places count these, in the pool; chained ids have PLACE_FREE set */
#define PLACE_FREE (UINT64_C(1) << 63)

/* Room for slots and map at `memory`, for a pool of `chunks`: how many bytes. */
static size_t store_blocks_bytes(uint32_t chunks, uint32_t slots)
{
	return ((size_t)chunks + slots) * sizeof(uint32_t);
}

static void store_blocks_init(struct store_blocks *blocks, struct store_pool *pool, void *memory,
			      uint32_t chunks, uint32_t slots)
{
	*blocks = (struct store_blocks){ .pool = pool,
					 .slots = memory,
					 .slot_count = slots,
					 .map = (uint32_t *)memory + slots };
	memset(memory, 0, store_blocks_bytes(chunks, slots));
}

/* Of all of it. */
static uint32_t bytes_of(const struct trail_entry *entry)
{
	uint32_t code = entry->flags & TRAIL_HAS_CODE ? entry->bytes : 0;

	return ((uint32_t)sizeof(struct store_block) + code + 7) & ~7u;
}

/* ---- ids and their places ---- */

static uint32_t ids_a_chunk(const struct store_blocks *blocks)
{
	return blocks->pool->chunk_bytes / (uint32_t)sizeof(uint64_t);
}

static uint64_t *place_of(const struct store_blocks *blocks, uint32_t id)
{
	uint64_t *places = store_pool_at(blocks->pool, blocks->map[id / ids_a_chunk(blocks)]);

	return &places[id % ids_a_chunk(blocks)];
}

static struct store_block *store_blocks_at(const struct store_blocks *blocks, uint32_t id)
{
	return (struct store_block *)(blocks->pool->chunks + *place_of(blocks, id) * PLACE_UNIT);
}

static void place_set(struct store_blocks *blocks, const struct store_block *block)
{
	*place_of(blocks, block->id) = (uint64_t)((const uint8_t *)block - blocks->pool->chunks) /
				       PLACE_UNIT;
}

static void id_free(struct store_blocks *blocks, uint32_t id)
{
	*place_of(blocks, id) = PLACE_FREE | blocks->free_id;
	blocks->free_id = id + 1;
}

static int64_t id_take(struct store_blocks *blocks)
{
	uint32_t chunk, id;

	if (!blocks->free_id && blocks->ids == blocks->map_count * ids_a_chunk(blocks)) {
		chunk = blocks->wants_chunk(blocks->owner);
		if (!chunk)
			return -ENOMEM;
		blocks->map[blocks->map_count++] = chunk;
		blocks->chunks++;
	}
	if (!blocks->free_id)
		return blocks->ids++;
	id = blocks->free_id - 1;
	blocks->free_id = (uint32_t)*place_of(blocks, id);
	return id;
}

/* ---- slots ---- */

static uint64_t hash_of(uint64_t start, const uint8_t *code, size_t bytes)
{
	uint64_t hash = start * 0x9e3779b97f4a7c15ull, last = 0;
	size_t at = 0;

	for (; at + sizeof(last) <= bytes; at += sizeof(last)) {
		memcpy(&last, code + at, sizeof(last));
		hash = (hash ^ last) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29; /* the upper half of a word would only move upwards */
	}
	last = 0;
	if (at < bytes)
		memcpy(&last, code + at, bytes - at);
	hash = (hash ^ last) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static const uint8_t *code_of(const struct store_block *block)
{
	return block->entry.flags & TRAIL_HAS_CODE ? block->code : NULL;
}

static uint32_t *slot_of(struct store_blocks *blocks, const struct trail_entry *entry,
			 const uint8_t *code)
{
	return &blocks->slots[hash_of(entry->start, code, code ? entry->bytes : 0) &
			      (blocks->slot_count - 1)];
}

static void slot_add(struct store_blocks *blocks, struct store_block *block)
{
	uint32_t *slot = slot_of(blocks, &block->entry, code_of(block));

	block->next = *slot;
	*slot = block->id + 1;
}

static struct store_block *find(struct store_blocks *blocks, const struct trail_entry *entry,
				const uint8_t *code, uint32_t from)
{
	uint32_t at = *slot_of(blocks, entry, code);

	while (at) {
		struct store_block *block = store_blocks_at(blocks, at - 1);

		if (block->from == from && !memcmp(&block->entry, entry, sizeof(*entry)) &&
		    (!code || !memcmp(block->code, code, entry->bytes)))
			return block;
		at = block->next;
	}
	return NULL;
}

/* ---- blocks ---- */

static uint32_t block_chunk_room(const struct store_blocks *blocks)
{
	return blocks->pool->chunk_bytes - (uint32_t)sizeof(struct block_chunk);
}

/* Room for `bytes` in the last chunk, or one that is new. */
static struct block_chunk *block_room(struct store_blocks *blocks, uint32_t bytes)
{
	struct block_chunk *last = blocks->last ? store_pool_at(blocks->pool, blocks->last) : NULL;
	uint32_t chunk;

	if (last && last->used + bytes <= block_chunk_room(blocks))
		return last;
	chunk = blocks->wants_chunk(blocks->owner);
	if (!chunk)
		return NULL;
	/* what was swept for it may have made room in another */
	last = blocks->last ? store_pool_at(blocks->pool, blocks->last) : NULL;
	if (last && last->used + bytes <= block_chunk_room(blocks)) {
		store_pool_give(blocks->pool, chunk);
		return last;
	}
	if (last)
		last->next = chunk;
	else
		blocks->first = chunk;
	blocks->last = chunk;
	blocks->chunks++;
	last = store_pool_at(blocks->pool, chunk);
	*last = (struct block_chunk){ 0 };
	return last;
}

/* The id of a block in an epoch, which one more record has now; -ENOMEM where it found no room. */
static int64_t store_blocks_hold(struct store_blocks *blocks, const struct trail_entry *entry,
				 const uint8_t *code, uint32_t from)
{
	struct trail_entry mine = *entry;
	struct store_block *block;
	struct block_chunk *chunk;
	uint32_t bytes;
	int64_t id;

	mine.flags = code ? TRAIL_HAS_CODE : 0;
	block = find(blocks, &mine, code, from);
	bytes = bytes_of(&mine);
	if (block) {
		if (!block->refs++)
			blocks->dead_bytes -= bytes;
		return block->id;
	}
	id = id_take(blocks);
	if (id < 0)
		return id;
	chunk = block_room(blocks, bytes);
	if (!chunk) {
		id_free(blocks, (uint32_t)id);
		return -ENOMEM;
	}
	block = (struct store_block *)(chunk->bytes + chunk->used);
	chunk->used += bytes;
	blocks->used_bytes += bytes;
	*block = (struct store_block){ .id = (uint32_t)id, .refs = 1, .from = from, .entry = mine };
	if (code)
		memcpy(block->code, code, entry->bytes);
	place_set(blocks, block);
	slot_add(blocks, block);
	return id;
}

/* One record less has it. It stays as it is until the next sweep. */
static void store_blocks_drop(struct store_blocks *blocks, uint32_t id)
{
	struct store_block *block = store_blocks_at(blocks, id);

	if (!--block->refs)
		blocks->dead_bytes += bytes_of(&block->entry);
}

/* Where what is kept is moved to: never beyond where it is read. */
struct target {
	uint32_t chunk;
	uint32_t used;
};

static void keep(struct store_blocks *blocks, struct target *to, const struct store_block *block)
{
	struct block_chunk *chunk = store_pool_at(blocks->pool, to->chunk);
	uint32_t bytes = bytes_of(&block->entry);
	struct store_block *moved;

	if (to->used + bytes > block_chunk_room(blocks)) {
		chunk->used = to->used;
		to->chunk = chunk->next;
		to->used = 0;
		chunk = store_pool_at(blocks->pool, to->chunk);
	}
	moved = (struct store_block *)(chunk->bytes + to->used);
	memmove(moved, block, bytes);
	to->used += bytes;
	place_set(blocks, moved);
	slot_add(blocks, moved);
}

/* The chunks behind the last that is needed, or all. */
static void give_behind(struct store_blocks *blocks, const struct target *to)
{
	uint32_t chunk = blocks->first, next;

	blocks->last = to->used ? to->chunk : NO_CHUNK;
	if (to->used) {
		struct block_chunk *last = store_pool_at(blocks->pool, to->chunk);

		chunk = last->next;
		last->next = NO_CHUNK;
		last->used = to->used;
	} else {
		blocks->first = NO_CHUNK;
	}
	for (; chunk; chunk = next) {
		next = ((struct block_chunk *)store_pool_at(blocks->pool, chunk))->next;
		store_pool_give(blocks->pool, chunk);
		blocks->chunks--;
	}
}

/* Give back the room of blocks that no record has. */
static void store_blocks_sweep(struct store_blocks *blocks)
{
	struct target to = { .chunk = blocks->first };
	uint32_t next;

	if (!blocks->first)
		return;
	memset(blocks->slots, 0, blocks->slot_count * sizeof(*blocks->slots));
	for (uint32_t at = blocks->first; at; at = next) {
		struct block_chunk *chunk = store_pool_at(blocks->pool, at);
		uint32_t used = chunk->used, bytes;

		next = chunk->next;
		for (uint32_t i = 0; i < used; i += bytes) {
			struct store_block *block = (struct store_block *)(chunk->bytes + i);

			bytes = bytes_of(&block->entry);
			if (block->refs)
				keep(blocks, &to, block);
			else
				id_free(blocks, block->id);
		}
	}
	give_behind(blocks, &to);
	blocks->used_bytes -= blocks->dead_bytes;
	blocks->dead_bytes = 0;
}

/* ---- its records ---- */

/*
 * A record is an id, one word, or an event: EVENT_WORDS, the first of them IS_EVENT and its kind.
 */
#define IS_EVENT 0x80000000u
#define EVENT_WORDS 10u

/* A chunk of a thread's records. */
struct store_run {
	uint32_t newer;
	uint32_t begin, end; /* of words: those that are taken out, or not yet there, lie outside */
	uint32_t blocks, events;
	uint32_t reserved;
	uint64_t ticks; /* of the last */
	uint32_t words[];
};

struct store_loss {
	uint64_t blocks, events;
	int is_unknown; /* and blocks whose number is unknown */
};

struct store_thread {
	struct store_thread *next; /* by begin; or the next free one */
	pid_t pid, tid;
	uint64_t number; /* no other thread of the store ever has it */
	char comm[16];
	enum trail_origin origin;
	uint32_t from;	/* the epoch of its next blocks; STORE_NO_EPOCH */
	uint64_t ticks; /* of its begin, and of the last that was taken out */
	uint32_t oldest, newest, runs;
	uint64_t blocks, events;
	struct store_loss before, behind; /* missing: before the oldest, behind the newest */
	struct trail_between end;
	uint64_t end_ticks; /* of the end, and of the last that was lost behind */
	int has_end, is_over;
	int has_taken;
	struct trail_entry taken; /* what stood before the oldest */
};

/* Bytes that follow each other through chunks. */
struct store_log {
	uint32_t first, last, chunks;
	uint32_t used; /* of the last */
};

struct trail_store {
	struct trail_sink sink;
	struct trail_store_options options;
	uint64_t bytes;
	struct store_pool pool;
	struct store_blocks blocks;
	struct store_log modules;
	struct store_thread *threads, *free_threads;
	struct store_thread *asking; /* whose record is being put */
	uint32_t live;
	uint64_t threads_ever;
	uint64_t lost_blocks, lost_events, missing_blocks, lost_modules, lost_threads;
	int is_reached;
	int has_epochs; /* of some thread's blocks */
	pid_t pid;	/* whose threads begin */
	/*
	 * The state at the signal that ended the process and so its store (TRAIL_VALUE). It is not
	 * among the records, and takes no room of the newest ones.
	 */
	const struct store_thread *valued; /* whose; NULL: no thread's */
	uint64_t values[TRAIL_VALUES];
	uint8_t has_value[TRAIL_VALUES];
};

static inline struct store_run *store_run_at(const struct trail_store *store, uint32_t chunk)
{
	return store_pool_at(&store->pool, chunk);
}

static inline uint32_t store_run_words(const struct trail_store *store)
{
	return (store->pool.chunk_bytes - (uint32_t)sizeof(struct store_run)) / 4;
}

static inline int store_loss_is_any(const struct store_loss *loss)
{
	return loss->blocks || loss->events || loss->is_unknown;
}

/* A TRAIL_LOST for it. */
static inline struct trail_between store_loss_event(const struct store_loss *loss)
{
	return (struct trail_between){ .event = TRAIL_LOST,
				       .values = { loss->is_unknown ? 0 : loss->blocks, 0 } };
}

/* The event whose first word is `head`. */
static inline void store_event_read(const uint32_t *head, struct trail_between *between,
				    uint64_t *ticks)
{
	*between = (struct trail_between){ .event = (uint8_t)head[0], .left = head[1] };
	memcpy(&between->at, head + 2, 8);
	memcpy(between->values, head + 4, 16);
	memcpy(ticks, head + 8, 8);
}

/* ---- modules ---- */

/* When a module was noted, and its process. */
struct store_noted {
	uint64_t ticks;
	pid_t pid;
};

/* A place in the log, behind the modules that were reported. */
struct store_log_place {
	pid_t pid; /* whose modules are reported; 0: all */
	uint32_t chunk, at;
	struct store_noted next;
	int has_next;
};

static int store_make_way(struct trail_store *store);
static void store_thread_remove(struct trail_store *store, struct store_thread *thread);

/*
 * The modules of a store: their times, records and paths, one behind the other, across chunks. Two
 * modules at one address share block ids; the times distinguish them.
 */

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

/* 0, or -ENOSPC: they have their share. */
static int store_module_add(struct trail_store *store, const struct control_module *module,
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

static void store_modules_begin(const struct trail_store *store, pid_t pid,
				struct store_log_place *place)
{
	*place = (struct store_log_place){ .pid = pid, .chunk = store->modules.first };
	next_find(store, place);
}

/*
 * Report to a sink the modules that were noted before that time, and not reported yet. 0, or its
 * error.
 */
static int store_modules_tell(const struct trail_store *store, struct store_log_place *place,
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
#define PAGE 4096u
#define CHUNKS 256u /* about so many, of these bytes at least and at most */
#define CHUNK_BYTES_MIN 2048u
#define CHUNK_BYTES_MAX 65536u
#define BYTES_A_SLOT 256u
#define TABLE_SHARE(count) ((count) / 4 * 3)
#define SWEEP_SHARE 4	   /* a sweep moves all blocks: so many times what it gains, at most */
#define STEP_WORDS_MAX 64u /* a thread may write so much between two looks at is_full() */

_Static_assert(2 * STORE_BLOCK_BYTES_MAX + 8 < CHUNK_BYTES_MIN, "a chunk holds two blocks");

/* ---- what gives way ---- */

static uint64_t store_used_bytes(const struct trail_store *store)
{
	return store->bytes - (uint64_t)store->pool.free * store->pool.chunk_bytes;
}

/* Some is free again: below the watermark it may be reached once more. */
static void store_mark_rewind(struct trail_store *store)
{
	if (store_used_bytes(store) < store->options.watermark_bytes)
		store->is_reached = 0;
}

static void mark(struct trail_store *store)
{
	if (store->is_reached || store->options.policy != WM_POLICY_NOTIFY ||
	    store_used_bytes(store) < store->options.watermark_bytes)
		return;
	store->is_reached = 1;
	if (store->options.reached)
		store->options.reached(store->options.data);
}

static void loss_add(struct store_loss *loss, const struct trail_between *between)
{
	loss->blocks += between->values[0];
	loss->is_unknown |= !between->values[0];
}

/* Free the thread's oldest run, and the blocks that no other run needs. */
static void store_run_remove(struct trail_store *store, struct store_thread *thread)
{
	uint32_t chunk = thread->oldest;
	struct store_run *run = store_run_at(store, chunk);

	for (uint32_t i = run->begin; i < run->end; i++) {
		if (run->words[i] & IS_EVENT)
			i += EVENT_WORDS - 1;
		else
			store_blocks_drop(&store->blocks, run->words[i]);
	}
	thread->blocks -= run->blocks;
	thread->events -= run->events;
	thread->ticks = run->ticks;
	thread->oldest = run->newer;
	thread->newest = thread->oldest ? thread->newest : NO_CHUNK;
	thread->runs--;
	store_pool_give(&store->pool, chunk);
}

/* The same, and what was in it is lost. */
static void run_lose(struct trail_store *store, struct store_thread *thread)
{
	struct store_run *run = store_run_at(store, thread->oldest);
	struct trail_between between;
	uint64_t ticks;

	for (uint32_t i = run->begin; i < run->end; i++) {
		if (!(run->words[i] & IS_EVENT))
			continue;
		store_event_read(run->words + i, &between, &ticks);
		if (between.event == TRAIL_LOST)
			loss_add(&thread->before, &between);
		i += EVENT_WORDS - 1;
	}
	thread->before.blocks += run->blocks;
	thread->before.events += run->events;
	store->lost_blocks += run->blocks;
	store->lost_events += run->events;
	store_run_remove(store, thread);
	if (thread->is_over && !thread->runs)
		store_thread_remove(store, thread);
}

/*
 * The next thread to lose its oldest: the one with most; of equals an ended one, then the caller.
 */
static struct store_thread *victim(const struct trail_store *store)
{
	struct store_thread *most = NULL, *asking = store->asking;

	for (struct store_thread *thread = store->threads; thread; thread = thread->next)
		if (thread->runs &&
		    (!most || thread->runs > most->runs ||
		     (thread->runs == most->runs && thread->is_over && !most->is_over)))
			most = thread;
	if (most && (most->runs > 1 || most->is_over))
		return most;
	return asking && asking->runs ? asking : NULL;
}

/* A thread's oldest records, where the policy is to lose those. */
static int lose_oldest(struct trail_store *store)
{
	struct store_thread *thread = NULL;

	if (store->options.policy == WM_POLICY_CYCLIC)
		thread = victim(store);
	if (thread)
		run_lose(store, thread);
	return !!thread;
}

static int sweep_is_due(const struct trail_store *store)
{
	const struct store_blocks *blocks = &store->blocks;

	return blocks->dead_bytes >= 2 * store->pool.chunk_bytes &&
	       blocks->dead_bytes >= blocks->used_bytes / SWEEP_SHARE;
}

static void sweep(struct trail_store *store)
{
	if (store->blocks.dead_bytes)
		store_blocks_sweep(&store->blocks);
}

/* See to it that a chunk is free, by the policy. Whether one is. */
static int store_make_way(struct trail_store *store)
{
	if (!store->pool.free && sweep_is_due(store))
		sweep(store);
	if (!store->pool.free && !lose_oldest(store))
		sweep(store);
	return store->pool.free > 0;
}

static uint32_t chunk_take(struct trail_store *store)
{
	uint32_t chunk = store_make_way(store) ? store_pool_take(&store->pool) : NO_CHUNK;

	mark(store);
	return chunk;
}

/* A chunk for the table, which stays within its share. */
static uint32_t table_wants(void *owner)
{
	struct trail_store *store = owner;
	uint32_t most = TABLE_SHARE(store->pool.count);

	if (store->blocks.chunks >= most && sweep_is_due(store))
		sweep(store);
	while (store->blocks.chunks >= most && lose_oldest(store))
		if (sweep_is_due(store))
			sweep(store);
	if (store->blocks.chunks >= most)
		sweep(store);
	return store->blocks.chunks >= most ? NO_CHUNK : chunk_take(store);
}

/* ---- threads ---- */

static struct store_thread *thread_of(struct sink_thread *thread)
{
	return (struct store_thread *)thread;
}

static struct trail_store *store_of(struct trail_sink *sink)
{
	return (struct trail_store *)((char *)sink - offsetof(struct trail_store, sink));
}

/* The thread is over and has nothing left: it is gone. */
static void store_thread_remove(struct trail_store *store, struct store_thread *thread)
{
	struct store_thread **at = &store->threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	thread->next = store->free_threads;
	store->free_threads = thread;
	if (store->valued == thread)
		store->valued = NULL;
}

/* Forget the first thread that is over and has nothing left but its end. */
static int forget_one(struct trail_store *store)
{
	for (struct store_thread *thread = store->threads; thread; thread = thread->next) {
		if (!thread->is_over || thread->runs)
			continue;
		store_thread_remove(store, thread);
		return 1;
	}
	return 0;
}

static struct store_thread *thread_take(struct trail_store *store)
{
	struct store_thread *thread = store->free_threads;
	uint32_t chunk, count = store->pool.chunk_bytes / (uint32_t)sizeof(*thread);

	if (!thread) {
		chunk = chunk_take(store);
		thread = chunk ? store_pool_at(&store->pool, chunk) : NULL;
		for (uint32_t i = 0; thread && i < count; i++) {
			thread[i].next = store->free_threads;
			store->free_threads = &thread[i];
		}
	}
	if (!thread)
		forget_one(store);
	thread = store->free_threads;
	if (thread)
		store->free_threads = thread->next;
	return thread;
}

/* Without a thread its records are lost, and their number is unknown. */
static int store_thread_begin(struct trail_sink *sink, struct sink_thread **out, pid_t tid,
			      const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct trail_store *store = store_of(sink);
	struct store_thread *thread = thread_take(store), **at = &store->threads;

	*out = (struct sink_thread *)thread;
	if (!thread) {
		store->lost_threads++;
		return 0;
	}
	*thread = (struct store_thread){
		.pid = store->pid,
		.tid = tid,
		.number = ++store->threads_ever,
		.from = STORE_NO_EPOCH,
		.origin = origin,
		.ticks = ticks,
	};
	memcpy(thread->comm, comm, strnlen(comm, sizeof(thread->comm) - 1));
	while (*at)
		at = &(*at)->next;
	*at = thread;
	store->live++;
	return 0;
}

static int store_thread_name(struct trail_sink *sink, struct sink_thread *of, const char *comm)
{
	struct store_thread *thread = thread_of(of);

	(void)sink;
	if (!thread)
		return 0;
	memset(thread->comm, 0, sizeof(thread->comm));
	memcpy(thread->comm, comm, strnlen(comm, sizeof(thread->comm) - 1));
	return 0;
}

static int store_since(struct trail_sink *sink, struct sink_thread *of, uint32_t from)
{
	struct trail_store *store = store_of(sink);
	struct store_thread *thread = thread_of(of);

	store->has_epochs = 1;
	if (thread)
		thread->from = from;
	return 0;
}

static int store_thread_end(struct trail_sink *sink, struct sink_thread *ended, uint64_t ticks)
{
	struct trail_store *store = store_of(sink);
	struct store_thread *thread = thread_of(ended);

	(void)ticks;
	if (!thread)
		return 0;
	thread->is_over = 1;
	store->live--;
	if (!store_thread_records(thread))
		store_thread_remove(store, thread);
	return 0;
}

/* ---- records ---- */

/* Room for `words` of records. NULL: no room. */
static uint32_t *room_for(struct trail_store *store, struct store_thread *thread, uint32_t words)
{
	struct store_run *run = thread->newest ? store_run_at(store, thread->newest) : NULL;
	uint32_t chunk;

	if (run && run->end + words <= store_run_words(store))
		return run->words + run->end;
	chunk = chunk_take(store);
	if (!chunk)
		return NULL;
	if (thread->newest)
		store_run_at(store, thread->newest)->newer = chunk;
	else
		thread->oldest = chunk;
	thread->newest = chunk;
	thread->runs++;
	run = store_run_at(store, chunk);
	*run = (struct store_run){ 0 };
	return run->words;
}

static void event_put(struct store_thread *thread, struct store_run *run,
		      const struct trail_between *between, uint64_t ticks)
{
	uint32_t *head = run->words + run->end;

	head[0] = IS_EVENT | between->event;
	head[1] = between->left;
	memcpy(head + 2, &between->at, 8);
	memcpy(head + 4, between->values, 16);
	memcpy(head + 8, &ticks, 8);
	run->end += EVENT_WORDS;
	run->events++;
	thread->events++;
	run->ticks = ticks;
}

/* The run with room for the words, behind a note of what was lost before. NULL: no room. */
static struct store_run *run_for(struct trail_store *store, struct store_thread *thread,
				 uint32_t words, uint64_t ticks)
{
	int is_missing = store_loss_is_any(&thread->behind);
	struct trail_between lost;
	struct store_run *run;

	if (!room_for(store, thread, words + (is_missing ? EVENT_WORDS : 0)))
		return NULL;
	run = store_run_at(store, thread->newest);
	if (is_missing) {
		lost = store_loss_event(&thread->behind);
		event_put(thread, run, &lost, ticks);
		thread->behind = (struct store_loss){ 0 };
	}
	return run;
}

static int store_block(struct trail_sink *sink, struct sink_thread *of,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct trail_store *store = store_of(sink);
	struct store_thread *thread = thread_of(of);
	struct store_run *run = NULL;
	int64_t id;

	if (!thread) {
		store->lost_blocks++;
		return 0;
	}
	store->asking = thread;
	id = store_blocks_hold(&store->blocks, entry, code, thread->from);
	if (id >= 0)
		run = run_for(store, thread, 1, ticks);
	store->asking = NULL;
	if (!run) {
		if (id >= 0)
			store_blocks_drop(&store->blocks, (uint32_t)id);
		thread->behind.blocks++;
		thread->end_ticks = ticks;
		store->lost_blocks++;
		return 0;
	}
	run->words[run->end++] = (uint32_t)id;
	run->blocks++;
	run->ticks = ticks;
	thread->blocks++;
	return 0;
}

static void value_put(struct trail_store *store, const struct store_thread *thread,
		      const struct trail_between *between)
{
	if (store->valued != thread)
		memset(store->has_value, 0, sizeof(store->has_value));
	store->valued = thread;
	if (between->values[0] >= TRAIL_VALUES)
		return;
	store->values[between->values[0]] = between->values[1];
	store->has_value[between->values[0]] = 1;
}

static int store_event(struct trail_sink *sink, struct sink_thread *of,
		       const struct trail_between *between, uint64_t ticks)
{
	struct trail_store *store = store_of(sink);
	struct store_thread *thread = thread_of(of);
	struct trail_between mine = *between;
	struct store_run *run;

	store->missing_blocks += between->event == TRAIL_LOST ? between->values[0] : 0;
	if (!thread) {
		store->lost_events++;
		return 0;
	}
	if (between->event == TRAIL_VALUE) {
		value_put(store, thread, between);
		return 0;
	}
	if (between->event == TRAIL_END) {
		thread->end = *between;
		thread->has_end = 1;
		thread->end_ticks = ticks;
		return 0;
	}
	if (store_loss_is_any(&thread->behind))
		mine.left = 0; /* of a block that is not there */
	store->asking = thread;
	run = run_for(store, thread, EVENT_WORDS, ticks);
	store->asking = NULL;
	if (run) {
		event_put(thread, run, &mine, ticks);
		return 0;
	}
	if (between->event == TRAIL_LOST)
		loss_add(&thread->behind, between);
	thread->behind.events++;
	thread->end_ticks = ticks;
	store->lost_events++;
	return 0;
}

void trail_store_process(struct trail_store *store, pid_t pid)
{
	store->pid = pid;
}

static int store_begin(struct trail_sink *sink, pid_t pid)
{
	(void)sink, (void)pid;
	return 0;
}

static int store_module(struct trail_sink *sink, const struct control_module *module,
			const char *path)
{
	struct trail_store *store = store_of(sink);

	if (store_module_add(store, module, path))
		store->lost_modules++;
	return 0;
}

static int store_is_full(struct trail_sink *sink)
{
	struct trail_store *store = store_of(sink);

	return store->options.policy == WM_POLICY_BLOCK && trail_store_is_full(store);
}

static const struct trail_sink_calls store_calls = {
	.begin = store_begin,
	.module = store_module,
	.thread_begin = store_thread_begin,
	.thread_name = store_thread_name,
	.since = store_since,
	.block = store_block,
	.event = store_event,
	.thread_end = store_thread_end,
	.is_full = store_is_full,
};

struct trail_sink *trail_store_sink(struct trail_store *store)
{
	return &store->sink;
}

/* Chunks that the threads may need before the next look. */
static uint32_t chunks_wanted(const struct trail_store *store)
{
	uint32_t blocks = store->pool.chunk_bytes / (uint32_t)STORE_BLOCK_BYTES_MAX, wanted = 2;

	for (const struct store_thread *thread = store->threads; thread; thread = thread->next)
		wanted += !thread->is_over &&
			  (!thread->newest ||
			   store_run_at(store, thread->newest)->end + STEP_WORDS_MAX >
				   store_run_words(store));
	return wanted + store->live / blocks + 1;
}

int trail_store_is_full(struct trail_store *store)
{
	uint32_t wanted = chunks_wanted(store), most = TABLE_SHARE(store->pool.count);
	uint64_t kept = 0;

	for (const struct store_thread *thread = store->threads; thread; thread = thread->next)
		kept += thread->blocks + thread->events;
	if (!kept)
		return 0;
	if (store->pool.free >= wanted && store->blocks.chunks + wanted <= most)
		return 0;
	sweep(store);
	return store->pool.free < wanted || store->blocks.chunks + wanted > most;
}

/* ---- its life ---- */

static uint32_t power_of_two(uint64_t most)
{
	uint32_t power = 1;

	while (power <= most / 2)
		power *= 2;
	return power;
}

static uint32_t chunk_bytes(uint64_t bytes)
{
	uint32_t power = power_of_two(bytes / CHUNKS);

	return power < CHUNK_BYTES_MIN	 ? CHUNK_BYTES_MIN
	       : power > CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX
					 : power;
}

/* The store itself, its table's slots, and then chunks. */
static void lay_out(struct trail_store *store)
{
	uint32_t each = chunk_bytes(store->bytes),
		 slots = power_of_two(store->bytes / BYTES_A_SLOT);
	uint32_t most = (uint32_t)(store->bytes / each);
	uint8_t *memory = (uint8_t *)store;
	size_t front = sizeof(*store) + store_blocks_bytes(most, slots);

	front = (front + 63) & ~(size_t)63;
	store_blocks_init(&store->blocks, &store->pool, store + 1, most, slots);
	store->blocks.wants_chunk = table_wants;
	store->blocks.owner = store;
	store_pool_init(&store->pool, memory + front, store->bytes - front, each);
}

int trail_store_open(struct trail_store **out, const struct trail_store_options *options)
{
	uint64_t bytes = options->bytes / PAGE * PAGE;
	struct trail_store *store;
	int err = 0;

	*out = NULL;
	if (bytes < TRAIL_STORE_BYTES_MIN || bytes > TRAIL_STORE_BYTES_MAX)
		return -EINVAL;
	store = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (store == MAP_FAILED)
		return -errno;
	if (madvise(store, bytes, MADV_DONTFORK) || (options->is_locked && mlock(store, bytes)))
		err = -errno;
	if (err) {
		munmap(store, bytes);
		return err;
	}
	*store = (struct trail_store){ .sink.calls = &store_calls,
				       .options = *options,
				       .bytes = bytes };
	if (!store->options.watermark_bytes)
		store->options.watermark_bytes = bytes / 2;
	lay_out(store);
	*out = store;
	return 0;
}

void trail_store_close(struct trail_store *store)
{
	if (store)
		munmap(store, store->bytes);
}

void trail_store_clear(struct trail_store *store)
{
	for (struct store_thread *thread = store->threads, *next; thread; thread = next) {
		next = thread->next;
		while (thread->runs)
			store_run_remove(store, thread);
		thread->before = thread->behind = (struct store_loss){ 0 };
		thread->has_end = thread->has_taken = 0;
		if (thread->is_over)
			store_thread_remove(store, thread);
	}
	sweep(store);
	store_mark_rewind(store);
}

/* A store read, oldest first: record by record, or into another sink. */

/* What a thread's trail consists of, in this order. */
enum stage { STAGE_BEFORE, STAGE_RUNS, STAGE_BEHIND, STAGE_END, STAGES };

/* Before a record. Zeroed but for `thread`: before the oldest. */
struct place {
	const struct store_thread *thread;
	enum stage stage;
	uint32_t run; /* NO_CHUNK: the oldest */
	uint32_t word;
	uint32_t seen;	/* words of the run that were looked through for an event */
	uint64_t ticks; /* of blocks before `seen` */
};

static void event_set(struct store_record *record, const struct trail_between *between,
		      uint64_t ticks)
{
	*record = (struct store_record){ .between = *between, .ticks = ticks };
}

/* A block's time: that of the next event, or of the run's end. */
static uint64_t block_ticks(struct place *place, const struct store_run *run)
{
	struct trail_between between;
	uint32_t i = place->word;

	if (i < place->seen)
		return place->ticks;
	place->ticks = run->ticks;
	while (i < run->end && !(run->words[i] & IS_EVENT))
		i++;
	if (i < run->end)
		store_event_read(run->words + i, &between, &place->ticks);
	place->seen = i;
	return place->ticks;
}

static void run_record(const struct trail_store *store, struct place *place,
		       const struct store_run *run, struct store_record *record)
{
	uint32_t word = run->words[place->word];
	const struct store_block *block;

	if (word & IS_EVENT) {
		*record = (struct store_record){ 0 };
		store_event_read(run->words + place->word, &record->between, &record->ticks);
		if (place->run == place->thread->oldest && place->word == run->begin)
			record->between.left = 0; /* of a block that is not there */
		place->word += EVENT_WORDS;
		return;
	}
	block = store_blocks_at(&store->blocks, word);
	*record = (struct store_record){ .entry = &block->entry, .ticks = block_ticks(place, run) };
	record->code = block->entry.flags & TRAIL_HAS_CODE ? block->code : NULL;
	record->id = word;
	record->from = block->from;
	place->word++;
}

/* Before the first record of a run. */
static void place_run(const struct trail_store *store, struct place *place, uint32_t run)
{
	place->run = run;
	place->word = run ? store_run_at(store, run)->begin : 0;
	place->seen = 0;
}

/* Step over a record: 1, or 0 at the end. */
static int step_over(const struct trail_store *store, struct place *place,
		     struct store_record *record)
{
	const struct store_thread *thread = place->thread;
	struct trail_between lost;

	if (place->stage == STAGE_BEFORE) {
		place->stage = STAGE_RUNS;
		place_run(store, place, thread->oldest);
		lost = store_loss_event(&thread->before);
		event_set(record, &lost, thread->ticks);
		if (store_loss_is_any(&thread->before))
			return 1;
	}
	while (place->stage == STAGE_RUNS && place->run) {
		const struct store_run *run = store_run_at(store, place->run);

		if (place->word < run->end) {
			run_record(store, place, run, record);
			return 1;
		}
		place_run(store, place, run->newer);
	}
	if (place->stage == STAGE_RUNS) {
		place->stage = STAGE_BEHIND;
		lost = store_loss_event(&thread->behind);
		event_set(record, &lost, thread->end_ticks);
		if (store_loss_is_any(&thread->behind))
			return 1;
	}
	if (place->stage == STAGE_BEHIND) {
		place->stage = STAGE_END;
		event_set(record, &thread->end, thread->end_ticks);
		if (thread->has_end)
			return 1;
	}
	return 0;
}

void trail_store_status(const struct trail_store *store, struct trail_store_status *status)
{
	*status = (struct trail_store_status){
		.bytes = store->bytes,
		.used_bytes = store_used_bytes(store),
		.table_bytes = (uint64_t)store->blocks.chunks * store->pool.chunk_bytes,
		.lost_blocks = store->lost_blocks,
		.lost_events = store->lost_events,
		.missing_blocks = store->missing_blocks,
		.lost_threads = store->lost_threads,
		.lost_modules = store->lost_modules,
		.live = store->live,
	};
	for (const struct store_thread *thread = store->threads; thread; thread = thread->next) {
		status->blocks += thread->blocks;
		status->events += thread->events;
		status->threads++;
		status->is_full |= store_loss_is_any(&thread->behind);
	}
}

/* ---- record by record ---- */

struct store_thread *trail_store_thread(struct trail_store *store, struct store_thread *before)
{
	return before ? before->next : store->threads;
}

pid_t store_thread_pid(const struct store_thread *thread)
{
	return thread->pid;
}

pid_t store_thread_tid(const struct store_thread *thread)
{
	return thread->tid;
}

uint64_t store_thread_number(const struct store_thread *thread)
{
	return thread->number;
}

int store_thread_is_over(const struct store_thread *thread)
{
	return thread->is_over;
}

uint64_t store_thread_records(const struct store_thread *thread)
{
	return thread->blocks + thread->events + (uint64_t)store_loss_is_any(&thread->before) +
	       (uint64_t)store_loss_is_any(&thread->behind) + (uint64_t)thread->has_end;
}

int store_thread_record(struct trail_store *store, const struct store_thread *thread,
			uint64_t index, struct store_record *record)
{
	struct place place = { .thread = thread };
	uint64_t records = store_thread_records(thread), skip;

	if (index >= records)
		return 0;
	skip = records - 1 - index;
	if (skip && store_loss_is_any(&thread->before))
		skip--;
	else if (store_loss_is_any(&thread->before))
		return step_over(store, &place, record);
	place.stage = STAGE_RUNS;
	place_run(store, &place, thread->oldest);
	while (place.run) {
		const struct store_run *run = store_run_at(store, place.run);

		if (skip < (uint64_t)run->blocks + run->events)
			break;
		skip -= (uint64_t)run->blocks + run->events;
		place_run(store, &place, run->newer);
	}
	/* the time of a block is looked for once only, from the run's begin on */
	while (step_over(store, &place, record))
		if (!skip--)
			return 1;
	return 0;
}

const struct trail_entry *store_thread_taken(const struct store_thread *thread)
{
	return thread->has_taken && !store_loss_is_any(&thread->before) ? &thread->taken : NULL;
}

uint32_t trail_store_ids(const struct trail_store *store)
{
	return store->blocks.ids;
}

int store_thread_each(struct trail_store *store, const struct store_thread *thread,
		      int (*each)(const struct store_record *record, void *data), void *data)
{
	struct place place = { .thread = thread };
	struct store_record record;
	int result = 0;

	while (!result && step_over(store, &place, &record))
		result = each(&record, data);
	return result;
}

/* The record is out: the run before the place has it no more. */
static void take_out(struct trail_store *store, struct store_thread *thread, uint32_t end,
		     const struct store_record *record)
{
	struct store_run *run = store_run_at(store, thread->oldest);

	if (record->entry) {
		store_blocks_drop(&store->blocks, run->words[run->begin]);
		run->blocks--;
		thread->blocks--;
	} else {
		run->events--;
		thread->events--;
	}
	run->begin = end;
	thread->ticks = record->ticks;
	if (run->begin == run->end)
		store_run_remove(store, thread);
}

int store_thread_take(struct trail_store *store, struct store_thread *thread,
		      struct store_record *record)
{
	struct place place = { .thread = thread };

	if (!step_over(store, &place, record)) {
		if (thread->is_over)
			store_thread_remove(store, thread);
		store_mark_rewind(store);
		return 0;
	}
	thread->has_taken = !!record->entry;
	if (record->entry)
		thread->taken = *record->entry;
	if (store_loss_is_any(&thread->before))
		thread->before = (struct store_loss){ 0 };
	else if (place.stage == STAGE_RUNS)
		take_out(store, thread, place.word, record);
	else if (place.stage == STAGE_BEHIND)
		thread->behind = (struct store_loss){ 0 };
	else
		thread->has_end = 0;
	return 1;
}

/* ---- into another sink ---- */

/* A thread being written, and its next record. */
struct writing {
	struct place place;
	struct store_record next;
	int has_next, is_begun;
	uint32_t from; /* the epoch that `to` was given last */
	struct sink_thread *to;
};

/* The thread's values at the signal that killed it. */
static int values_put(const struct trail_store *store, const struct writing *writing,
		      struct trail_sink *to)
{
	const struct store_record *end = &writing->next;
	int err = 0;

	if (store->valued != writing->place.thread || end->between.event != TRAIL_END ||
	    end->between.values[0] != TRAIL_KILLED)
		return 0;
	for (uint32_t i = 0; i < TRAIL_VALUES && !err; i++) {
		const struct trail_between value = { .event = TRAIL_VALUE,
						     .values = { i, store->values[i] } };

		if (store->has_value[i])
			err = to->calls->event(to, writing->to, &value, end->ticks);
	}
	return err;
}

static int writing_put(const struct trail_store *store, struct writing *writing,
		       struct trail_sink *to)
{
	const struct store_thread *thread = writing->place.thread;
	const struct store_record *record = &writing->next;
	int err = 0;

	if (!writing->is_begun)
		err = to->calls->thread_begin(to, &writing->to, thread->tid, thread->comm,
					      thread->origin, thread->ticks);
	writing->is_begun = 1;
	if (err)
		return err;
	if (record->entry && record->from != writing->from && to->calls->since)
		err = to->calls->since(to, writing->to, record->from);
	writing->from = record->entry ? record->from : writing->from;
	if (err)
		return err;
	if (record->entry)
		err = to->calls->block(to, writing->to, record->entry, record->code, record->ticks);
	else
		err = values_put(store, writing, to);
	if (!record->entry && !err)
		err = to->calls->event(to, writing->to, &record->between, record->ticks);
	writing->has_next = step_over(store, &writing->place, &writing->next);
	return err;
}

/* Whose next record is the oldest; *until: the time of the next thread's. NULL: all is written. */
static struct writing *oldest(struct writing *all, uint32_t count, uint64_t *until)
{
	struct writing *first = NULL;

	*until = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		if (!all[i].has_next)
			continue;
		if (!first || all[i].next.ticks < first->next.ticks) {
			*until = first ? first->next.ticks : UINT64_MAX;
			first = &all[i];
		} else if (all[i].next.ticks < *until) {
			*until = all[i].next.ticks;
		}
	}
	return first;
}

int trail_store_write(struct trail_store *store, struct trail_sink *to)
{
	uint32_t count = 0, i = 0;
	struct writing *all, *first;
	struct store_log_place reported;
	uint64_t until;
	int err;

	for (struct store_thread *thread = store->threads; thread; thread = thread->next)
		count++;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (struct store_thread *thread = store->threads; thread; thread = thread->next, i++) {
		all[i].place.thread = thread;
		all[i].from = STORE_NO_EPOCH;
		all[i].has_next = step_over(store, &all[i].place, &all[i].next);
	}
	store_modules_begin(store, 0, &reported);
	/* where blocks have epochs, modules need not come at their times */
	err = store->has_epochs ? store_modules_tell(store, &reported, UINT64_MAX, to) : 0;
	while (!err && (first = oldest(all, count, &until)))
		while (!err && first->has_next && first->next.ticks <= until) {
			err = store_modules_tell(store, &reported, first->next.ticks, to);
			if (!err)
				err = writing_put(store, first, to);
		}
	if (!err)
		err = store_modules_tell(store, &reported, UINT64_MAX, to);
	for (i = 0; i < count; i++) {
		int ended = all[i].to ? to->calls->thread_end(to, all[i].to, all[i].next.ticks) : 0;

		err = err ? err : ended;
	}
	free(all);
	return err;
}
