/* SPDX-License-Identifier: MIT */
/* Trails as they are written and read again; what is damaged on purpose. */
#include "trace/testing/packets.h"
#include "trace/trail/event.h"
#include "trace/trail/path.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TID 101

/* A loop of two blocks that calls a function, and the way out. */
enum { HEAD, CALLS, CALLEE, TAIL, LEAVES, BLOCKS };

static const struct trail_entry entries[BLOCKS] = {
	[HEAD] = { .start = 0x1000,
		   .target = 0x1040,
		   .bytes = 8,
		   .last = 6,
		   .instructions = 3,
		   .kind = TRAIL_BRANCH },
	[CALLS] = { .start = 0x1008,
		    .target = 0x2000,
		    .bytes = 5,
		    .last = 0,
		    .instructions = 1,
		    .kind = TRAIL_CALL },
	[CALLEE] = { .start = 0x2000,
		     .bytes = 4,
		     .last = 3,
		     .instructions = 2,
		     .kind = TRAIL_RETURN },
	[TAIL] = { .start = 0x100d,
		   .target = 0x1000,
		   .bytes = 2,
		   .last = 0,
		   .instructions = 1,
		   .kind = TRAIL_JUMP },
	[LEAVES] = { .start = 0x1040,
		     .bytes = 4,
		     .last = 2,
		     .instructions = 2,
		     .kind = TRAIL_SYSCALL },
};
static const uint8_t code[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static struct sample_trail sample;
static struct trace_reader *reader;
static struct trails trails;

static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, TID, "name");
}

static void ran(int which)
{
	sample_trail_ran(&sample, &entries[which], code);
}

static void event(enum trail_event kind, uint64_t at, uint32_t left, uint64_t first,
		  uint64_t second)
{
	sample_trail_event(&sample, kind, at, left, first, second);
}

/* Close and read the written trace. */
static struct trail_path *read_back(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	return trails.path_count ? &trails.paths[0] : NULL;
}

static void end(void)
{
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_trail_remove(&sample);
}

TestSuite(path, .init = begin, .fini = end);

/* An impossible block is refused, and does not affect those that follow. */
Test(path, has_nothing_of_a_block_that_was_refused)
{
	struct trail_entry none = entries[HEAD];
	struct trail_path *path;

	none.instructions = 0;
	ran(HEAD);
	cr_assert_eq(trail_thread_block(&sample.trail, &sample.thread, &none, code, ++sample.now),
		     -EINVAL);
	ran(LEAVES);
	path = read_back();
	cr_assert_not_null(path);
	cr_expect_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	cr_expect_eq(path->blocks, 2);
}

Test(path, is_read_as_it_was_written_however_long)
{
	static const int turn[] = { HEAD, CALLS, CALLEE, TAIL };
	enum { TURNS = 30000 };
	struct trail_cursor cursor;
	struct trail_item item;
	struct trail_path *path;
	uint64_t count = 0;

	for (int i = 0; i < TURNS; i++)
		for (int j = 0; j < 4; j++)
			ran(turn[j]);
	ran(HEAD);
	ran(LEAVES);
	event(TRAIL_END, 0, 0, TRAIL_EXITED, 3);
	path = read_back();
	cr_assert_not_null(path);
	cr_expect_null(path->damage, "%s", path->damage);
	cr_expect_eq(reader->damages_ever, 0);
	cr_expect_eq(path->blocks, TURNS * 4 + 2);
	cr_expect_eq(path->stream->tid, TID);
	cr_expect_eq(path->origin, TRAIL_STEP);
	cr_expect_eq(trails.spaces[0].table.count, BLOCKS);

	cursor = (struct trail_cursor){ .path = path };
	while (trail_next(&cursor, &item) && item.block) {
		int which = count < TURNS * 4	 ? turn[count % 4]
			    : count == TURNS * 4 ? HEAD
						 : LEAVES;

		cr_assert_eq(item.index, count);
		cr_assert_eq(item.block->start, entries[which].start, "block %lu", count);
		cr_assert_eq(item.block->kind, entries[which].kind);
		cr_assert_eq(item.ran, entries[which].instructions);
		cr_assert_arr_eq(trail_table_code(item.table, item.block), code, item.block->bytes);
		count++;
	}
	cr_expect_eq(count, path->blocks);
	cr_assert_not_null(item.between);
	cr_expect_eq(item.between->event, TRAIL_END);
	cr_expect_eq(item.between->values[1], 3);
	cr_expect_eq(trail_next(&cursor, &item), 0);
}

/* A small file can't make its reader take gigabytes: each space with an id far out. */
Test(path, of_many_spaces_takes_memory_for_what_they_define)
{
	enum { SPACES = 4096, TOGETHER = 500, FAR_OUT = 4000 };
	struct sample packet = {
		.head = { .pid = SAMPLE_TRAIL_PID, .tid = TRAIL_TABLE_TID, .instance = 2000 }
	};
	uint64_t bytes = 0;

	ran(HEAD);
	sample_begin(&packet, sample.now);
	for (uint32_t i = 1; i <= SPACES; i++) {
		sample_event(&packet, SAMPLE_TRAIL_FIRST_CLASS + TRAIL_CLASS_DEFINE, sample.now, 1);
		sample_u32(&packet, i);
		sample_u32(&packet, FAR_OUT);
		sample_run(&packet, &entries[CALLS], sizeof(entries[CALLS]));
		if (i % TOGETHER && i < SPACES)
			continue;
		cr_assert_eq(sample_write(&packet, sample.writer, sample.process), 0);
		sample_begin(&packet, sample.now);
	}
	sample_release(&packet);
	cr_assert_not_null(read_back());
	for (size_t i = 0; i < trails.space_count; i++)
		bytes += trails.spaces[i].table.room * sizeof(struct trail_block);
	cr_expect_lt(bytes, 64u << 20, "%lu", bytes);
	cr_expect_gt(reader->damages_ever, 0);
	cr_expect_not_null(trail_table_block(&trails.spaces[10].table, FAR_OUT), "one may");
}

Test(path, is_walked_back_as_forward_from_anywhere)
{
	struct trail_cursor cursor;
	struct trail_item items[32], item;
	struct trail_path *path;
	int count = 0;

	ran(HEAD);
	ran(CALLS);
	event(TRAIL_DEPART, 0x2000, 0, 0, 0);
	event(TRAIL_ARRIVE, 0x2000, 0, 0, 0);
	ran(CALLEE);
	ran(TAIL);
	ran(HEAD);
	ran(LEAVES);
	event(TRAIL_SYSCALLED, 0x1044, 0, 39, SAMPLE_TRAIL_PID);
	event(TRAIL_END, 0, 0, TRAIL_DETACHED, 0);
	path = read_back();
	cr_assert_null(path->damage, "%s", path->damage);
	cursor = (struct trail_cursor){ .path = path };
	while (trail_next(&cursor, &items[count]))
		count++;
	cr_assert_eq(count, 10);
	trail_seek_end(&cursor);
	for (int i = count - 1; i >= 0; i--) {
		cr_assert(trail_previous(&cursor, &item));
		cr_expect_eq(item.block, items[i].block, "item %d", i);
		cr_expect_eq(item.between, items[i].between, "item %d", i);
		cr_expect_eq(item.index, items[i].index, "item %d", i);
	}
	cr_expect_eq(trail_previous(&cursor, &item), 0);
	for (uint64_t index = 0; index < path->blocks; index++) {
		trail_seek(&cursor, index);
		cr_assert(trail_next(&cursor, &item));
		cr_assert_not_null(item.block, "block %lu", index);
		cr_expect_eq(item.index, index);
	}
	trail_seek(&cursor, path->blocks);
	cr_expect_eq(trail_next(&cursor, &item), 0);
}

Test(path, says_how_much_of_a_block_ran_before_a_signal)
{
	struct trail_cursor cursor = { 0 };
	struct trail_item item;
	struct trail_path *path;

	ran(HEAD);
	event(TRAIL_SIGNAL, 0x1006, 1, 10, 0x2000);
	ran(CALLEE);
	path = read_back();
	cr_assert_null(path->damage, "%s", path->damage);
	cursor.path = path;
	cr_assert(trail_next(&cursor, &item));
	cr_expect_eq(item.ran, 2);
	cr_assert(trail_next(&cursor, &item));
	cr_expect_eq(item.between->values[0], 10);
	cr_assert(trail_next(&cursor, &item));
	cr_expect_eq(item.block->start, 0x2000);
	cr_expect_eq(item.ran, 2);
}

/* How many blocks are read of what breaks a rule, and what is said. */
static void breaks(uint64_t blocks, const char *why)
{
	struct trail_path *path = read_back();

	cr_assert_not_null(path->damage, "no damage");
	cr_expect_str_eq(path->damage, why);
	cr_expect_eq(path->blocks, blocks);
	cr_expect_eq(reader->damages_ever, 1);
}

Test(path, ends_before_a_block_that_cannot_follow)
{
	ran(HEAD);
	ran(CALLS);
	ran(TAIL);
	breaks(2, "a block that can't follow the one before");
}

Test(path, ends_before_a_block_that_is_not_where_an_event_said)
{
	ran(HEAD);
	event(TRAIL_GAP, 0x2000, 0, 0, 0);
	ran(CALLS);
	breaks(1, "a block that can't follow the one before");
}

Test(path, ends_before_an_event_elsewhere)
{
	ran(HEAD);
	event(TRAIL_DEPART, 0x3000, 0, 0, 0);
	breaks(1, "an event at a place that the thread was not at");
}

Test(path, ends_before_an_event_with_more_left_than_there_is)
{
	ran(HEAD);
	event(TRAIL_DEPART, 0x1000, 4, 0, 0);
	breaks(1, "an event that leaves more of a block than there is");
}

Test(path, ends_before_a_gap_with_more_left_than_there_is)
{
	ran(HEAD);
	event(TRAIL_GAP, 0x1000, 40000, 0, 0);
	breaks(1, "an event that leaves more of a block than there is");
}

Test(path, ends_before_an_event_with_something_left_of_nothing)
{
	ran(HEAD);
	event(TRAIL_LOST, 0, 0, 0, 0);
	event(TRAIL_ARRIVE, 0x1000, 1, 0, 0);
	breaks(1, "an event that leaves more of a block than there is");
}

Test(path, ends_before_a_return_from_no_system_call)
{
	ran(HEAD);
	event(TRAIL_SYSCALLED, 0x1008, 0, 1, 1);
	breaks(1, "a return from a system call that was not made");
}

Test(path, has_nothing_after_its_end)
{
	ran(HEAD);
	event(TRAIL_END, 0, 0, TRAIL_EXITED, 0);
	ran(CALLS);
	breaks(1, "blocks after a trail's end");
}

Test(path, goes_on_anywhere_after_a_loss)
{
	struct trail_path *path;

	ran(HEAD);
	event(TRAIL_LOST, 0, 0, 17, 0);
	ran(TAIL);
	path = read_back();
	cr_expect_null(path->damage, "%s", path->damage);
	cr_expect_eq(path->blocks, 2);
}

Test(path, has_a_loss_where_the_store_lost_events)
{
	struct trail_cursor cursor = { 0 };
	struct trail_item item;
	struct trail_path *path;

	ran(HEAD);
	cr_assert_eq(trail_thread_flush(&sample.trail, &sample.thread, sample.now), 0);
	sample.thread.packet.head.discarded = 7;
	ran(TAIL);
	path = read_back();
	cr_assert_null(path->damage, "%s", path->damage);
	cursor.path = path;
	cr_assert(trail_next(&cursor, &item) && item.block);
	cr_assert(trail_next(&cursor, &item) && item.between);
	cr_expect_eq(item.between->event, TRAIL_LOST);
	cr_assert(trail_next(&cursor, &item) && item.block);
	cr_expect_eq(item.block->start, 0x100d);
}

/* The file of a stream that is not the table's, or the table's. */
static void stream_file(int is_table, char path[512])
{
	for (uint32_t i = 0; i < reader->stream_count; i++)
		if ((reader->streams[i].tid == TRAIL_TABLE_TID) == is_table)
			snprintf(path, 512, "%s/%s", sample.folder, reader->streams[i].file);
}

/* Whatever the trail says now, all of it can be walked, and what is walked obeys the rule. */
static void walk_all(void)
{
	for (size_t i = 0; i < trails.path_count; i++) {
		struct trail_cursor cursor = { .path = &trails.paths[i] };
		const struct trail_block *before = NULL;
		struct trail_item item;
		uint64_t blocks = 0;

		while (trail_next(&cursor, &item)) {
			blocks += !!item.block;
			if (item.block && before)
				cr_assert(trail_block_leads(before, item.block->start));
			before = item.block;
		}
		cr_assert_eq(blocks, trails.paths[i].blocks);
		while (trail_previous(&cursor, &item))
			blocks -= !!item.block;
		cr_assert_eq(blocks, 0);
	}
}

static void open_again(void)
{
	if (!trace_reader_open(&reader, sample.folder)) {
		cr_assert_eq(trails_read(&trails, reader), 0);
		walk_all();
		trails_release(&trails, reader);
	}
	trace_reader_close(reader);
	reader = NULL;
}

static void damage_each_byte(const char *path)
{
	FILE *file = fopen(path, "r+b");
	long bytes;

	cr_assert_not_null(file);
	fseek(file, 0, SEEK_END);
	bytes = ftell(file);
	for (long at = 0; at < bytes; at++) {
		static const int flips[] = { 0x01, 0x80, 0xff };
		int whole;

		fseek(file, at, SEEK_SET);
		whole = getc(file);
		for (int i = 0; i < 3; i++) {
			fseek(file, at, SEEK_SET);
			putc(whole ^ flips[i], file);
			fflush(file);
			open_again();
		}
		fseek(file, at, SEEK_SET);
		putc(whole, file);
		fflush(file);
	}
	for (long at = bytes - 1; at >= 0; at -= 7) {
		cr_assert_eq(ftruncate(fileno(file), at), 0);
		open_again();
	}
	fclose(file);
}

static void write_some(void)
{
	for (int i = 0; i < 8; i++) {
		ran(HEAD);
		ran(CALLS);
		ran(CALLEE);
		ran(TAIL);
	}
	ran(HEAD);
	event(TRAIL_DEPART, 0x1040, 0, 0, 0);
	event(TRAIL_ARRIVE, 0x1040, 0, 0, 0);
	ran(LEAVES);
	event(TRAIL_SYSCALLED, 0x1044, 0, 60, 0);
	event(TRAIL_END, 0, 0, TRAIL_EXITED, 3);
}

/* One of the two files is spoilt byte by byte, then cut shorter and shorter. */
static void damage(int is_table)
{
	char path[512] = "";

	write_some();
	cr_assert_not_null(read_back());
	stream_file(is_table, path);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	damage_each_byte(path);
	/* for end() */
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
}

Test(path, never_lies_about_what_follows_whatever_byte_of_it_is_damaged, .timeout = 120)
{
	damage(0);
}

Test(path, never_lies_about_what_follows_whatever_byte_of_its_blocks_is_damaged, .timeout = 120)
{
	damage(1);
}

/* A killed thread's values are beside its path, not items of it. The reader skips unknown ids. */
Test(path, read_keeps_values_of_killed_thread)
{
	struct trail_path *path;

	ran(0);
	event(TRAIL_VALUE, 0, 0, TRAIL_VALUE_RIP, 0x1003);
	event(TRAIL_VALUE, 0, 0, TRAIL_VALUE_STACK, 0);
	event(TRAIL_VALUE, 0, 0, TRAIL_VALUES, 1);
	event(TRAIL_END, entries[0].start, entries[0].instructions, TRAIL_KILLED, 11);
	path = read_back();
	cr_assert(path && path->values && !path->damage);
	cr_assert_eq(path->count, 2u);
	cr_assert(path->values->has[TRAIL_VALUE_RIP] && path->values->has[TRAIL_VALUE_STACK]);
	cr_assert(!path->values->has[TRAIL_VALUE_REGISTERS]);
	cr_assert_eq(path->values->of[TRAIL_VALUE_RIP], 0x1003u);
}

/* Blocks behind them: no signal killed the thread there. */
Test(path, read_drops_values_before_blocks)
{
	struct trail_path *path;

	event(TRAIL_VALUE, 0, 0, TRAIL_VALUE_RIP, 0x1003);
	ran(0);
	path = read_back();
	cr_assert(path && path->count && !path->values);
}
