/* SPDX-License-Identifier: MIT */
/* Stores written to another sink: what arrives is what they had, and is whole. */
#include "record/trail/testing/store_fixture.h"
#include "record/trail/trace_sink.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <unistd.h>

TestSuite(store_written, .fini = end, .timeout = 120);

/* Into a second store, whose bound is not reached. */
Test(store_written, writes_itself_into_another_sink)
{
	static const struct control_module module = { .base = 0x1000 };
	struct trail_store *first, *second;

	begin_with(SMALL * 4, WM_POLICY_CYCLIC, 0);
	first = store;
	for (int i = 0; i < 20; i++)
		sink->calls->module(sink, &module, "/usr/lib/x86_64-linux-gnu/libexample.so.1");
	for (int i = 0; i < 3; i++)
		thread_begin(i);
	for (uint64_t i = 1; i <= 60000; i++) {
		block((int)(i % 3), i % 11 + 1);
		if (i % 100 == 0)
			event((int)(i % 3), TRAIL_FORK);
	}
	event(2, TRAIL_END);
	thread_end(2);
	check();
	begin_with(SMALL * 32, WM_POLICY_DISCARD, 0);
	second = store;
	cr_assert_eq(trail_store_write(first, sink), 0);
	check();
	for (int i = 0; i < 3; i++) {
		uint64_t copied = kept(i);

		store = first;
		cr_expect_eq(copied, kept(i));
		store = second;
	}
	trail_store_close(first);
}

/* A block of two instructions: only one of them runs, and an event such as a signal says so. */
static void half_a_block(uint64_t start)
{
	struct trail_entry entry = { .start = start,
				     .bytes = 2,
				     .last = 1,
				     .instructions = 2,
				     .kind = TRAIL_JUMP_INDIRECT };
	struct trail_between signal = { .event = TRAIL_SIGNAL, .at = start + 1, .left = 1 };

	sink->calls->block(sink, given[0].sink, &entry, (const uint8_t *)"\x90\x90", ++now);
	sink->calls->event(sink, given[0].sink, &signal, ++now);
	sink->calls->block(sink, given[0].sink,
			   &(struct trail_entry){ .start = start + 1,
						  .bytes = 1,
						  .instructions = 1,
						  .kind = TRAIL_JUMP_INDIRECT },
			   (const uint8_t *)"\x90", ++now);
}

static char folder[64];

/* Write now, and read the result. */
static void as_files(struct trace_reader **reader, struct trails *trails)
{
	struct trace_writer *writer;
	struct trail_files files;

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	cr_assert_eq(files.sink.calls->begin(&files.sink, getpid()), 0);
	cr_assert_eq(trail_store_write(store, &files.sink), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(reader, folder), 0);
	cr_assert_eq(trails_read(trails, *reader), 0);
}

static void as_files_end(struct trace_reader *reader, struct trails *trails)
{
	trails_release(trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
}

/* Read back what is written now: it is whole, and says what is missing. */
static void check_as_files(void)
{
	struct trail_store_status status;
	struct trace_reader *reader;
	struct trails trails;

	as_files(&reader, &trails);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	trail_store_status(store, &status);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(trails.paths[0].blocks, status.blocks);
	cr_assert_eq(trails.paths[0].parts[0].between.event, TRAIL_LOST);
	cr_assert_eq(trails.paths[0].parts[0].between.values[0], status.lost_blocks);
	as_files_end(reader, &trails);
}

/* A cut at the begin leaves no record that can't follow. */
Test(store_written, is_a_whole_trail_wherever_it_was_cut)
{
	/*
	 * 12 words each time, and one more now and then: chunks begin with each of the three
	 * records
	 */
	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	now = 1000000000;
	thread_begin(0);
	for (uint64_t i = 0; i < 2000; i++)
		half_a_block(100 + i % 5 * 10);
	for (uint64_t i = 0; i < 60; i++) {
		for (uint64_t j = 0; j < 45; j++)
			half_a_block(100 + j % 5 * 10);
		block(0, 7);
		check_as_files();
	}
}

static void module_is(const char *path, int is_gone)
{
	const struct control_module module = { .gone = (uint8_t)is_gone };

	cr_assert_eq(sink->calls->module(sink, &module, path), 0);
}

/*
 * One program executes another: what is written has each block beside the program that lay there
 * then.
 */
Test(store_written, tells_of_modules_when_they_came)
{
	const struct trail_table *tables[2];
	struct trace_reader *reader;
	struct trails trails;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	now = 1000000000;
	thread_begin(0);
	module_is("/bin/first", 0);
	block(0, 7);
	event(0, TRAIL_EXEC);
	module_is("/bin/first", 1);
	module_is("/bin/second", 0);
	block(0, 7);
	as_files(&reader, &trails);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(trails.paths[0].count, 3);
	tables[0] = trails.paths[0].parts[0].table;
	tables[1] = trails.paths[0].parts[2].table;
	cr_expect_eq(trails.paths[0].parts[1].table, tables[1], "an exec says where it continues");
	cr_expect_eq(tables[0]->era.from, 0);
	cr_expect_eq(tables[0]->era.to, 2);
	cr_expect_eq(tables[1]->era.from, 2);
	as_files_end(reader, &trails);
}

/* In a store of any size, a killed thread's values take no room of the newest blocks. */
Test(store_written, keeps_values_of_killed_thread_beside_blocks)
{
	struct trail_between value = { .event = TRAIL_VALUE };
	const struct trail_between end_of = {
		.at = 100, .left = 1, .event = TRAIL_END, .values = { TRAIL_KILLED, 11 }
	};
	struct trail_store_status before, after;
	struct trace_reader *reader;
	struct trails trails;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	now = 1000000000;
	thread_begin(0);
	for (uint64_t i = 0; i < 2000; i++)
		half_a_block(100 + i % 5 * 10);
	block_of(0, 100, 1);
	trail_store_status(store, &before);
	for (uint64_t i = 0; i < TRAIL_VALUES; i++) {
		value.values[0] = i;
		value.values[1] = i * 3;
		sink->calls->event(sink, given[0].sink, &value, ++now);
	}
	sink->calls->event(sink, given[0].sink, &end_of, ++now);
	trail_store_status(store, &after);
	cr_expect_eq(after.blocks, before.blocks);
	as_files(&reader, &trails);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	cr_assert(trails.path_count == 1 && trails.paths[0].values);
	for (uint64_t i = 0; i < TRAIL_VALUES; i++)
		cr_expect(trails.paths[0].values->has[i] && trails.paths[0].values->of[i] == i * 3);
	as_files_end(reader, &trails);
}
