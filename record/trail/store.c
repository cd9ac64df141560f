/* SPDX-License-Identifier: MIT */
#include "record/trail/store.h"

#include "record/trail/store_own.h"

#include <errno.h>
#include <sys/mman.h>

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

uint64_t store_used_bytes(const struct trail_store *store)
{
	return store->bytes - (uint64_t)store->pool.free * store->pool.chunk_bytes;
}

void store_mark_rewind(struct trail_store *store)
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

void store_run_remove(struct trail_store *store, struct store_thread *thread)
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

int store_make_way(struct trail_store *store)
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

void store_thread_remove(struct trail_store *store, struct store_thread *thread)
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
