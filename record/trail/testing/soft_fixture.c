/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/trail/testing/soft_fixture.h"

#include <criterion/criterion.h>
#include <string.h>
#include <x86intrin.h>

#define EVENT_WORDS 10u /* with its head */
#define IDS 4096u

struct soft_channel channel;
struct soft_reader reader;
struct sample_sink sink;
struct engine_channel *head;
struct writer writer;
uint64_t put;
uint32_t next_id;
static uint32_t blocks_of[IDS]; /* of an id's path, by its id modulo */
const struct trail_between killed = { .event = TRAIL_END, .values = { TRAIL_KILLED, 9 } };

void open_with(enum engine_policy policy)
{
	const struct soft_sizes sizes = { SLOTS, SEGMENTS, SEGMENT_BYTES, LOG_BYTES, policy, 0 };

	sample_sink_init(&sink);
	cr_assert_eq(soft_channel_open(&channel, &sizes), 0);
	soft_channel_fill(&channel);
	cr_assert_eq(soft_reader_init(&reader, &channel, &sink.sink), 0);
	head = soft_channel_head(&channel);
	put = 0;
	next_id = 1;
}

void blocking(void)
{
	open_with(ENGINE_BLOCK);
}

void cyclic(void)
{
	open_with(ENGINE_CYCLIC);
}

void end(void)
{
	soft_reader_release(&reader);
	soft_channel_close(&channel);
	sample_sink_release(&sink);
}

void *entry_begin(uint32_t kind, uint32_t bytes)
{
	uint64_t at = put % LOG_BYTES;
	struct engine_entry *entry = (struct engine_entry *)(channel.base + channel.log_at + at);

	bytes = (bytes + 7) & ~7u;
	if (at + bytes > LOG_BYTES) {
		*entry = (struct engine_entry){ (uint32_t)(LOG_BYTES - at), ENGINE_ENTRY_PAD };
		put += LOG_BYTES - at;
		entry = (struct engine_entry *)(channel.base + channel.log_at);
	}
	memset(entry, 0, bytes);
	*entry = (struct engine_entry){ bytes, kind };
	put += bytes;
	return entry;
}

void entry_end(void)
{
	__atomic_store_n(&head->log_put, put, __ATOMIC_RELEASE);
}

uint32_t trace(uint32_t first, uint16_t blocks)
{
	uint32_t bytes = (uint32_t)sizeof(struct engine_trace) + blocks * 34u;
	struct engine_trace *made = entry_begin(ENGINE_ENTRY_TRACE, bytes);
	uint8_t *at = (uint8_t *)(made + 1);

	made->first_id = next_id;
	made->blocks = made->exits = blocks;
	for (uint32_t i = 0; i < blocks; i++) {
		struct trail_entry entry = { .start = START + 16 * (first + i),
					     .bytes = 3,
					     .instructions = 1,
					     .kind = TRAIL_JUMP_INDIRECT,
					     .flags = TRAIL_HAS_CODE };

		memcpy(at, &entry, sizeof(entry));
		memset(at + sizeof(entry), (int)i + 1, 3);
		at += sizeof(entry) + 8;
	}
	for (uint16_t i = 1; i <= blocks; i++, at += sizeof(i)) {
		memcpy(at, &i, sizeof(i));
		blocks_of[(next_id + i - 1) % IDS] = i;
	}
	entry_end();
	next_id += blocks;
	return made->first_id;
}

uint32_t prefix(uint32_t of, uint32_t blocks)
{
	struct engine_prefix *made = entry_begin(ENGINE_ENTRY_PREFIX, sizeof(*made));

	made->id = next_id;
	made->of = of;
	made->blocks = blocks;
	entry_end();
	blocks_of[next_id % IDS] = blocks;
	return next_id++;
}

uint32_t *words(void)
{
	return soft_channel_words(&channel, writer.number, writer.segment);
}

static void segment_begin(uint32_t index)
{
	struct engine_segment *segment = &writer.slot->segments[index];

	writer.segment = index;
	writer.at = 0;
	memset(words(), 0, SEGMENT_WORDS * sizeof(uint32_t));
	segment->began_ticks = __rdtsc();
	segment->began_blocks = writer.blocks;
	segment->words = 0;
	__atomic_store_n(&segment->number, ++writer.count, __ATOMIC_RELEASE);
}

void segment_end(void)
{
	struct engine_segment *segment = &writer.slot->segments[writer.segment];

	segment->ended_ticks = __rdtsc();
	__atomic_store_n(&segment->words, writer.at, __ATOMIC_RELEASE);
}

void thread_begin(uint32_t number)
{
	writer = (struct writer){ .slot = soft_channel_slot(&channel, number), .number = number };
	for (uint32_t n = 0; n <= number; n++)
		soft_channel_slot(&channel, n)->tid = 100 + n;
	writer.slot->began_ticks = __rdtsc();
	memcpy(writer.slot->comm, "0123456789abcdef", 16);
	segment_begin(0);
	__atomic_store_n(&writer.slot->state, ENGINE_SLOT_LIVE, __ATOMIC_RELEASE);
}

void thread_end(void)
{
	segment_end();
	__atomic_store_n(&writer.slot->state, ENGINE_SLOT_ENDED, __ATOMIC_RELEASE);
}

static void turn(void)
{
	uint32_t next = (writer.segment + 1) % SEGMENTS;
	const struct engine_segment *segment = &writer.slot->segments[next];

	segment_end();
	cr_assert(AWAIT(channel.sizes.policy != ENGINE_BLOCK ||
			__atomic_load_n(&segment->taken, __ATOMIC_ACQUIRE) ==
				(uint32_t)segment->number));
	segment_begin(next);
}

void write_id(uint32_t id)
{
	if (writer.at == SEGMENT_WORDS)
		turn();
	words()[writer.at++] = id;
	writer.blocks += blocks_of[id % IDS];
}

void write_event(enum trail_event event, uint64_t at, uint64_t first)
{
	uint64_t ticks = __rdtsc();
	struct engine_event made = { .ticks = { (uint32_t)ticks, (uint32_t)(ticks >> 32) },
				     .at = { (uint32_t)at, (uint32_t)(at >> 32) },
				     .values = { { (uint32_t)first } } };

	if (writer.at + EVENT_WORDS > SEGMENT_WORDS)
		turn();
	memcpy(words() + writer.at + 1, &made, sizeof(made));
	words()[writer.at] = ENGINE_EVENT | (uint32_t)event << 16 | (EVENT_WORDS - 1);
	writer.at += EVENT_WORDS;
}

void take(void)
{
	int more;

	do {
		more = soft_reader_take(&reader);
		cr_assert_geq(more, 0, "%d", more);
	} while (more);
}

int is_event(size_t at, enum trail_event event)
{
	return at < sink.count && !sink.items[at].entry.instructions &&
	       sink.items[at].between.event == event;
}

int is_block(size_t at, uint32_t number)
{
	return at < sink.count && sink.items[at].entry.instructions &&
	       sink.items[at].entry.start == START + 16 * number;
}
