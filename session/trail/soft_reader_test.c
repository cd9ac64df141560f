/* SPDX-License-Identifier: MIT */
/* Channels filled by hand, as an engine would, and as none would. */
#include "session/trail/soft_reader.h"

#include "session/trail/sample_sink.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SLOTS 4
#define SEGMENTS 4
#define SEGMENT_BYTES 4096u
#define SEGMENT_WORDS (SEGMENT_BYTES / 4)
#define LOG_BYTES 8192u
#define START 0x1000u
#define EVENT_WORDS 10u /* with its head */

static struct soft_channel channel;
static struct soft_reader reader;
static struct sample_sink sink;

/* The other side. */
static struct engine_channel *head;
static struct writer {
	struct engine_slot *slot;
	uint32_t number, segment, at; /* its slot; the segment, and how many words of it are full */
	uint64_t count;		      /* segments ever */
} writer;
static uint64_t put;
static uint32_t next_id;

static void open_with(enum engine_policy policy)
{
	const struct soft_sizes sizes = { SLOTS, SEGMENTS, SEGMENT_BYTES, LOG_BYTES, policy };

	sample_sink_init(&sink);
	cr_assert_eq(soft_channel_open(&channel, &sizes), 0);
	cr_assert_eq(soft_reader_init(&reader, &channel, &sink.sink), 0);
	head = soft_channel_head(&channel);
	put = 0;
	next_id = 1;
}

static void blocking(void)
{
	open_with(ENGINE_BLOCK);
}

static void cyclic(void)
{
	open_with(ENGINE_CYCLIC);
}

static void end(void)
{
	soft_reader_release(&reader);
	soft_channel_close(&channel);
	sample_sink_release(&sink);
}

TestSuite(soft_reader, .init = blocking, .fini = end, .timeout = 60);
TestSuite(soft_cyclic, .init = cyclic, .fini = end, .timeout = 60);

/* ---- the log ---- */

static void *entry_begin(uint32_t kind, uint32_t bytes)
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

static void entry_end(void)
{
	__atomic_store_n(&head->log_put, put, __ATOMIC_RELEASE);
}

/* A trace of so many blocks, from START + 16 * first on, that can be left behind each. Its first id. */
static uint32_t trace(uint32_t first, uint16_t blocks)
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
	for (uint16_t i = 1; i <= blocks; i++, at += sizeof(i))
		memcpy(at, &i, sizeof(i));
	entry_end();
	next_id += blocks;
	return made->first_id;
}

static uint32_t prefix(uint32_t of, uint32_t blocks)
{
	struct engine_prefix *made = entry_begin(ENGINE_ENTRY_PREFIX, sizeof(*made));

	made->id = next_id;
	made->of = of;
	made->blocks = blocks;
	entry_end();
	return next_id++;
}

/* ---- segments ---- */

static uint32_t *words(void)
{
	return soft_channel_words(&channel, writer.number, writer.segment);
}

static void segment_begin(uint32_t index)
{
	struct engine_segment *segment = &writer.slot->segments[index];

	writer.segment = index;
	writer.at = 0;
	for (uint32_t i = 0; i < SEGMENT_WORDS; i += ENGINE_MARK_WORDS)
		words()[i] = 0;
	segment->began_ticks = __rdtsc();
	segment->words = 0;
	__atomic_store_n(&segment->number, ++writer.count, __ATOMIC_RELEASE);
}

static void segment_end(void)
{
	struct engine_segment *segment = &writer.slot->segments[writer.segment];

	segment->ended_ticks = __rdtsc();
	__atomic_store_n(&segment->words, writer.at, __ATOMIC_RELEASE);
}

static void thread_begin(uint32_t number)
{
	writer = (struct writer){ .slot = soft_channel_slot(&channel, number), .number = number };
	writer.slot->tid = 100 + number;
	writer.slot->began_ticks = __rdtsc();
	memcpy(writer.slot->comm, "0123456789abcdef", 16);
	segment_begin(0);
	__atomic_store_n(&writer.slot->state, ENGINE_SLOT_LIVE, __ATOMIC_RELEASE);
}

static void thread_end(void)
{
	segment_end();
	__atomic_store_n(&writer.slot->state, ENGINE_SLOT_ENDED, __ATOMIC_RELEASE);
}

static void turn(void)
{
	uint32_t next = (writer.segment + 1) % SEGMENTS;
	const struct engine_segment *segment = &writer.slot->segments[next];

	segment_end();
	while (channel.sizes.policy == ENGINE_BLOCK &&
	       __atomic_load_n(&segment->taken, __ATOMIC_ACQUIRE) != (uint32_t)segment->number)
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	segment_begin(next);
}

static void write_id(uint32_t id)
{
	if (writer.at == SEGMENT_WORDS)
		turn();
	words()[writer.at++] = id;
}

static void write_event(enum trail_event event, uint64_t at, uint64_t first)
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

/* ---- what comes out ---- */

static void take(void)
{
	int more;

	do {
		more = soft_reader_take(&reader);
		cr_assert_geq(more, 0, "%d", more);
	} while (more);
}

static int is_event(size_t at, enum trail_event event)
{
	return at < sink.count && !sink.items[at].entry.instructions &&
	       sink.items[at].between.event == event;
}

static int is_block(size_t at, uint32_t number)
{
	return at < sink.count && sink.items[at].entry.instructions &&
	       sink.items[at].entry.start == START + 16 * number;
}

Test(soft_reader, an_id_is_a_path_of_blocks)
{
	uint32_t id = trace(0, 3);

	thread_begin(0);
	write_id(id + 2);
	write_id(id);
	write_event(TRAIL_SIGNAL, START, 11);
	write_id(id);
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_assert_eq(sink.count, 7, "%s", sample_sink_text(&sink));
	cr_expect(is_block(0, 0) && is_block(1, 1) && is_block(2, 2) && is_block(3, 0));
	cr_expect(is_event(4, TRAIL_SIGNAL) && sink.items[4].between.at == START &&
		  sink.items[4].between.values[0] == 11);
	cr_expect(is_block(5, 0) && is_event(6, TRAIL_END));
	cr_expect(sink.is_over);
	cr_expect_eq(writer.slot->state, ENGINE_SLOT_FREE);
	cr_expect_eq(reader.blocks, 5);
	cr_expect_leq(sink.items[0].ticks, sink.items[4].ticks);
	cr_expect_gt(sink.items[0].ticks, 0);
}

Test(soft_reader, a_prefix_may_be_longer_than_the_exit_that_it_is_named_by)
{
	uint32_t id = trace(0, 4), longer = prefix(id, 3), again = prefix(longer, 2);

	thread_begin(0);
	write_id(longer);
	write_id(again);
	thread_end();
	take();
	cr_assert_geq(sink.count, 5);
	cr_expect(is_block(2, 2) && is_block(3, 0) && is_block(4, 1));
}

Test(soft_reader, the_log_goes_round)
{
	uint32_t id = 0;

	for (uint32_t i = 0; i < 200; i++) {
		id = trace(i, 5);
		cr_assert_eq(soft_reader_take(&reader), 1);
	}
	cr_expect_gt(put, 2 * LOG_BYTES);
	thread_begin(0);
	write_id(id);
	thread_end();
	take();
	cr_expect(is_block(0, 199));
}

/* Another thread fills; we take. */
static void *fill(void *data)
{
	uint32_t id = *(uint32_t *)data;

	for (uint32_t i = 0; i < 40 * SEGMENT_WORDS; i++) {
		write_id(id + i % 2);
		if (i % 1000 == 999)
			write_event(TRAIL_ARRIVE, 0, 0);
	}
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	return NULL;
}

Test(soft_reader, a_thread_that_waits_for_us_loses_nothing)
{
	uint32_t id = trace(0, 2);
	pthread_t thread;

	thread_begin(2);
	cr_assert_eq(pthread_create(&thread, NULL, fill, &id), 0);
	while (!sink.is_over)
		cr_assert_geq(soft_reader_take(&reader), 0);
	pthread_join(thread, NULL);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(reader.blocks, 60 * SEGMENT_WORDS);
	cr_expect_eq(reader.losses, 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_ARRIVE), 40 * SEGMENT_WORDS / 1000);
}

Test(soft_reader, a_slot_serves_one_thread_after_the_other)
{
	uint32_t id = trace(0, 2);

	for (int i = 0; i < 3; i++) {
		thread_begin(1);
		for (uint32_t n = 0; n < 3 * SEGMENT_WORDS / 2; n++)
			write_id(id);
		write_event(TRAIL_END, 0, TRAIL_EXITED);
		thread_end();
		sink.check = (struct trail_check){ 0 };
		take();
		cr_expect_eq(writer.slot->state, ENGINE_SLOT_FREE);
	}
	cr_expect_eq(reader.losses, 0);
	cr_expect_eq(reader.blocks, 3 * 3 * SEGMENT_WORDS / 2);
}

static const struct trail_between killed = { .event = TRAIL_END, .values = { TRAIL_KILLED, 9 } };

Test(soft_reader, who_died_in_the_middle_is_read_to_the_last_word)
{
	uint32_t id = trace(0, 2);

	thread_begin(0);
	for (uint32_t i = 0; i < 2 * SEGMENT_WORDS; i++)
		write_id(id);
	take(); /* the first is full, and taken: it is used again */
	for (uint32_t i = 0; i < 3 * SEGMENT_WORDS + 77; i++) {
		write_id(id + 1);
		soft_reader_take(&reader);
	}
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_expect_eq(reader.losses, 0);
	cr_expect_eq(reader.blocks, 2 * SEGMENT_WORDS + 2 * (3 * SEGMENT_WORDS + 77));
	cr_expect(is_event(sink.count - 1, TRAIL_END));
	cr_expect(sink.is_over);
}

Test(soft_reader, an_event_that_does_not_stand_is_none)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_event(TRAIL_SIGNAL, START, 1);
	words()[1] = 0; /* its head comes last */
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_expect_eq(sink.count, 2, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_END));
}

Test(soft_reader, who_executes_another_program_is_unrecorded_from_there_on)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_event(TRAIL_EXEC, 0, 0);
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_assert_eq(sink.count, 4, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_EXEC) && is_event(2, TRAIL_GAP) && is_event(3, TRAIL_END));
	cr_expect_eq(sink.items[3].between.values[0], TRAIL_DETACHED);
}

Test(soft_reader, who_could_not_execute_another_program_goes_on)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_event(TRAIL_EXEC, 0, 0);
	write_event(TRAIL_SYSCALLED, START, 59);
	write_id(id);
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_assert_eq(sink.count, 4, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_SYSCALLED) && is_block(2, 0) && is_event(3, TRAIL_END));
}

Test(soft_reader, nobody_knows_how_it_ended)
{
	thread_begin(0);
	write_id(trace(0, 1));
	cr_assert_eq(soft_reader_finish(&reader, NULL), 0);
	cr_expect(is_event(sink.count - 1, TRAIL_LOST));
}

Test(soft_reader, an_id_that_means_nothing_is_a_loss)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_id(id + 1);
	write_id(id);
	thread_end();
	take();
	cr_assert_eq(sink.count, 2, "%s", sample_sink_text(&sink));
	cr_expect(is_block(0, 0) && is_event(1, TRAIL_LOST));
}

Test(soft_reader, the_sink_s_error_is_ours)
{
	uint32_t id = trace(0, 1);

	sink.fails_at = 3;
	thread_begin(0);
	for (int i = 0; i < 10; i++)
		write_id(id);
	thread_end();
	cr_expect_eq(soft_reader_take(&reader), -EIO);
	cr_expect_eq(sink.count, 3);
	cr_expect_eq(soft_reader_take(&reader), -EIO);
}

/* ---- the log's own errors ---- */

static void expect_refused(const char *what)
{
	cr_expect_eq(soft_reader_take(&reader), -EPROTO, "%s", what);
}

Test(soft_reader, a_log_of_more_than_there_is)
{
	head->log_put = LOG_BYTES + 8;
	expect_refused("more than the log holds");
}

Test(soft_reader, an_entry_of_no_size)
{
	struct engine_entry *entry = entry_begin(ENGINE_ENTRY_TRACE, 64);

	entry->bytes = 0;
	entry_end();
	expect_refused("0 bytes");
}

Test(soft_reader, an_entry_over_the_end)
{
	struct engine_entry *entry = entry_begin(ENGINE_ENTRY_TRACE, 64);

	entry->bytes = 72;
	entry_end();
	expect_refused("longer than what was put");
}

Test(soft_reader, an_entry_of_unknown_kind)
{
	entry_begin(77, 64);
	entry_end();
	expect_refused("kind 77");
}

Test(soft_reader, an_id_that_was_given_before)
{
	trace(0, 2);
	next_id = 2;
	trace(9, 1);
	expect_refused("id 2 again");
}

Test(soft_reader, an_id_far_beyond)
{
	next_id = 1u << 30;
	trace(0, 1);
	expect_refused("id 2^30");
}

Test(soft_reader, more_blocks_than_bytes)
{
	struct engine_trace *made = entry_begin(ENGINE_ENTRY_TRACE, 64);

	made->first_id = 1;
	made->blocks = 65535;
	made->exits = 1;
	entry_end();
	expect_refused("65535 blocks in 64 bytes");
}

Test(soft_reader, an_exit_behind_the_last_block)
{
	uint32_t bytes = (uint32_t)sizeof(struct engine_trace) + 34;
	uint8_t *at;

	trace(0, 1);
	at = channel.base + channel.log_at + bytes - 2;
	*at = 2;
	expect_refused("the path of 2 of 1 blocks");
}

Test(soft_reader, a_block_that_cannot_be)
{
	trace(0, 1);
	channel.base[channel.log_at + sizeof(struct engine_trace) +
		     offsetof(struct trail_entry, instructions)] = 0;
	expect_refused("no instruction");
}

Test(soft_reader, a_prefix_of_nothing)
{
	prefix(77, 1);
	expect_refused("of id 77");
}

Test(soft_reader, a_prefix_longer_than_its_trace)
{
	prefix(trace(0, 2), 3);
	expect_refused("3 of 2 blocks");
}

Test(soft_reader, a_module_whose_path_does_not_end)
{
	struct engine_module *made = entry_begin(ENGINE_ENTRY_MODULE, sizeof(*made) + 8);

	memset(made + 1, 'x', 8);
	entry_end();
	expect_refused("no end");
}

/* ---- overwritten ---- */

Test(soft_cyclic, the_newest_are_kept)
{
	uint32_t id = trace(0, 2);

	thread_begin(0);
	for (uint32_t i = 0; i < 10 * SEGMENT_WORDS; i++)
		write_id(i < 9 * SEGMENT_WORDS ? id : id + 1);
	take();
	cr_expect_eq(sink.count, 0, "nothing before its end");
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect(is_event(0, TRAIL_LOST));
	cr_expect(is_event(sink.count - 1, TRAIL_END));
	cr_expect_eq(reader.losses, 1);
	cr_expect_eq(reader.blocks, 2 * SEGMENT_WORDS + 2 * SEGMENT_WORDS);
}

Test(soft_cyclic, who_died_in_a_used_segment_is_read_to_the_last_mark)
{
	uint32_t id = trace(0, 2), last = 3 * ENGINE_MARK_WORDS;

	thread_begin(0);
	for (uint32_t i = 0; i < 6 * SEGMENT_WORDS + last + 5; i++)
		write_id(i < 6 * SEGMENT_WORDS ? id : id + 1);
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect(is_event(sink.count - 1, TRAIL_END));
	cr_expect(ENGINE_MARK_WORDS == 1 || is_event(sink.count - 2, TRAIL_LOST),
		  "what is of an earlier turn can't be told");
	cr_expect_eq(reader.blocks, 3 * SEGMENT_WORDS + 2 * (last + 1));
}

Test(soft_cyclic, who_died_in_a_fresh_segment_is_read_to_the_last_word)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	for (uint32_t i = 0; i < SEGMENT_WORDS + 45; i++)
		write_id(id);
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_expect_eq(reader.blocks, SEGMENT_WORDS + 45);
	cr_expect_eq(reader.losses, 0);
}

Test(soft_cyclic, who_died_as_he_began_a_segment_anew)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	for (uint32_t i = 0; i < SEGMENTS * SEGMENT_WORDS; i++)
		write_id(id);
	segment_end();
	soft_channel_words(&channel, 0, 0)[0] = 0; /* the first mark */
	cr_assert_eq(soft_reader_finish(&reader, &killed), 0);
	cr_expect(is_event(0, TRAIL_LOST));
	cr_expect_eq(reader.blocks, (SEGMENTS - 1) * SEGMENT_WORDS);
}

/* ---- hostile ---- */

static uint64_t random_state;

static uint32_t random_to(uint32_t end)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % end;
}

/* Something of what is not content: heads, the log, slots; or words. */
static void bend(void)
{
	static const uint32_t values[] = { 0,	       1,	   2,	       0x7fffffff,
					   0x80000000, 0xffffffff, 0x80080009, 0x800800ff,
					   4096,       1024 };
	uint64_t at = random_to(3)
			      ? random_to((uint32_t)channel.rings_at)
			      : channel.rings_at +
					random_to((uint32_t)(channel.bytes - channel.rings_at));
	uint32_t value = random_to(2) ? values[random_to(10)] : random_to(UINT32_MAX);

	at &= ~UINT64_C(3);
	if (at == offsetof(struct engine_channel, tool))
		return;
	memcpy(channel.base + at, &value, sizeof(value));
}

static void bend_somewhere(void)
{
	static const size_t fields[] = { offsetof(struct engine_segment, number),
					 offsetof(struct engine_segment, words),
					 offsetof(struct engine_segment, ended_ticks) };
	struct engine_slot *slot = soft_channel_slot(&channel, random_to(SLOTS));

	bend();
	if (!random_to(4))
		slot->state = random_to(5);
	if (!random_to(4)) {
		uint32_t value = random_to(2) ? random_to(9) : random_to(UINT32_MAX);

		memcpy((char *)&slot->segments[random_to(SEGMENTS)] + fields[random_to(3)], &value,
		       sizeof(value));
	}
	if (!random_to(8))
		head->log_put += random_to(3) * 8;
}

static void torture(enum engine_policy policy, uint64_t seed)
{
	uint32_t id;

	random_state = seed;
	open_with(policy);
	id = trace(0, 5);
	prefix(id, 4);
	thread_begin(0);
	for (uint32_t i = 0; i < 3 * SEGMENT_WORDS; i++) {
		write_id(id + i % 6);
		if (!(i % 100))
			write_event(TRAIL_SYSCALLED, 0, 1);
	}
	for (int i = 0; i < 20; i++) {
		for (uint32_t n = random_to(30); n; n--)
			bend_somewhere();
		soft_reader_take(&reader);
	}
	soft_reader_finish(&reader, random_to(2) ? &killed : NULL);
	end();
}

Test(soft_hostile, no_channel_does_us_harm, .timeout = 120)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		torture(ENGINE_BLOCK, seed);
		torture(ENGINE_CYCLIC, seed);
		torture(ENGINE_DISCARD, seed);
	}
}

/* ---- the channel ---- */

Test(soft_reader, sizes_that_can_not_be)
{
	static const struct soft_sizes sizes[] = {
		{ 0, 4, 4096, 4096, ENGINE_BLOCK },
		{ 4, 0, 4096, 4096, ENGINE_BLOCK },
		{ 4, ENGINE_SEGMENTS_MAX + 1, 4096, 4096, ENGINE_BLOCK },
		{ 4, 4, 4095, 4096, ENGINE_BLOCK },
		{ 4, 4, 4096, 0, ENGINE_BLOCK },
		{ UINT32_MAX, 64, UINT64_C(1) << 33, 4096, ENGINE_BLOCK },
	};
	struct soft_channel other;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_expect_eq(soft_channel_open(&other, &sizes[i]), -EINVAL, "%zu", i);
		soft_channel_close(&other);
	}
}

Test(soft_reader, sizes_for_all_that_may_be_asked)
{
	for (uint64_t bytes = 65536; bytes <= UINT64_C(64) << 30; bytes *= 4) {
		struct soft_sizes sizes = soft_sizes_for(bytes);
		struct soft_channel other;

		cr_expect_eq(soft_channel_open(&other, &sizes), 0, "%lu", (unsigned long)bytes);
		cr_expect_geq(sizes.segments * sizes.segment_bytes, bytes / 2);
		soft_channel_close(&other);
	}
}

Test(soft_reader, the_memory_can_not_be_made_smaller)
{
	cr_expect_eq(ftruncate(channel.fd, 0), -1);
	cr_expect_eq(errno, EPERM);
}

Test(soft_reader, who_holds_it_is_seen_to_die)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		soft_channel_hold(&channel);
		_exit((pid_t)head->tool == getpid() ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect(head->tool & FUTEX_OWNER_DIED);
	pid = fork();
	if (!pid) {
		soft_channel_hold(&channel);
		soft_channel_let_go(&channel);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(head->tool, 0);
}
