/* SPDX-License-Identifier: MIT */
/* What a wire keeps back while the sink at its other end is full. */
#include "record/trail/soft/wire.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCKS 1000

/* A sink that counts, and is full at so many. */
struct counting {
	struct trail_sink sink;
	int blocks, most;
};

static struct counting *counting_of(struct trail_sink *sink)
{
	return (struct counting *)sink;
}

static int count_begin(struct trail_sink *sink, pid_t pid)
{
	(void)sink, (void)pid;
	return 0;
}

static int count_thread(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			const char *comm, enum trail_origin origin, uint64_t ticks)
{
	(void)tid, (void)comm, (void)origin, (void)ticks;
	*thread = (struct sink_thread *)sink;
	return 0;
}

static int count_block(struct trail_sink *sink, struct sink_thread *thread,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	(void)thread, (void)entry, (void)code, (void)ticks;
	counting_of(sink)->blocks++;
	return 0;
}

static int count_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	(void)sink, (void)thread, (void)ticks;
	return 0;
}

static int count_event(struct trail_sink *sink, struct sink_thread *thread,
		       const struct trail_between *between, uint64_t ticks)
{
	(void)between;
	return count_end(sink, thread, ticks);
}

static int is_full(struct trail_sink *sink)
{
	return counting_of(sink)->blocks >= counting_of(sink)->most;
}

static const struct trail_sink_calls calls = {
	.begin = count_begin,
	.thread_begin = count_thread,
	.block = count_block,
	.event = count_event,
	.thread_end = count_end,
	.is_full = is_full,
};

Test(wire_full, keeps_back_what_a_full_sink_has_no_room_for)
{
	struct trail_entry entry = { .start = 1, .bytes = 1, .instructions = 1 };
	struct counting counting = { .sink.calls = &calls, .most = 10 };
	struct sink_thread *thread;
	struct wire_out out;
	struct wire_in in;
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(wire_in_init(&in, ends[1]), 0);
	wire_out_init(&out, ends[0], &counting.sink);
	in.first.sink.calls->thread_begin(&in.first.sink, &thread, 1, "", TRAIL_STEP, 1);
	for (uint64_t i = 1; i <= BLOCKS; i++)
		in.first.sink.calls->block(&in.first.sink, thread, &entry, NULL, i);
	in.first.sink.calls->thread_end(&in.first.sink, thread, BLOCKS);
	cr_assert_eq(wire_in_flush(&in), 0);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(wire_out_take(&out, 0), 1);
		cr_expect_eq(counting.blocks, 10);
	}
	counting.most = 20;
	cr_expect_eq(wire_out_take(&out, 0), 1);
	cr_expect_eq(counting.blocks, 20);
	out.takes_all = 1;
	cr_expect_eq(wire_out_take(&out, 0), 1);
	cr_expect_eq(counting.blocks, BLOCKS);
	wire_out_release(&out);
	wire_in_release(&in);
	close(ends[0]);
	close(ends[1]);
}

/*
 * A run of paths comes out block by block where the sink knows no others, and waits in the middle
 * of one.
 */
Test(wire_full, keeps_back_the_rest_of_a_path)
{
	struct trail_source_block blocks[3];
	const struct trail_source_path paths[] = { { 7, 40, 3, blocks },
						   { 900000, 40, 2, blocks } };
	struct counting counting = { .sink.calls = &calls, .most = 1 };
	struct sink_thread *thread;
	struct wire_out out;
	struct wire_in in;
	int ends[2];

	for (uint64_t i = 0; i < 3; i++)
		blocks[i] = (struct trail_source_block){
			.entry = { .start = i, .bytes = 1, .instructions = 1 }
		};
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	cr_assert_eq(wire_in_init(&in, ends[1]), 0);
	wire_out_init(&out, ends[0], &counting.sink);
	in.first.sink.calls->thread_begin(&in.first.sink, &thread, 1, "", TRAIL_SOFT, 1);
	for (int i = 0; i < 200; i++)
		in.first.sink.calls->path(&in.first.sink, thread, &paths[i % 2], 5);
	in.first.sink.calls->thread_end(&in.first.sink, thread, 6);
	cr_expect_lt(in.bytes, 1300u, "four bytes a path");
	cr_assert_eq(wire_in_flush(&in), 0);
	for (; counting.most < 500; counting.most++) {
		cr_expect_eq(wire_out_take(&out, 0), 1);
		cr_assert_eq(counting.blocks, counting.most);
		cr_assert_eq(out.blocks, (uint64_t)counting.most);
		cr_assert_eq(out.instructions, (uint64_t)counting.most);
	}
	cr_expect_eq(wire_out_take(&out, 0), 1);
	counting.most = 1000;
	cr_expect_eq(wire_out_take(&out, 0), 1);
	cr_expect_eq(counting.blocks, 500);
	wire_out_release(&out);
	wire_in_release(&in);
	close(ends[0]);
	close(ends[1]);
}
