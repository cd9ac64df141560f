/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_reader.h"

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
/* Of a thread that runs; each fails only where that wrote a whole round of segments meanwhile. */
#define FETCH_TRIES 8

/*
 * ---- a thread's segments, as its engine says of them (abi/engine.h): it may write at the same
 * time, and anything
 */

/* At a moment. */
struct segment {
	uint32_t index;
	uint64_t number, began, ended; /* ticks; ended 0: it is being filled */
	uint64_t began_blocks;	       /* that the thread had written before */
	uint32_t words;
};

/* No thread gets so far: such a number is forged. */
#define SEGMENT_NUMBERS_MAX (UINT64_C(1) << 48)

/*
 * How many words were written: the words that are still 0 are the only sign of where the writer
 * died.
 */
static size_t segment_written(const uint32_t *words, size_t room)
{
	size_t at = 0;

	while (at < room && words[at]) {
		size_t whole = words[at] < ENGINE_EVENT ? 1 : 1 + ENGINE_EVENT_WORDS(words[at]);

		if (at + whole > room)
			break;
		at += whole;
	}
	return at;
}

static struct engine_segment *segment_of(const struct soft_reader *reader, uint32_t slot,
					 uint32_t index)
{
	return &soft_channel_slot(reader->channel, slot)->segments[index];
}

/* What it says of itself now. 0: it has nothing, or that. */
static int segment_look(const struct soft_reader *reader, uint32_t slot, uint32_t index,
			struct segment *taken)
{
	const struct engine_segment *segment = segment_of(reader, slot, index);
	uint64_t most = reader->channel->sizes.segment_bytes / sizeof(uint32_t);

	taken->index = index;
	taken->number = __atomic_load_n(&segment->number, __ATOMIC_ACQUIRE);
	taken->words = __atomic_load_n(&segment->words, __ATOMIC_ACQUIRE);
	taken->began = __atomic_load_n(&segment->began_ticks, __ATOMIC_RELAXED);
	taken->ended = __atomic_load_n(&segment->ended_ticks, __ATOMIC_RELAXED);
	taken->began_blocks = __atomic_load_n(&segment->began_blocks, __ATOMIC_RELAXED);
	if (taken->words > most)
		taken->words = (uint32_t)most;
	if (!taken->words)
		taken->ended = 0;
	return taken->number && taken->number < SEGMENT_NUMBERS_MAX;
}

/* The one with the least number of `from` to `to`. 0: none is there. */
static int segment_next(const struct soft_reader *reader, uint32_t slot, uint64_t from, uint64_t to,
			struct segment *taken)
{
	struct segment looked;
	int found = 0;

	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++) {
		if (!segment_look(reader, slot, i, &looked) || looked.number < from ||
		    looked.number > to || (found && looked.number >= taken->number))
			continue;
		*taken = looked;
		found = 1;
	}
	return found;
}

/* The one of that number. 0: it is not there. */
static int segment_find(const struct soft_reader *reader, uint32_t slot, uint64_t number,
			struct segment *taken)
{
	uint32_t segments = reader->channel->sizes.segments;

	/* most likely where the numbers go round */
	for (uint32_t i = 0; i < segments; i++)
		if (segment_look(reader, slot, (uint32_t)((number - 1 + i) % segments), taken) &&
		    taken->number == number)
			return 1;
	return 0;
}

/* It is given back, cleared: so it will be known how far it is filled, should its writer die. */
static void segment_release(const struct soft_reader *reader, uint32_t slot,
			    const struct segment *taken)
{
	uint64_t bytes = (taken->words + UINT64_C(1)) * sizeof(uint32_t);
	uint64_t most = reader->channel->sizes.segment_bytes;

	/*
	 * The words, and one that a signal came behind; all others are 0. To clear those would give
	 * memory to pages that no one wrote.
	 */
	memset(soft_channel_words(reader->channel, slot, taken->index), 0,
	       bytes < most ? bytes : most);
	soft_channel_give_segment(reader->channel, slot, taken->index, taken->number);
}

static int copy(const struct soft_reader *reader, uint32_t slot, const struct segment *taken,
		size_t count, uint32_t *to)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	struct segment after;

	memcpy(to, words, count * sizeof(*words));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return segment_look(reader, slot, taken->index, &after) && after.number == taken->number &&
	       after.words == taken->words && after.began == taken->began &&
	       (!taken->words || __atomic_load_n(words, __ATOMIC_ACQUIRE));
}

/*
 * Into reader->words. 0: it was overwritten meanwhile. Where it was full, the mark at its head goes
 * first.
 */
static int segment_copy(const struct soft_reader *reader, uint32_t slot,
			const struct segment *taken)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	size_t room = reader->channel->sizes.segment_bytes / sizeof(*words), count = taken->words;
	uint32_t *to = reader->first->words;

	/* to read pages that no one wrote would give them memory */
	if (!count) {
		count = segment_written(words, room);
		if (count < room)
			to[count] = 0;
	}
	return copy(reader, slot, taken, count, to);
}

/*
 * How many words are there while the writer continues. The writer stores the head of an event last
 * (ring_event()). So if an acquire load sees the head, all of the event is there. The writer may
 * take back a TRAIL_EXEC at the end (thread_words_take_back()).
 */
static size_t written_now(const uint32_t *words, size_t room)
{
	size_t at = 0, whole;

	for (; at < room; at += whole) {
		uint32_t word = __atomic_load_n(&words[at], __ATOMIC_ACQUIRE);

		whole = word < ENGINE_EVENT ? 1 : 1 + ENGINE_EVENT_WORDS(word);
		if (!word || at + whole > room)
			break;
		if (word >= ENGINE_EVENT && ENGINE_EVENT_CLASS(word) == TRAIL_EXEC &&
		    (at + whole == room || !__atomic_load_n(&words[at + whole], __ATOMIC_ACQUIRE)))
			break;
	}
	return at;
}

/*
 * Copy what is there while the writer continues, into `to`, of a segment's size. How many words;
 * -EAGAIN: it changed meanwhile.
 */
static int segment_copy_now(const struct soft_reader *reader, uint32_t slot,
			    const struct segment *taken, uint32_t *to)
{
	size_t count = taken->words;

	if (!count)
		count = written_now(soft_channel_words(reader->channel, slot, taken->index),
				    reader->channel->sizes.segment_bytes / sizeof(*to));
	return copy(reader, slot, taken, count, to) ? (int)count : -EAGAIN;
}

/* About so many blocks are in words that were copied. What the words mean is known. */
static uint64_t segment_blocks_of(const struct soft_reader *reader, const uint32_t *words,
				  size_t from, size_t room)
{
	uint64_t blocks = 0;
	size_t at = from;

	while (at < room && words[at]) {
		uint32_t word = words[at];
		const struct soft_path *path = word < ENGINE_EVENT
						       ? soft_path_of(&reader->source.paths, word)
						       : NULL;

		blocks += path ? path->count : 0;
		at += word < ENGINE_EVENT ? 1 : 1 + ENGINE_EVENT_WORDS(word);
	}
	return blocks;
}

/* The same of a segment, from that word on. */
static uint64_t segment_blocks(const struct soft_reader *reader, uint32_t slot,
			       const struct segment *taken, size_t from)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	size_t room = reader->channel->sizes.segment_bytes / sizeof(*words);

	return segment_blocks_of(reader, words, from, taken->words ? taken->words : room);
}

/* The first error is kept, and returned. */
static int reader_failed(struct soft_reader *reader, int err)
{
	if (err < 0 && !reader->first->error)
		reader->first->error = err;
	return reader->first->error;
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

/* ---- into the sink ---- */

/* No earlier than what the thread has. */
static uint64_t reader_time(const struct soft_reader *reader, struct soft_thread *thread,
			    uint64_t ticks)
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

static void reader_event(struct soft_reader *reader, struct soft_thread *thread,
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

/* Something is missing here: thread->missing blocks, or an unknown number. */
static void reader_lost(struct soft_reader *reader, struct soft_thread *thread)
{
	const struct trail_between lost = { .event = TRAIL_LOST, .values = { thread->missing } };

	if (thread->is_lost && !thread->missing)
		return;
	reader->first->overwritten += thread->missing;
	thread->missing = 0;
	reader_event(reader, thread, &lost, thread->last_ns);
}

/*
 * The thread continues with that segment. 1: something is missing before it; thread->missing has
 * the blocks.
 */
static int reader_reach(struct soft_thread *thread, uint64_t number, uint64_t began_blocks)
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

/*
 * The thread ran a path of that moment: no path is used when code that it is of has gone, so from
 * here on the thread is in the later epoch. 0 or the sink's error.
 */
static int reader_moment(struct soft_reader *reader, struct soft_thread *thread, uint32_t moment)
{
	const struct module_epochs *epochs = reader->source.epochs;
	struct trail_sink *sink = reader->source.sink;

	thread->moment = moment > thread->moment ? moment : thread->moment;
	thread->has_moment = 1;
	return epochs && sink->calls->since
		       ? sink->calls->since(sink, thread->trail,
					    module_epochs_after(epochs, thread->moment))
		       : 0;
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
			err = reader_moment(reader, thread, path->moment);
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
static int reader_words(struct soft_reader *reader, struct soft_thread *thread,
			const uint32_t *words, size_t count, uint64_t end_ticks)
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
static int reader_paths(struct soft_reader *reader)
{
	int had = reader->channel ? soft_paths_take(&reader->source.paths, reader->channel) : 0;

	if (reader != reader->first && had == -EPROTO)
		return 0;
	reader_failed(reader, had);
	return reader->first->error ? reader->first->error : had;
}

/* ---- segments ---- */

/* Whether segments are given back; else their thread overwrites them. */
static int reader_is_drained(const struct soft_reader *reader)
{
	return reader->channel->sizes.policy != ENGINE_CYCLIC;
}

/* Take the rest of a complete segment. */
static void put_whole(struct soft_reader *reader, uint32_t slot, const struct segment *taken)
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
static int reader_begin(struct soft_reader *reader, uint32_t number)
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
static int reader_drain(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	struct segment taken;
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
	struct segment taken = { .number = first - 1 };
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
static int put_rest(struct soft_reader *reader, uint32_t slot, struct segment *taken, int is_newest)
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
static void reader_rest(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	uint64_t newest = 0, segments = 0, first;
	struct segment taken;
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
static void reader_end(struct soft_reader *reader, struct soft_thread *thread,
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
static void reader_finish(struct soft_reader *reader, uint32_t slot,
			  const struct trail_between *end_with)
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
	struct segment taken;

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
	soft_channel_give_slot(reader->channel, number);
}

/* A slot, as soft_reader_take() does. How much there was. */
static int reader_take_slot(struct soft_reader *reader, uint32_t number)
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

/* ---- a process that has ended, or has executed another program ---- */

int soft_reader_init_child(struct soft_reader *reader, struct soft_reader *of, uint32_t first_id)
{
	*reader = (struct soft_reader){ .first = of->first };
	if (!first_id)
		return 0;
	reader_paths(of);
	return soft_paths_copy(&reader->source.paths, &of->source.paths, first_id);
}

/* Whether a slot has something. */
static int has(const struct soft_reader *reader, uint32_t slot)
{
	uint32_t state = __atomic_load_n(&soft_channel_slot(reader->channel, slot)->state,
					 __ATOMIC_ACQUIRE);

	return reader->threads[slot].is_begun || state == ENGINE_SLOT_LIVE ||
	       state == ENGINE_SLOT_ENDED;
}

/* Whether a thread got the signal that `end` names, and had no handler for it. */
static int is_killed(const struct soft_thread *thread, const struct trail_between *end)
{
	return thread->is_dying && thread->dying.values[0] == end->values[1];
}

/*
 * A signal killed the process. Read all that its threads wrote: whether one of them got that
 * signal.
 */
static int has_killed(struct soft_reader *reader, const struct trail_between *end)
{
	int killed = 0;

	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!has(reader, i) || reader_begin(reader, i))
			continue;
		reader_rest(reader, i);
		killed |= is_killed(&reader->threads[i], end);
	}
	return killed;
}

static void finish(struct soft_reader *reader, const struct trail_between *end_with)
{
	struct trail_between other;
	int killed;

	if (!reader->source.sink)
		return;
	soft_clock_look(&reader->first->clock);
	reader_paths(reader);
	killed = end_with && end_with->event == TRAIL_END && end_with->values[0] == TRAIL_KILLED &&
		 has_killed(reader, end_with);
	if (killed) {
		other = *end_with;
		other.values[0] = TRAIL_ENDED_WITH;
	}
	for (uint32_t i = 0; i < soft_reader_used(reader); i++)
		if (has(reader, i))
			reader_finish(reader, i,
				      killed && !is_killed(&reader->threads[i], end_with)
					      ? &other
					      : end_with);
	soft_reader_drop_carried(reader, end_with);
}

/* A trail that says no more than that it was not recorded. */
static void begin_and_end(struct soft_reader *reader, const struct trail_between *end_with)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	struct soft_source *source = &reader->source;
	struct soft_thread thread = { 0 };

	if (reader->first->error ||
	    reader_failed(reader, source->sink->calls->thread_begin(
					  source->sink, &source->carried, source->pid, source->comm,
					  TRAIL_SOFT,
					  reader_time(reader, &thread,
						      soft_clock_latest(&reader->first->clock)))))
		return;
	source->carried_ns = thread.last_ns;
	soft_reader_drop_carried(reader, end_with ? end_with : &gone);
}

int soft_reader_end(struct soft_reader *reader, const struct trail_between *end_with)
{
	reader->first->killed_tid = 0;
	finish(reader, end_with);
	if (reader->source.sink && reader != reader->first && !reader->source.is_seen)
		begin_and_end(reader, end_with);
	return reader->first->error;
}

int soft_reader_executed(struct soft_reader *reader, pid_t former, pid_t tid, const char *comm)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	const struct trail_between left = { .event = TRAIL_EXEC };
	const struct trail_between over = { .event = TRAIL_END, .values = { TRAIL_EXITED } };
	struct soft_source *source = &reader->source;
	struct soft_thread carried = { 0 };

	soft_clock_look(&reader->first->clock);
	reader_paths(reader);
	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!has(reader, i) || reader_begin(reader, i))
			continue;
		if ((pid_t)soft_channel_slot(reader->channel, i)->tid != former || carried.trail) {
			reader_finish(reader, i, &over);
			continue;
		}
		reader_rest(reader, i);
		carried = reader->threads[i];
		reader->threads[i] = (struct soft_thread){ 0 };
	}
	if (!carried.trail) {
		reader_failed(reader,
			      source->sink->calls->thread_begin(
				      source->sink, &carried.trail, tid, comm, TRAIL_SOFT,
				      reader_time(reader, &carried,
						  soft_clock_latest(&reader->first->clock))));
		reader_event(reader, &carried, &gap, carried.last_ns);
	}
	carried.has_left = 1; /* it has come to something */
	reader_event(reader, &carried, &left, carried.last_ns);
	source->is_seen = 1;
	source->carried = carried.trail;
	source->carried_ns = carried.last_ns;
	soft_paths_renew(&source->paths);
	memset(reader->threads, 0, reader->room * sizeof(*reader->threads));
	reader->used = 0;
	return reader->first->error;
}

void soft_reader_drop_carried(struct soft_reader *reader, const struct trail_between *end_with)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	struct soft_source *source = &reader->source;
	struct soft_thread thread = { .trail = source->carried, .last_ns = source->carried_ns };

	source->carried = NULL;
	if (!thread.trail)
		return;
	reader_event(reader, &thread, &gap, thread.last_ns);
	reader_end(reader, &thread, end_with);
	reader_failed(reader,
		      source->sink->calls->thread_end(source->sink, thread.trail, thread.last_ns));
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

/* ---- what was written by now, while they run ---- */

static uint64_t newest_of(const struct soft_reader *reader, uint32_t slot)
{
	struct segment taken;
	uint64_t newest = 0;

	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++)
		if (segment_look(reader, slot, i, &taken) && taken.number > newest)
			newest = taken.number;
	return newest;
}

/* Of a copy, `words` is how many of them were there. */
static int copy_one(const struct soft_reader *reader, uint32_t slot, uint64_t number,
		    struct segment *copied, uint32_t *to)
{
	int words = -EAGAIN;

	if (segment_find(reader, slot, number, copied))
		words = segment_copy_now(reader, slot, copied, to);
	if (words < 0)
		return 0;
	copied->words = (uint32_t)words;
	return 1;
}

/* Put the part of a copied segment that was not put before. */
static void put(struct soft_reader *reader, struct soft_thread *thread,
		const struct segment *copied, const uint32_t *words)
{
	uint64_t ticks = copied->ended ? copied->ended : soft_clock_latest(&reader->first->clock);
	uint32_t from = thread->part < copied->words ? thread->part : copied->words;

	if (!reader_words(reader, thread, words + from, copied->words - from, ticks))
		reader_lost(reader, thread);
	thread->next = copied->ended ? copied->number + 1 : copied->number;
	thread->part = copied->ended ? 0 : copied->words;
}

/* Skip segments that are older than the wanted ones. */
static void fetch_skip_older(const struct soft_reader *reader, struct soft_thread *thread,
			     const struct segment *copied, uint32_t count, const uint32_t *words)
{
	size_t room = reader->channel->sizes.segment_bytes / sizeof(uint32_t);
	uint64_t blocks = 0;

	for (uint32_t i = 0; i < count; i++)
		blocks += segment_blocks_of(reader, words + i * room,
					    copied[i].number == thread->next ? thread->part : 0,
					    copied[i].words);
	if (reader->first->newest_blocks && blocks > reader->first->newest_blocks)
		thread->skip = blocks - reader->first->newest_blocks;
}

/*
 * Copy the newest segment, and older ones that no one has read, before that: the copies have no
 * gap. How many. 0 where the thread has overwritten the newest meanwhile, as one can while this
 * process waits for a CPU.
 */
static uint32_t copy_newest(const struct soft_reader *reader, uint32_t slot, struct segment *copied,
			    uint32_t *words)
{
	const struct soft_sizes *sizes = &reader->channel->sizes;
	size_t room = sizes->segment_bytes / sizeof(uint32_t);
	uint64_t newest = newest_of(reader, slot);
	uint32_t count = 0;

	/* the thread may leave the newest during the copy */
	for (uint64_t number = newest;
	     number && number >= reader->threads[slot].next && count < sizes->segments; number--) {
		if (copy_one(reader, slot, number, &copied[count], words + count * room))
			count++;
		else if (number != newest)
			break;
	}
	return count;
}

/*
 * A thread overwrites its oldest segment, perhaps faster than this function puts it. So copy all
 * first, the newest before older ones.
 */
static void fetch_cyclic(struct soft_reader *reader, uint32_t slot)
{
	const struct soft_sizes *sizes = &reader->channel->sizes;
	struct soft_thread *thread = &reader->threads[slot];
	size_t room = sizes->segment_bytes / sizeof(uint32_t);
	struct segment copied[ENGINE_SEGMENTS_MAX];
	uint32_t count = 0;
	int is_gap;
	uint32_t *words = malloc(sizes->segments * sizes->segment_bytes);

	if (!words) {
		reader_failed(reader, -ENOMEM);
		return;
	}
	for (int tries = 0; tries < FETCH_TRIES && !count; tries++)
		count = copy_newest(reader, slot, copied, words);
	soft_clock_look(&reader->first->clock);
	if (count && reader_paths(reader) >= 0) {
		is_gap = reader_reach(thread, copied[count - 1].number,
				      copied[count - 1].began_blocks);
		fetch_skip_older(reader, thread, copied, count, words);
		if (is_gap && !thread->skip)
			reader_lost(reader, thread);
		while (count-- && !reader->first->error)
			put(reader, thread, &copied[count], words + count * room);
		if (thread->skip)
			reader_lost(reader, thread);
		thread->skip = 0;
	}
	free(words);
}

/* Put what is there at the start alone: a thread that waits for room continues meanwhile. */
static void fetch_drained(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	uint64_t newest = newest_of(reader, slot);
	struct segment copied;

	/* `newest` is the target's number: it has so many at most */
	for (uint32_t i = 0; i < reader->channel->sizes.segments && thread->next <= newest &&
			     reader_drain(reader, slot) > 0;
	     i++)
		;
	if (reader->first->error ||
	    !copy_one(reader, slot, thread->next, &copied, reader->first->words))
		return;
	soft_clock_look(&reader->first->clock);
	/* a full one stays for the next soft_reader_take(), which gives it back */
	if (!copied.ended && reader_paths(reader) >= 0)
		put(reader, thread, &copied, reader->first->words);
}

int soft_reader_fetch(struct soft_reader *reader)
{
	if (!reader->source.sink || !reader->channel)
		return reader->first->error;
	soft_clock_look(&reader->first->clock);
	reader_paths(reader);
	for (uint32_t i = 0; i < soft_reader_used(reader) && !reader->first->error; i++) {
		uint32_t state = __atomic_load_n(&soft_channel_slot(reader->channel, i)->state,
						 __ATOMIC_ACQUIRE);

		if (state == ENGINE_SLOT_ENDED)
			reader_take_slot(reader, i);
		else if (state == ENGINE_SLOT_LIVE && !reader_begin(reader, i))
			(reader_is_drained(reader) ? fetch_drained : fetch_cyclic)(reader, i);
	}
	return reader->first->error;
}
