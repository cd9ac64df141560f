/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_segment.h"

#include <errno.h>
#include <string.h>

size_t segment_written(const uint32_t *words, size_t room)
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

int segment_look(const struct soft_reader *reader, uint32_t slot, uint32_t index,
		 struct soft_segment *taken)
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

int segment_next(const struct soft_reader *reader, uint32_t slot, uint64_t from, uint64_t to,
		 struct soft_segment *taken)
{
	struct soft_segment looked;
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

int segment_find(const struct soft_reader *reader, uint32_t slot, uint64_t number,
		 struct soft_segment *taken)
{
	uint32_t segments = reader->channel->sizes.segments;

	/* most likely where the numbers go round */
	for (uint32_t i = 0; i < segments; i++)
		if (segment_look(reader, slot, (uint32_t)((number - 1 + i) % segments), taken) &&
		    taken->number == number)
			return 1;
	return 0;
}

void segment_release(const struct soft_reader *reader, uint32_t slot,
		     const struct soft_segment *taken)
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

static int copy(const struct soft_reader *reader, uint32_t slot, const struct soft_segment *taken,
		size_t count, uint32_t *to)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	struct soft_segment after;

	memcpy(to, words, count * sizeof(*words));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return segment_look(reader, slot, taken->index, &after) && after.number == taken->number &&
	       after.words == taken->words && after.began == taken->began &&
	       (!taken->words || __atomic_load_n(words, __ATOMIC_ACQUIRE));
}

int segment_copy(const struct soft_reader *reader, uint32_t slot, const struct soft_segment *taken)
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

int segment_copy_now(const struct soft_reader *reader, uint32_t slot,
		     const struct soft_segment *taken, uint32_t *to)
{
	size_t count = taken->words;

	if (!count)
		count = written_now(soft_channel_words(reader->channel, slot, taken->index),
				    reader->channel->sizes.segment_bytes / sizeof(*to));
	return copy(reader, slot, taken, count, to) ? (int)count : -EAGAIN;
}

uint64_t segment_blocks(const struct soft_reader *reader, uint32_t slot,
			const struct soft_segment *taken, size_t from)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	size_t room = reader->channel->sizes.segment_bytes / sizeof(*words);

	return segment_blocks_of(reader, words, from, taken->words ? taken->words : room);
}

uint64_t segment_blocks_of(const struct soft_reader *reader, const uint32_t *words, size_t from,
			   size_t room)
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
