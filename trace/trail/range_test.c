/* SPDX-License-Identifier: MIT */
/* Stretches of a path: between times, events, indexes; the last so many. */
#include "trace/trail/range.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#define TID 101

/* Blocks of one instruction; each leads to the next or to itself. */
static const struct trail_entry loop = {
	.start = 0x1000, .target = 0x1000, .bytes = 2, .instructions = 1, .kind = TRAIL_BRANCH
};

static struct sample_trail sample;
static struct trace_reader *reader;
static struct trails trails;

/*
 * Ten blocks and an event, four times over: part i, of even number, has blocks 5i to 5i + 9 and is
 * as late as the event that follows, at tick 11, 22, 33, 44 of the trail.
 */
static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_marker(&sample, (uint64_t[]){ 1015, 1030 }, 2);
	sample_trail_thread(&sample, TID, "loops");
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < 10; j++)
			sample_trail_ran(&sample, &loop, "\x74\xfe");
		sample_trail_event(&sample, TRAIL_DEPART, 0x1000, 0, 0, 0);
	}
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(trails.paths[0].count, 8);
	cr_assert_eq(reader->damages_ever, 0);
}

static void end(void)
{
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_trail_remove(&sample);
}

TestSuite(range, .init = begin, .fini = end);

static uint64_t wall(uint64_t ticks)
{
	return trail_ns(reader, &trails.paths[0], ticks);
}

/* A range has blocks [first, end) and so many events; walking it says the same. */
static void has(struct trail_range *range, uint64_t first, uint64_t last, int events)
{
	struct trail_item item;
	uint64_t next = first;
	int seen = 0;

	cr_expect_eq(range->first, first, "first %lu, not %lu", range->first, first);
	cr_expect_eq(range->end, last, "end %lu, not %lu", range->end, last);
	while (trail_range_next(range, &item)) {
		if (item.block)
			cr_expect_eq(item.index, next++);
		else
			seen++;
	}
	cr_expect_eq(next, last, "walked to %lu, not %lu", next, last);
	cr_expect_eq(seen, events, "%d events, not %d", seen, events);
}

static struct trail_range between(enum trail_bound_kind kind, uint64_t from, uint64_t to)
{
	struct trail_range range;

	trail_range_init(&range, reader, &trails.paths[0], &(struct trail_bound){ kind, from },
			 &(struct trail_bound){ kind, to });
	return range;
}

Test(range, without_bounds_is_all)
{
	struct trail_range range = between(TRAIL_BOUND_NONE, 0, 0);

	has(&range, 0, 40, 4);
}

Test(range, between_indexes_is_exact)
{
	struct trail_range range = between(TRAIL_BOUND_BLOCK, 5, 12);

	has(&range, 5, 12, 1);
	range = between(TRAIL_BOUND_BLOCK, 10, 10);
	has(&range, 10, 10, 0);
	range = between(TRAIL_BOUND_BLOCK, 10, 20);
	has(&range, 10, 20, 1);
	range = between(TRAIL_BOUND_BLOCK, 35, 1000);
	has(&range, 35, 40, 1);
	range = between(TRAIL_BOUND_BLOCK, 1000, 2000);
	has(&range, 40, 40, 0);
}

Test(range, between_times_lacks_nothing_that_ran_then)
{
	/* the first blocks may have run as late as the first event, at 1011 */
	struct trail_range range = between(TRAIL_BOUND_NS, wall(1005), wall(1005));

	has(&range, 0, 10, 0);
	range = between(TRAIL_BOUND_NS, wall(1012), wall(1012));
	has(&range, 10, 20, 0);
	range = between(TRAIL_BOUND_NS, wall(1005), wall(1011));
	has(&range, 0, 20, 1);
	range = between(TRAIL_BOUND_NS, 0, UINT64_MAX);
	has(&range, 0, 40, 4);
}

Test(range, from_the_time_of_an_event_begins_with_it)
{
	struct trail_range range = between(TRAIL_BOUND_NS, wall(1022), wall(1022));

	has(&range, 20, 30, 1);
}

Test(range, whose_end_is_before_its_begin_is_empty)
{
	struct trail_range range = between(TRAIL_BOUND_NS, wall(1040), wall(1005));

	has(&range, 30, 30, 0);
	range = between(TRAIL_BOUND_BLOCK, 20, 10);
	has(&range, 20, 20, 0);
}

static int is_same(const struct trail_item *one, const struct trail_item *other)
{
	return one->block == other->block && one->index == other->index && one->ran == other->ran &&
	       one->ticks == other->ticks && !one->between == !other->between &&
	       (!one->between || one->between->event == other->between->event);
}

/* Cut out, a range is a path of the same items, and each place in it is one of the path. */
Test(range, cut_out_is_a_path_of_the_same_items)
{
	for (uint64_t from = 0; from <= 41; from++)
		for (uint64_t to = from; to <= 41; to++) {
			struct trail_range range = between(TRAIL_BOUND_BLOCK, from, to),
					   walk = range;
			struct trail_cursor cursor = { 0 }, back;
			struct trail_item one, other;
			struct trail_path cut;

			cr_assert_eq(trail_range_cut(&range, &cut), 0);
			cursor.path = &cut;
			while (trail_range_next(&walk, &one)) {
				back = cursor;
				trail_range_uncut(&range, &back);
				cr_assert_eq(trail_next(&cursor, &other), 1, "%lu to %lu", from,
					     to);
				cr_assert(is_same(&one, &other), "%lu to %lu", from, to);
				cr_assert_eq(trail_next(&back, &other), 1);
				cr_assert(is_same(&one, &other), "%lu to %lu", from, to);
			}
			cr_assert_eq(trail_next(&cursor, &other), 0, "%lu to %lu", from, to);
			trail_seek(&cursor, range.first);
			if (range.first < range.end) {
				cr_assert_eq(trail_next(&cursor, &other), 1);
				cr_assert_eq(other.index, range.first);
			}
			free(cut.parts);
		}
}

/*
 * Two signals; behind the second, blocks that ran no later than tick 33 of the trail, and a loss.
 */
static void begin_trapped(void)
{
	end();
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, TID, "traps");
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 10; j++)
			sample_trail_ran(&sample, &loop, "\x74\xfe");
		sample_trail_event(&sample, i < 2 ? TRAIL_SIGNAL : TRAIL_LOST, i < 2 ? 0x1000 : 0,
				   0, i < 2 ? SIGTRAP : 0, i < 2 ? 0x1000 : 0);
	}
	for (int j = 0; j < 10; j++)
		sample_trail_ran(&sample, &loop, "\x74\xfe");
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	trails = (struct trails){ 0 };
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(reader->damages_ever, 0);
}

Test(range, finds_where_a_signal_s_handler_had_interrupted)
{
	struct trail_moment at = { .tid = TID };
	uint64_t block = 0;

	begin_trapped();
	at.pid = trails.paths[0].stream->pid;
	at.ns = wall(1010);
	cr_expect_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 0, "no signal yet");
	at.ns = wall(1011);
	cr_assert_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 1);
	cr_expect_eq(block, 10);
	at.ns = wall(1021);
	cr_assert_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 1);
	cr_expect_eq(block, 10);
	at.ns = wall(1025);
	cr_assert_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 1);
	cr_expect_eq(block, 20);
	at.ns = wall(1040);
	cr_expect_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 0, "behind the loss");
	at.ns = wall(1025);
	at.tid++;
	cr_expect_eq(trail_trapped(reader, &trails.paths[0], &at, &block), 0, "another thread's");
}

Test(range, finds_events_by_name_and_number)
{
	struct trail_moment moment;
	uint64_t count;

	cr_assert_eq(trail_event_find(reader, "db:query", 1, &moment, &count), 0);
	cr_expect_eq(moment.ns, wall(1015));
	cr_assert_eq(trail_event_find(reader, "db:query", 2, &moment, &count), 0);
	cr_expect_eq(moment.ns, wall(1030));
	cr_expect_eq(trail_event_find(reader, "db:query", 3, &moment, &count), -ERANGE);
	cr_expect_eq(count, 2);
	cr_expect_eq(trail_event_find(reader, "db:query", 0, &moment, &count), -ERANGE);
	cr_expect_eq(trail_event_find(reader, "db:quer", 1, &moment, &count), -ENOENT);
	/* the trace knows the name, but has no such event */
	cr_expect_eq(trail_event_find(reader, "trail:exec", 1, &moment, &count), -ERANGE);
	cr_expect_eq(count, 0);
	/* those of the trail itself, whose stream stays mapped */
	cr_assert_eq(trail_event_find(reader, "trail:depart", 4, &moment, &count), 0);
	cr_expect_eq(moment.ns, wall(1044));
	cr_expect_not_null(trails.paths[0].stream->map);
}
