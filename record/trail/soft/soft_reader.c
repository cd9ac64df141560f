/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_reader_own.h"
#include "record/trail/soft/soft_segment.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REMOVE_BYTES                                                                               \
	(UINT64_C(1)                                                                               \
	 << 20) /* from there on it is better to give the memory back than to clear it */
#define COPY_TRIES 3
#define NUMBERS_MAX (1u << 26)
#define EVENT_WORDS (sizeof(struct engine_event) / sizeof(uint32_t))

int reader_failed(struct soft_reader *reader, int err)
{
	if (err < 0 && !reader->first->error)
		reader->first->error = err;
	return reader->first->error;
}

/* ---- into the sink ---- */

uint64_t reader_time(const struct soft_reader *reader, struct soft_thread *thread, uint64_t ticks)
{
	uint64_t ns = soft_clock_ns(&reader->first->clock, ticks);

	if (ns > thread->last_ns)
		thread->last_ns = ns;
	return thread->last_ns;
}

static void put_between(struct soft_reader *reader, struct soft_thread *thread,
			const struct trail_between *between, uint64_t ns)
{
	reader_failed(reader, reader->source.sink->calls->event(reader->source.sink, thread->trail,
								between, ns));
	thread->is_over = between->event == TRAIL_END;
	thread->has_left = 0;
	thread->is_lost = between->event == TRAIL_LOST;
	reader->first->losses += between->event == TRAIL_LOST;
}

/* A signal that has no handler ends the thread, or else it was one. */
static void put_dying(struct soft_reader *reader, struct soft_thread *thread)
{
	if (thread->is_dying)
		put_between(reader, thread, &thread->dying, thread->dying_ns);
	thread->is_dying = 0;
}

/* Where it stood when the signal came is where it ends. */
static struct trail_between ended_there(const struct soft_thread *thread,
					const struct trail_between *end)
{
	struct trail_between made = *end;

	made.at = thread->dying.at;
	made.has_at = thread->dying.has_at;
	made.left = thread->dying.left;
	return made;
}

void reader_event(struct soft_reader *reader, struct soft_thread *thread,
		  const struct trail_between *between, uint64_t ns)
{
	struct trail_between made;

	if (thread->is_over || reader->first->error)
		return;
	if (thread->is_dying && between->event == TRAIL_END && between->values[0] == TRAIL_KILLED &&
	    between->values[1] == thread->dying.values[0]) {
		if (thread->dying
			    /* in an end, 0 means unknown; in a signal it is an address */
			    .has_at) {
			made = ended_there(thread, between);
			thread->is_dying = 0;
			between = &made;
		}
		reader->first->killed_tid = (pid_t)soft_channel_slot(
						    reader->channel,
						    (uint32_t)(thread - reader->threads))
						    ->tid;
	}
	put_dying(reader, thread);
	if (between->event == TRAIL_SIGNAL && !between->values[1]) {
		thread->dying = *between;
		thread->dying_ns = ns;
		thread->is_dying = 1;
		thread->is_lost = 0;
		return;
	}
	/* it is said before execve(2), and has come to nothing where that comes back */
	if (between->event == TRAIL_EXEC && !thread->has_left) {
		thread->has_left = 1;
		return;
	}
	put_between(reader, thread, between, ns);
}

void reader_lost(struct soft_reader *reader, struct soft_thread *thread)
{
	const struct trail_between lost = { .event = TRAIL_LOST, .values = { thread->missing } };

	if (thread->is_lost && !thread->missing)
		return;
	reader->first->overwritten += thread->missing;
	thread->missing = 0;
	reader_event(reader, thread, &lost, thread->last_ns);
}

int reader_reach(struct soft_thread *thread, uint64_t number, uint64_t began_blocks)
{
	if (number == thread->next)
		return 0;
	if (began_blocks > thread->blocks)
		thread->missing += began_blocks - thread->blocks;
	thread->blocks = began_blocks;
	thread->next = number;
	thread->part = 0;
	return 1;
}

/* A path's blocks, one by one. */
static int put_blocks(struct soft_reader *reader, struct soft_thread *thread,
		      const struct soft_path *path, uint64_t ns)
{
	struct trail_sink *sink = reader->source.sink;
	int err = 0;

	for (uint32_t i = 0; i < path->count && !err; i++)
		err = sink->calls->block(sink, thread->trail, &path->blocks[i].entry,
					 path->blocks[i].code, ns);
	return err;
}

/* Lists go by the numbers: where a process has executed very many programs, it does without. */
static int put_path(struct soft_reader *reader, struct soft_thread *thread,
		    const struct soft_path *path, uint64_t ns)
{
	const struct trail_source_path whole = { path->number, path->first, path->count,
						 path->blocks };
	struct trail_sink *sink = reader->source.sink;

	return sink->calls->path && path->number < NUMBERS_MAX && path->first < NUMBERS_MAX
		       ? sink->calls->path(sink, thread->trail, &whole, ns)
		       : put_blocks(reader, thread, path, ns);
}

/* Ids: the blocks of their paths. How many of them were put: all but for one that means nothing. */
static size_t put_ids(struct soft_reader *reader, struct soft_thread *thread, const uint32_t *words,
		      size_t count, uint64_t ns)
{
	int err = 0;
	uint64_t blocks = 0;
	size_t at = 0;

	if (count)
		put_dying(reader, thread);
	for (; at < count && !err; at++) {
		const struct soft_path *path = soft_path_of(&reader->source.paths, words[at]);

		if (!path)
			break;
		thread->blocks += path->count;
		if (thread->skip) {
			thread->skip -= path->count < thread->skip ? path->count : thread->skip;
			thread->missing += path->count;
			if (!thread->skip)
				reader_lost(reader, thread);
			continue;
		}
		if (!thread->has_moment || path->moment > thread->moment)
			err = soft_reader_moment(reader, thread, path->moment);
		if (!err)
			err = put_path(reader, thread, path, ns);
		blocks += path->count;
		reader->first->words_put++;
	}
	reader->first->blocks += blocks;
	thread->has_left = thread->has_left && !at;
	thread->is_lost = thread->is_lost && !at;
	reader_failed(reader, err);
	return at;
}

static int take_event(const uint32_t *words, size_t room, struct trail_between *between,
		      uint64_t *ticks)
{
	struct engine_event event;

	if (ENGINE_EVENT_WORDS(words[0]) != EVENT_WORDS || room < 1 + EVENT_WORDS ||
	    ENGINE_EVENT_CLASS(words[0]) >= TRAIL_EVENTS)
		return 0;
	memcpy(&event, words + 1, sizeof(event));
	*ticks = (uint64_t)event.ticks[1] << 32 | event.ticks[0];
	*between = (struct trail_between){
		.at = (uint64_t)event.at[1] << 32 | event.at[0],
		.left = event.left,
		.event = (uint8_t)ENGINE_EVENT_CLASS(words[0]),
		.values = { (uint64_t)event.values[0][1] << 32 | event.values[0][0],
			    (uint64_t)event.values[1][1] << 32 | event.values[1][0] },
	};
	between->has_at = between->at != 0;
	return 1;
}

static size_t ids_from(const uint32_t *words, size_t count)
{
	size_t at = 0;

	while (at < count && words[at] < ENGINE_EVENT)
		at++;
	return at;
}

/* 1: all of them; 0: from somewhere on they can't be, or mean nothing. */
int reader_words(struct soft_reader *reader, struct soft_thread *thread, const uint32_t *words,
		 size_t count, uint64_t end_ticks)
{
	for (size_t at = 0; at < count && !reader->first->error && !thread->is_over;) {
		size_t ids = ids_from(words + at, count - at), event = at + ids;
		int has_event = event < count, is_event = 0;
		struct trail_between between;
		uint64_t ticks = end_ticks;

		if (has_event)
			is_event = take_event(words + event, count - event, &between, &ticks);
		if (put_ids(reader, thread, words + at, ids, reader_time(reader, thread, ticks)) <
		    ids)
			return 0;
		if (has_event && !is_event)
			return 0;
		if (has_event && !thread->skip)
			reader_event(reader, thread, &between, thread->last_ns);
		at = event + (has_event ? 1 + EVENT_WORDS : 0);
	}
	return 1;
}

/*
 * 1: there was something, 0, or the first error. A child's log that breaks a rule is its own
 * affair: nothing of it means anything from then on.
 */
int reader_paths(struct soft_reader *reader)
{
	int had = reader->channel ? soft_paths_take(&reader->source.paths, reader->channel) : 0;

	if (reader != reader->first && had == -EPROTO)
		return 0;
	reader_failed(reader, had);
	return reader->first->error ? reader->first->error : had;
}

/* ---- segments ---- */

int reader_is_drained(const struct soft_reader *reader)
{
	return reader->channel->sizes.policy != ENGINE_CYCLIC;
}

/* Take the rest of a complete segment. */
static void put_whole(struct soft_reader *reader, uint32_t slot, const struct soft_segment *taken)
{
	struct soft_thread *thread = &reader->threads[slot];
	uint32_t from = thread->part < taken->words ? thread->part : taken->words;

	if (!reader_words(reader, thread, reader->first->words + from, taken->words - from,
			  taken->ended))
		reader_lost(reader, thread);
}

/* One that was being filled. */
static void put_part(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	size_t room = reader->channel->sizes.segment_bytes / sizeof(uint32_t) - thread->part;
	const uint32_t *words = reader->first->words + thread->part;

	if (!reader_words(reader, thread, words, segment_written(words, room),
			  soft_clock_latest(&reader->first->clock)))
		reader_lost(reader, thread);
}

/* ---- threads ---- */

/* 0; 1: it can't begin, or not yet; or the first error. */
int reader_begin(struct soft_reader *reader, uint32_t number)
{
	const struct engine_slot *slot = soft_channel_slot(reader->channel, number);
	struct soft_thread *thread = &reader->threads[number];
	struct soft_source *source = &reader->source;
	char comm[sizeof(slot->comm) + 1] = "";
	struct trail_sink *sink = source->sink;

	if (thread->is_begun)
		return 0;
	if (!sink)
		return 1;
	source->is_seen = 1;
	*thread = (struct soft_thread){ .is_begun = 1, .next = 1 };
	memcpy(comm, slot->comm, sizeof(slot->comm));
	if (source->carried) {
		thread->trail = source->carried;
		thread->last_ns = source->carried_ns;
		source->carried = NULL;
		return sink->calls->thread_name
			       ? reader_failed(reader,
					       sink->calls->thread_name(sink, thread->trail, comm))
			       : 0;
	}
	return reader_failed(
		reader,
		sink->calls->thread_begin(sink, &thread->trail, (pid_t)slot->tid, comm, TRAIL_SOFT,
					  reader_time(reader, thread, slot->began_ticks)));
}

static void end(struct soft_reader *reader, uint32_t number)
{
	struct soft_thread *thread = &reader->threads[number];

	if (thread->is_begun && thread->trail)
		reader_failed(reader, reader->source.sink->calls->thread_end(
					      reader->source.sink, thread->trail, thread->last_ns));
	*thread = (struct soft_thread){ 0 };
}

/* Segments that were left, in their order. How many. */
int reader_drain(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	struct soft_segment taken;
	int had = 0;

	/* a round at most: others wait too */
	while (!reader->first->error && had < (int)reader->channel->sizes.segments &&
	       segment_find(reader, slot, thread->next, &taken) && taken.words) {
		int is_whole = segment_copy(reader, slot, &taken);

		soft_clock_look(&reader->first->clock);
		segment_release(reader, slot, &taken);
		/* what it means was logged before */
		if (reader_paths(reader) < 0)
			break;
		if (is_whole)
			put_whole(reader, slot, &taken);
		else
			reader_lost(reader, thread);
		thread->next = taken.number + 1;
		thread->part = 0;
		had++;
	}
	return had;
}

/*
 * How many of the blocks in the segments from `first` to `newest` are older than those that are
 * wanted.
 */
static void skip_older(struct soft_reader *reader, uint32_t slot, uint64_t first, uint64_t newest)
{
	struct soft_thread *thread = &reader->threads[slot];
	struct soft_segment taken = { .number = first - 1 };
	uint64_t blocks = 0;

	if (!reader->first->newest_blocks || reader_paths(reader) < 0)
		return;
	for (uint32_t i = 0; i < reader->channel->sizes.segments &&
			     segment_next(reader, slot, taken.number + 1, newest, &taken);
	     i++)
		blocks += segment_blocks(reader, slot, &taken,
					 taken.number == thread->next ? thread->part : 0);
	if (blocks > reader->first->newest_blocks)
		thread->skip = blocks - reader->first->newest_blocks;
}

/* One of the segments from thread->next on. 0, or the first error. */
static int put_rest(struct soft_reader *reader, uint32_t slot, struct soft_segment *taken,
		    int is_newest)
{
	struct soft_thread *thread = &reader->threads[slot];
	int has = segment_copy(reader, slot, taken), is_gap;

	/* it may come to be full while it is copied */
	for (int i = 1; i < COPY_TRIES && !has; i++)
		has = segment_find(reader, slot, taken->number, taken) &&
		      segment_copy(reader, slot, taken);
	soft_clock_look(&reader->first->clock);
	if (reader_paths(reader) < 0)
		return -1;
	/* one that is not the newest and has no end is about to be that */
	if (!has || (!taken->words && !is_newest))
		return 0;
	is_gap = reader_reach(thread, taken->number, taken->began_blocks);
	if (is_gap && !thread->skip)
		reader_lost(reader, thread);
	if (taken->words)
		put_whole(reader, slot, taken);
	else
		put_part(reader, slot);
	thread->next = taken->number + 1;
	thread->part = 0;
	return reader->first->error;
}

/* The segments from thread->next on, up to the newest: by their numbers, which are the target's. */
void reader_rest(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	uint64_t newest = 0, segments = 0, first;
	struct soft_segment taken;
	int is_forged = 0;

	/* It need not have used all of them. */
	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++) {
		if (!segment_look(reader, slot, i, &taken)) {
			is_forged |= taken.number != 0;
			continue;
		}
		segments++;
		if (taken.number > newest)
			newest = taken.number;
	}
	if (is_forged)
		reader_lost(reader, thread);
	if (newest < thread->next)
		return;
	first = newest > segments && newest - segments + 1 > thread->next ? newest - segments + 1
									  : thread->next;
	skip_older(reader, slot, first, newest);
	taken.number = first - 1;
	for (uint32_t i = 0; i < reader->channel->sizes.segments && !reader->first->error; i++) {
		if (!segment_next(reader, slot, taken.number + 1, newest, &taken))
			break;
		if (put_rest(reader, slot, &taken, taken.number == newest) < 0)
			return;
	}
	if (thread->skip || thread->next <= newest)
		reader_lost(reader, thread);
	thread->next = newest + 1;
	thread->skip = thread->part = 0;
}

/* Nobody writes for a thread any more: what its trail ends with. */
void reader_end(struct soft_reader *reader, struct soft_thread *thread,
		const struct trail_between *end_with)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	const struct trail_between left = { .event = TRAIL_EXEC };
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };

	if (thread->has_left) { /* no one wrote for the program that it executed */
		reader_event(reader, thread, &left, thread->last_ns);
		reader_event(reader, thread, &gap, thread->last_ns);
		reader_event(reader, thread, &gone, thread->last_ns);
	}
	if (end_with)
		reader_event(reader, thread, end_with,
			     reader_time(reader, thread, soft_clock_latest(&reader->first->clock)));
	else if (!thread->is_over)
		reader_lost(reader, thread);
}

/* A thread's trail, all of it. */
void reader_finish(struct soft_reader *reader, uint32_t slot, const struct trail_between *end_with)
{
	struct soft_thread *thread = &reader->threads[slot];

	if (reader_begin(reader, slot))
		return;
	reader_rest(reader, slot);
	reader_end(reader, thread, end_with);
	end(reader, slot);
}

/* What a thread has written there, to 0. */
static void clear(const struct soft_reader *reader, uint32_t number, uint32_t index)
{
	const struct soft_sizes *sizes = &reader->channel->sizes;
	uint32_t *words = soft_channel_words(reader->channel, number, index);
	uint64_t bytes = sizes->segment_bytes;
	struct soft_segment taken;

	if (!segment_look(reader, number, index, &taken))
		return;
	if (taken.words)
		bytes = taken.words * sizeof(*words);
	if (bytes < REMOVE_BYTES || madvise(words, bytes, MADV_REMOVE))
		memset(words, 0, bytes);
}

/* For the next thread. */
static void reader_slot_free(const struct soft_reader *reader, uint32_t number)
{
	struct engine_slot *slot = soft_channel_slot(reader->channel, number);

	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++) {
		clear(reader, number, i);
		slot->segments[i] = (struct engine_segment){ 0 };
	}
	slot->lost_words = 0;
	soft_channel_give_slot(reader->channel, number);
}

int reader_take_slot(struct soft_reader *reader, uint32_t number)
{
	struct engine_slot *slot = soft_channel_slot(reader->channel, number);
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
	int had = 0;

	if (state != ENGINE_SLOT_LIVE && state != ENGINE_SLOT_ENDED)
		return 0;
	if (reader_begin(reader, number))
		return 0;
	if (reader_is_drained(reader))
		had = reader_drain(reader, number);
	if (state == ENGINE_SLOT_ENDED && !reader->first->error) {
		reader_finish(reader, number, NULL);
		reader_slot_free(reader, number);
		had++;
	}
	return had;
}

/* ---- all ---- */

int soft_reader_init(struct soft_reader *reader, struct soft_channel *channel,
		     struct trail_sink *sink)
{
	*reader = (struct soft_reader){ .channel = channel, .first = reader };
	soft_clock_init(&reader->clock);
	reader->source.sink = sink;
	reader->words = malloc(channel->sizes.segment_bytes);
	return reader->words ? 0 : -ENOMEM;
}

/* Engines take the first that is free: where one was never taken, nor was any behind it. */
uint32_t soft_reader_used(struct soft_reader *reader)
{
	uint32_t end = reader->channel ? reader->channel->sizes.slots : 0;
	size_t room = reader->room;

	for (; reader->used < end; reader->used++) {
		const struct engine_slot *slot = soft_channel_slot(reader->channel, reader->used);

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == ENGINE_SLOT_FREE &&
		    !__atomic_load_n(&slot->tid, __ATOMIC_RELAXED))
			break;
		if (reader->used < reader->room)
			continue;
		if (array_grow(&reader->threads, &reader->room, reader->used + 1,
			       sizeof(*reader->threads))) {
			reader_failed(reader, -ENOMEM);
			break;
		}
		memset(reader->threads + room, 0, (reader->room - room) * sizeof(*reader->threads));
		room = reader->room;
	}
	return reader->used;
}

int soft_reader_take(struct soft_reader *reader)
{
	int had = 0, taken = 0;

	if (reader->first->error)
		return reader->first->error;
	if (!reader->source.sink || !reader->channel)
		return 0;
	soft_clock_look(&reader->first->clock);
	had = reader_paths(reader);
	/* one that has something a time, in turn: somebody may wait for an answer */
	soft_reader_used(reader);
	for (uint32_t i = 0; i < reader->used && !reader->first->error && !taken; i++)
		taken = reader_take_slot(reader, reader->turn++ % reader->used);
	had |= taken;
	return reader->first->error ? reader->first->error : had != 0;
}

void soft_reader_release(struct soft_reader *reader)
{
	soft_paths_release(&reader->source.paths);
	free(reader->threads);
	free(reader->words);
	reader->threads = NULL;
	reader->words = NULL;
}
