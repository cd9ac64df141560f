/* SPDX-License-Identifier: MIT */
/* Fetch what the threads of an engine have written by now, while they run. */
#include "record/trail/soft/soft_reader_own.h"
#include "record/trail/soft/soft_segment.h"

#include <errno.h>
#include <stdlib.h>

/* Of a thread that runs; each fails only where that wrote a whole round of segments meanwhile. */
#define COPY_TRIES 8

/* A segment that was copied. */
struct copied {
	uint64_t number;
	uint64_t ended; /* of the time stamp counter; 0: it is being filled */
	uint64_t began_blocks;
	uint32_t words;
};

static uint64_t newest_of(const struct soft_reader *reader, uint32_t slot)
{
	struct soft_segment taken;
	uint64_t newest = 0;

	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++)
		if (segment_look(reader, slot, i, &taken) && taken.number > newest)
			newest = taken.number;
	return newest;
}

static int copy_one(const struct soft_reader *reader, uint32_t slot, uint64_t number,
		    struct copied *copied, uint32_t *to)
{
	struct soft_segment taken;
	int words = -EAGAIN;

	if (segment_find(reader, slot, number, &taken))
		words = segment_copy_now(reader, slot, &taken, to);
	if (words < 0)
		return 0;
	*copied = (struct copied){ number, taken.ended, taken.began_blocks, (uint32_t)words };
	return 1;
}

/* Put the part of a copied segment that was not put before. */
static void put(struct soft_reader *reader, struct soft_thread *thread, const struct copied *copied,
		const uint32_t *words)
{
	uint64_t ticks = copied->ended ? copied->ended : soft_clock_latest(&reader->first->clock);
	uint32_t from = thread->part < copied->words ? thread->part : copied->words;

	if (!reader_words(reader, thread, words + from, copied->words - from, ticks))
		reader_lost(reader, thread);
	thread->next = copied->ended ? copied->number + 1 : copied->number;
	thread->part = copied->ended ? 0 : copied->words;
}

/* Skip segments that are older than the wanted ones. */
static void skip_older(const struct soft_reader *reader, struct soft_thread *thread,
		       const struct copied *copied, uint32_t count, const uint32_t *words)
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
static uint32_t copy_newest(const struct soft_reader *reader, uint32_t slot, struct copied *copied,
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
	struct copied copied[ENGINE_SEGMENTS_MAX];
	uint32_t count = 0;
	int is_gap;
	uint32_t *words = malloc(sizes->segments * sizes->segment_bytes);

	if (!words) {
		reader_failed(reader, -ENOMEM);
		return;
	}
	for (int tries = 0; tries < COPY_TRIES && !count; tries++)
		count = copy_newest(reader, slot, copied, words);
	soft_clock_look(&reader->first->clock);
	if (count && reader_paths(reader) >= 0) {
		is_gap = reader_reach(thread, copied[count - 1].number,
				      copied[count - 1].began_blocks);
		skip_older(reader, thread, copied, count, words);
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
	struct copied copied;

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
