/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_segment.h"

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
	if (taken->words > most)
		taken->words = (uint32_t)most;
	if (!taken->words)
		taken->ended = 0;
	return taken->number != 0;
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

void segment_give_back(const struct soft_reader *reader, uint32_t slot,
		       const struct soft_segment *taken)
{
	memset(soft_channel_words(reader->channel, slot, taken->index), 0,
	       reader->channel->sizes.segment_bytes);
	soft_channel_give_segment(reader->channel, slot, taken->index, taken->number);
}

int segment_copy(const struct soft_reader *reader, uint32_t slot, const struct soft_segment *taken)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	uint64_t bytes = taken->words ? taken->words * sizeof(*words)
				      : reader->channel->sizes.segment_bytes;
	struct soft_segment after;

	memcpy(reader->words, words, bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return segment_look(reader, slot, taken->index, &after) && after.number == taken->number &&
	       after.words == taken->words && after.began == taken->began &&
	       (!taken->words || __atomic_load_n(words, __ATOMIC_ACQUIRE));
}

uint64_t segment_blocks(const struct soft_reader *reader, const struct soft_thread *thread,
			uint32_t slot, const struct soft_segment *taken)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	size_t room = reader->channel->sizes.segment_bytes / sizeof(*words), at = 0;
	uint64_t blocks = 0;

	if (taken->words)
		room = taken->words;
	while (at < room && words[at]) {
		uint32_t word = words[at];
		const struct soft_path *path = word < ENGINE_EVENT
						       ? soft_path_of(&thread->source->paths, word)
						       : NULL;

		blocks += path ? path->count : 0;
		at += word < ENGINE_EVENT ? 1 : 1 + ENGINE_EVENT_WORDS(word);
	}
	return blocks;
}
