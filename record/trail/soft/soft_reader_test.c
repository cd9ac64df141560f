/* SPDX-License-Identifier: MIT */
/* Channels filled as an engine would. */
#include "record/trail/testing/soft_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

TestSuite(soft_reader, .init = blocking, .fini = end, .timeout = 60);
TestSuite(soft_cyclic, .init = cyclic, .fini = end, .timeout = 60);

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
	cr_expect_eq(reader.words_put, 3);
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
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
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
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
	cr_expect_eq(sink.count, 2, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_END));
}

Test(soft_reader, who_is_killed_ended_where_the_signal_came)
{
	const struct trail_between by_11 = { .event = TRAIL_END, .values = { TRAIL_KILLED, 11 } };
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_event(TRAIL_SIGNAL, START, 20); /* it only stopped it */
	write_id(id);
	write_event(TRAIL_SIGNAL, START, 11);
	cr_assert_eq(soft_reader_end(&reader, &by_11), 0);
	cr_assert_eq(sink.count, 4, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_SIGNAL) && is_event(3, TRAIL_END));
	cr_expect_eq(sink.items[3].between.at, START);
}

Test(soft_reader, who_executes_another_program_is_unrecorded_from_there_on)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	write_id(id);
	write_event(TRAIL_EXEC, 0, 0);
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
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
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
	cr_assert_eq(sink.count, 4, "%s", sample_sink_text(&sink));
	cr_expect(is_event(1, TRAIL_SYSCALLED) && is_block(2, 0) && is_event(3, TRAIL_END));
}

Test(soft_reader, nobody_knows_how_it_ended)
{
	thread_begin(0);
	write_id(trace(0, 1));
	cr_assert_eq(soft_reader_end(&reader, NULL), 0);
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

/* So many blocks came of so many words of one path, and nothing else. */
static void fetch_of(uint32_t id, uint32_t count)
{
	uint64_t blocks = reader.blocks;

	for (uint32_t i = 0; i < count; i++)
		write_id(id);
	cr_assert_eq(soft_reader_fetch(&reader), 0);
	cr_expect_eq(reader.blocks - blocks, 2 * count, "%u", count);
}

static void fetch_in_parts(void)
{
	uint32_t id = trace(0, 2) + 1;

	thread_begin(0);
	fetch_of(id, 10);
	fetch_of(id, 0);
	fetch_of(id, SEGMENT_WORDS - 20); /* to the segment's end, but 10 */
	fetch_of(id, 30);
	fetch_of(id, SEGMENT_WORDS + 40);
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(reader.losses, 0);
	cr_expect_eq(reader.blocks, 2 * (2 * SEGMENT_WORDS + 60), "and no word twice");
}

Test(soft_reader, fetch_in_parts_loses_nothing)
{
	fetch_in_parts();
}

Test(soft_cyclic, fetch_in_parts_loses_nothing)
{
	fetch_in_parts();
}

Test(soft_cyclic, fetch_after_more_than_a_ring_says_what_is_missing)
{
	uint32_t id = trace(0, 2) + 1;

	thread_begin(0);
	fetch_of(id, 10);
	for (uint32_t i = 0; i < 6 * SEGMENT_WORDS; i++)
		write_id(id);
	cr_assert_eq(soft_reader_fetch(&reader), 0);
	cr_expect_eq(reader.losses, 1);
	cr_expect_eq(reader.blocks, 2 * (10 + 3 * SEGMENT_WORDS + 10));
	cr_expect_eq(reader.overwritten, writer.blocks - reader.blocks);
	cr_expect(is_event(20, TRAIL_LOST));
	cr_expect_eq(sink.items[20].between.values[0], reader.overwritten);
	fetch_of(id, 5);
	cr_expect_eq(reader.losses, 1);
}

Test(soft_cyclic, fetches_count_no_overwritten_block_twice)
{
	uint32_t id = trace(0, 2) + 1;

	reader.newest_blocks = 100;
	thread_begin(0);
	for (uint32_t n = 0; n < 9; n++) {
		for (uint32_t i = 0; i < n * SEGMENT_WORDS + 70; i++)
			write_id(id);
		cr_assert_eq(soft_reader_fetch(&reader), 0);
		cr_expect_eq(reader.losses, n + 1);
		cr_expect_eq(reader.blocks, 100 * (n + 1));
		cr_expect_eq(reader.overwritten, writer.blocks - reader.blocks);
	}
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(reader.blocks + reader.overwritten, writer.blocks);
}

Test(soft_cyclic, fetch_leaves_an_exec_that_may_be_taken_back)
{
	uint32_t id = trace(0, 2) + 1, before;

	thread_begin(0);
	fetch_of(id, 10);
	before = writer.at;
	write_event(TRAIL_EXEC, START, 0);
	cr_assert_eq(soft_reader_fetch(&reader), 0);
	memset(words() + before, 0, (writer.at - before) * sizeof(uint32_t));
	writer.at = before;
	fetch_of(id, 3);
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_EXEC), 0);
	cr_expect_eq(reader.losses, 0);
}

Test(soft_cyclic, no_more_are_taken_than_are_wanted)
{
	uint32_t id = trace(0, 2);

	reader.newest_blocks = 201;
	thread_begin(0);
	for (uint32_t i = 0; i < SEGMENT_WORDS; i++)
		write_id(id);
	write_event(TRAIL_SYSCALLED, 0, 1);
	for (uint32_t i = 0; i < 150; i++)
		write_id(id + 1);
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(reader.blocks, 200, "the path that is half wanted is not taken");
	cr_expect_eq(reader.words_put, 100);
	cr_expect(is_event(0, TRAIL_LOST));
	cr_expect_eq(sink.count, 202, "of what was between older ones, nothing");
	cr_expect(is_event(sink.count - 1, TRAIL_END));
}

Test(soft_cyclic, counts_blocks_of_overwritten_segments)
{
	uint32_t id = trace(0, 2), words = 9 * SEGMENT_WORDS + 45;

	reader.newest_blocks = 201;
	thread_begin(0);
	for (uint32_t i = 0; i < words; i++)
		write_id(id + i % 2);
	write_event(TRAIL_END, 0, TRAIL_EXITED);
	thread_end();
	take();
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(reader.blocks, 201);
	cr_expect_eq(reader.overwritten, writer.blocks - 201);
	cr_expect(is_event(0, TRAIL_LOST));
	cr_expect_eq(sink.items[0].between.values[0], writer.blocks - 201);
}

Test(soft_cyclic, who_died_in_a_used_segment_is_read_to_the_last_word)
{
	uint32_t id = trace(0, 2), last = 101;

	thread_begin(0);
	for (uint32_t i = 0; i < 6 * SEGMENT_WORDS + last; i++)
		write_id(i < 6 * SEGMENT_WORDS ? id : id + 1);
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	cr_expect(is_event(sink.count - 1, TRAIL_END));
	cr_expect(!is_event(sink.count - 2, TRAIL_LOST));
	cr_expect_eq(reader.blocks, 3 * SEGMENT_WORDS + 2 * last);
}

Test(soft_cyclic, who_died_in_a_fresh_segment_is_read_to_the_last_word)
{
	uint32_t id = trace(0, 1);

	thread_begin(0);
	for (uint32_t i = 0; i < SEGMENT_WORDS + 45; i++)
		write_id(id);
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
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
	cr_assert_eq(soft_reader_end(&reader, &killed), 0);
	cr_expect(is_event(0, TRAIL_LOST));
	cr_expect_eq(reader.blocks, (SEGMENTS - 1) * SEGMENT_WORDS);
}
