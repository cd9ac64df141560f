/* SPDX-License-Identifier: MIT */
/*
 * Trails that continue in another space: after a table grew too large, and after a module replaced
 * another.
 */
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

#define TID 101u
#define STEP 16u /* from one block to the next */

static struct sample_trail sample;
static struct trace_reader *reader;
static struct trails trails;

static void begin(void)
{
	sample_trail_begin(&sample);
}

static void end(void)
{
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_trail_remove(&sample);
}

TestSuite(spaces, .init = begin, .fini = end);

static void ran_in(struct trail_thread *thread, uint64_t start, uint8_t code)
{
	struct trail_entry entry = {
		.start = start, .bytes = 1, .instructions = 1, .kind = TRAIL_RETURN
	};

	cr_assert_eq(trail_thread_block(&sample.trail, thread, &entry, &code, ++sample.now), 0);
}

static void ran(uint64_t start)
{
	ran_in(&sample.thread, start, 0xc3);
}

static void open_trace(void)
{
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
}

static void read_back(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	open_trace();
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
}

/* All of a path's blocks, in order. */
static const struct trail_table *expect_starts(const struct trail_path *path, uint64_t first,
					       uint64_t count, uint64_t again)
{
	struct trail_cursor cursor = { .path = path };
	struct trail_item item = { 0 };

	cr_assert_eq(path->blocks, count);
	for (uint64_t i = 0; i < count; i++) {
		cr_assert(trail_next(&cursor, &item));
		cr_assert_eq(item.block->start, first + i % again * STEP, "block %lu", i);
		cr_assert_eq(item.table, &trails.spaces[item.table->number].table);
	}
	return item.table;
}

Test(spaces, are_begun_anew_where_a_table_is_too_large)
{
	sample.trail.table_bytes_max = 100000;
	sample_trail_thread(&sample, TID, "name");
	for (uint64_t i = 0; i < 50000; i++)
		ran(0x1000 + i * STEP);
	cr_expect_leq(sample.trail.now.table.code_room + sample.trail.now.table.room * 32, 200000u);
	read_back();
	cr_expect_gt(trails.space_count, 10u);
	expect_starts(&trails.paths[0], 0x1000, 50000, UINT64_MAX);
	cr_expect_eq(trails.spaces[0].table.era.number, 0, "no module came: it is one time");
}

/* Definitions have no room; the blocks that follow them would have. */
Test(spaces, writer_without_room_writes_no_undefined_block)
{
	struct trail_entry entry = { .bytes = 1, .instructions = 1, .kind = TRAIL_RETURN };
	struct rlimit limit = { .rlim_cur = 65536 + 1000, .rlim_max = RLIM_INFINITY };
	uint64_t count = 0;
	int err = 0;

	signal(SIGXFSZ, SIG_IGN);
	sample_trail_thread(&sample, TID, "name");
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (; !err; count++) {
		entry.start = 0x1000 + count * STEP;
		err = trail_thread_block(&sample.trail, &sample.thread, &entry,
					 (const uint8_t *)"\xc3", ++sample.now);
	}
	cr_expect_eq(err, -WM_E_TRACE_FULL);
	cr_expect_eq(trail_thread_end(&sample.trail, &sample.thread, ++sample.now),
		     -WM_E_TRACE_FULL);
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_lt(sample.trail.blocks_written, count);
	count = sample.trail.blocks_written;
	sample_trail_close(&sample);
	open_trace();
	cr_expect_eq(reader->damages_ever, 0);
	cr_expect_eq(reader->write_error, EFBIG);
	cr_expect_eq(trails.path_count ? trails.paths[0].blocks : 0, count);
}

Test(spaces, are_not_begun_where_the_same_code_runs_on)
{
	sample.trail.table_bytes_max = 100000;
	sample_trail_thread(&sample, TID, "name");
	for (uint64_t i = 0; i < 50000; i++)
		ran(0x1000 + i % 400 * STEP);
	read_back();
	cr_expect_eq(trails.space_count, 1u);
	expect_starts(&trails.paths[0], 0x1000, 50000, 400);
}

/* What the quiet thread has not written yet is of the space that was then. */
Test(spaces, are_each_thread_s_own_affair)
{
	struct trail_thread quiet;
	const struct trail_path *path;

	sample.trail.table_bytes_max = 100000;
	sample_trail_thread(&sample, TID, "name");
	cr_assert_eq(trail_thread_begin(&sample.trail, &quiet, TID + 1, "quiet", TRAIL_STEP,
					sample.now),
		     0);
	for (uint64_t i = 0; i < 50000; i++) {
		ran(0x1000 + i * STEP);
		if (i % 1000 == 0)
			ran_in(&quiet, 0x500000 + i / 1000 * STEP, 0x90);
	}
	cr_assert_eq(trail_thread_end(&sample.trail, &quiet, ++sample.now), 0);
	read_back();
	cr_assert_eq(trails.path_count, 2u);
	path = &trails.paths[1];
	expect_starts(path, 0x500000, 50, UINT64_MAX);
}

/* ---- modules ---- */

Test(spaces, tell_what_ran_before_a_module_took_another_one_s_place)
{
	const struct trail_table *tables[2];
	struct trail_cursor cursor;
	struct trail_item item;

	sample_trail_module(&sample, "/bin/one", 0, NULL, 0);
	sample_trail_thread(&sample, TID, "name");
	ran(0x401000);
	sample_trail_module_gone(&sample, "/bin/one", 0);
	ran(0x401000);
	sample_trail_module(&sample, "/bin/two", 0, NULL, 0);
	ran(0x401000);
	read_back();
	cr_assert_eq(trails.space_count, 2u);
	cursor = (struct trail_cursor){ .path = &trails.paths[0] };
	for (int i = 0; i < 3; i++) {
		cr_assert(trail_next(&cursor, &item));
		tables[i / 2] = item.table;
	}
	cr_expect_neq(tables[0]->era.number, tables[1]->era.number);
	cr_expect_eq(tables[0]->era.from, 0);
	cr_expect_eq(tables[0]->era.to, 2);
	cr_expect_eq(tables[1]->era.from, 2);
	cr_expect_eq(tables[1]->era.to, 0);
}

Test(spaces, are_not_begun_for_a_module_that_comes_back)
{
	sample_trail_module(&sample, "/lib/plugin.so", 0x7000, "id", 2);
	sample_trail_thread(&sample, TID, "name");
	for (int i = 0; i < 10; i++) {
		ran(0x7100);
		sample_trail_module_gone(&sample, "/lib/plugin.so", 0x7000);
		sample_trail_module(&sample, "/lib/plugin.so", 0x7000, "id", 2);
	}
	sample_trail_module(&sample, "/lib/other.so", 0x9000, "no", 2);
	ran(0x9100);
	read_back();
	cr_expect_eq(trails.space_count, 1u);
}

Test(spaces, are_begun_for_another_build_of_the_same_path)
{
	sample_trail_module(&sample, "/lib/plugin.so", 0x7000, "id", 2);
	sample_trail_thread(&sample, TID, "name");
	ran(0x7100);
	sample_trail_module_gone(&sample, "/lib/plugin.so", 0x7000);
	sample_trail_module(&sample, "/lib/plugin.so", 0x7000, "it", 2);
	ran(0x7100);
	read_back();
	cr_expect_eq(trails.space_count, 2u);
}

/* Two modules change places for ever: their epochs are resumed. */
Test(spaces, are_resumed_where_the_same_modules_are_there_again)
{
	struct trail_cursor cursor;
	struct trail_item item;

	sample_trail_module(&sample, "/bin/host", 0x1000, NULL, 0);
	sample_trail_thread(&sample, TID, "name");
	for (int i = 0; i < 6000; i++) {
		const char *path = i % 2 ? "/lib/a.so" : "/lib/b.so";

		sample_trail_module(&sample, path, 0x7000, NULL, 0);
		ran(0x7000);
		sample_trail_module_gone(&sample, path, 0x7000);
	}
	read_back();
	cr_expect_eq(trails.space_count, 2u);
	cursor = (struct trail_cursor){ .path = &trails.paths[0] };
	for (uint32_t i = 0; i < 6000; i++) {
		cr_assert(trail_next(&cursor, &item));
		cr_assert_eq(item.table->era.from, i % 2 ? 3 : 0);
		cr_assert_eq(item.table->era.to, i % 2 ? 5 : 3);
	}
}

/* A module that comes when an epoch has been resumed is not of that epoch. */
Test(spaces, resumed_do_not_grow)
{
	struct trail_cursor cursor;
	struct trail_item item;
	uint32_t from[3];

	sample_trail_module(&sample, "/lib/a.so", 0x7000, NULL, 0);
	sample_trail_thread(&sample, TID, "name");
	ran(0x7000);
	sample_trail_module_gone(&sample, "/lib/a.so", 0x7000);
	sample_trail_module(&sample, "/lib/b.so", 0x7000, NULL, 0);
	sample_trail_module_gone(&sample, "/lib/b.so", 0x7000);
	sample_trail_module(&sample, "/lib/a.so", 0x7000, NULL, 0);
	ran(0x7000);
	sample_trail_module(&sample, "/lib/c.so", 0x9000, NULL, 0);
	ran(0x9000);
	read_back();
	cursor = (struct trail_cursor){ .path = &trails.paths[0] };
	for (int i = 0; i < 3; i++) {
		cr_assert(trail_next(&cursor, &item));
		from[i] = item.table->era.from;
	}
	cr_expect_eq(from[0], 0);
	cr_expect_eq(from[1], 0);
	cr_expect_eq(from[2], 5);
}

/* An origin that is drained late names the epoch of each block. */
Test(spaces, are_of_the_epoch_that_a_thread_names)
{
	static const uint32_t names[] = { 0, 2, 0 };
	struct trail_cursor cursor;
	struct trail_item item;

	sample_trail_module(&sample, "/lib/a.so", 0x7000, NULL, 0);
	sample_trail_module_gone(&sample, "/lib/a.so", 0x7000);
	sample_trail_module(&sample, "/lib/b.so", 0x7000, NULL, 0);
	sample_trail_thread(&sample, TID, "name");
	for (int i = 0; i < 3; i++) {
		trail_thread_since(&sample.thread, names[i]);
		ran(0x7000);
	}
	read_back();
	cr_expect_eq(trails.space_count, 2u);
	cursor = (struct trail_cursor){ .path = &trails.paths[0] };
	for (int i = 0; i < 3; i++) {
		cr_assert(trail_next(&cursor, &item));
		cr_expect_eq(item.table->era.from, names[i]);
	}
}

/* A program that loads another module each time. */
Test(spaces, are_not_begun_for_ever)
{
	char path[64];

	sample_trail_thread(&sample, TID, "name");
	for (int i = 0; i < 6000; i++) {
		snprintf(path, sizeof(path), "/lib/%d.so", i);
		sample_trail_module(&sample, path, 0x7000, NULL, 0);
		ran(0x7000);
		sample_trail_module_gone(&sample, path, 0x7000);
	}
	read_back();
	cr_expect_eq(trails.space_count, MODULE_EPOCHS_MAX);
	expect_starts(&trails.paths[0], 0x7000, 6000, 1);
}

/* ---- threads that the trace lists ---- */

/* So that only the trails themselves list their threads. */
static void forget_index(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/.index", sample.folder);
	cr_assert_eq(unlink(path), 0);
}

Test(spaces, know_which_threads_have_a_trail)
{
	const struct trail_thread_entry *threads;
	char path[512] = "";

	sample_trail_thread(&sample, TID, "name");
	ran(0x1000);
	ran(0x1010);
	sample_trail_thread_end(&sample);
	sample_trail_thread(&sample, TID + 1, "other");
	ran(0x1000);
	read_back();
	cr_assert_eq(trails.threads.count, 2u);
	threads = trail_threads_find(&trails.threads, trails.paths[0].stream->process, TID);
	cr_assert_not_null(threads);
	cr_expect_eq(threads->blocks, 2);
	cr_expect_eq(threads->over, 1);
	cr_expect_not(threads->is_missing);
	cr_expect_null(
		trail_threads_find(&trails.threads, trails.paths[0].stream->process, TID + 2));

	snprintf(path, sizeof(path), "%s/%s", sample.folder, trails.paths[0].stream->file);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	cr_assert_eq(unlink(path), 0);
	forget_index();
	open_trace();
	cr_assert_eq(trails.path_count, 1u);
	cr_assert_eq(trails.threads.count, 2u);
	cr_expect(trails.threads.all[0].is_missing);
	cr_expect_not(trails.threads.all[1].is_missing);
	cr_assert_eq(reader->damages_ever, 1);
	cr_expect_str_eq(reader->damages[0].what, "a thread's trail that it lists is not there");
}

/* A thread's id was used twice, and the second's file is gone. */
Test(spaces, know_how_many_blocks_a_thread_s_trails_have)
{
	char path[512] = "";

	for (int i = 0; i < 2; i++) {
		if (i)
			sample_trail_thread_end(&sample);
		sample_trail_thread(&sample, TID, "name");
		ran(0x1000);
	}
	read_back();
	cr_assert_eq(trails.path_count, 1u);
	cr_assert_eq(trails.paths[0].blocks, 2);
	snprintf(path, sizeof(path), "%s/%s", sample.folder, (trails.paths[0].stream + 1)->file);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	cr_assert_eq(unlink(path), 0);
	forget_index();
	open_trace();
	cr_assert_eq(trails.paths[0].blocks, 1);
	cr_assert_eq(reader->damages_ever, 1);
	cr_expect_str_eq(reader->damages[0].what, "blocks are missing that it had once");
}
