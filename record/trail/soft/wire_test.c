/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/wire.h"
#include "record/trail/store.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct trail_store *store;
static struct wire_in in;
static struct wire_out out;
static int fds[2];
static const uint8_t code[] = { 0x90, 0xeb, 0xfd };
static const struct trail_entry jump = { 0x1000, 0x1000, 3, 1, 2, TRAIL_JUMP, TRAIL_HAS_CODE };
static const struct trail_entry bare = { 0x1000, 0x1000, 3, 1, 2, TRAIL_JUMP, 0 };

static void begin(void)
{
	struct trail_store_options options = { .bytes = 1 << 20, .policy = WM_POLICY_CYCLIC };

	cr_assert_eq(trail_store_open(&store, &options), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	cr_assert_eq(wire_in_init(&in, fds[0]), 0);
	wire_out_init(&out, fds[1], trail_store_sink(store));
}

static void end(void)
{
	wire_out_release(&out);
	wire_in_release(&in);
	trail_store_close(store);
	close(fds[0]);
	close(fds[1]);
}

TestSuite(wire, .init = begin, .fini = end, .timeout = 60);

static struct sink_thread *thread_put(pid_t tid)
{
	struct sink_thread *thread;

	cr_assert_eq(in.first.sink.calls->thread_begin(&in.first.sink, &thread, tid, "name",
						       TRAIL_STEP, 10),
		     0);
	return thread;
}

static void block_put(struct sink_thread *thread, const struct trail_entry *entry, uint64_t ticks)
{
	cr_assert_eq(in.first.sink.calls->block(&in.first.sink, thread, entry,
						entry->flags ? code : NULL, ticks),
		     0);
}

static void take(void)
{
	cr_assert_eq(wire_in_flush(&in), 0);
	cr_assert_eq(wire_out_take(&out, 0), 1);
}

/* The record of the first thread, from the oldest on; event -1: a block. */
static struct store_record record_at(uint64_t index, int event)
{
	struct store_thread *thread = trail_store_thread(store, NULL);
	struct store_record record;

	cr_assert_not_null(thread);
	cr_assert(store_thread_record(store, thread, store_thread_records(thread) - 1 - index,
				      &record));
	cr_assert_eq(record.entry ? -1 : record.between.event, event);
	return record;
}

static uint64_t records(void)
{
	return store_thread_records(trail_store_thread(store, NULL));
}

static int notes;

static void on_note(void *data, const void *note, size_t bytes)
{
	cr_assert_eq(data, &notes);
	cr_assert_eq(bytes, 5);
	cr_assert_eq(memcmp(note, "hello", 5), 0);
	notes++;
}

Test(wire, what_is_put_in_comes_out)
{
	struct trail_store_status status;
	struct trail_between signal = { .at = 0x1001, .event = TRAIL_SIGNAL, .values = { 11, 7 } };
	struct trail_between last = { .event = TRAIL_END, .values = { TRAIL_EXITED, 3 } };
	struct sink_thread *thread;
	struct store_record record;

	out.on_note = on_note;
	out.data = &notes;
	cr_assert_eq(in.first.sink.calls->begin(&in.first.sink, 77), 0);
	thread = thread_put(77);
	block_put(thread, &jump, 20);
	block_put(thread, &bare, 21);
	cr_assert_eq(in.first.sink.calls->event(&in.first.sink, thread, &signal, 22), 0);
	cr_assert_eq(wire_in_note(&in, "hello", 5), 0);
	cr_assert_eq(in.first.sink.calls->event(&in.first.sink, thread, &last, 23), 0);
	cr_assert_eq(in.first.sink.calls->thread_end(&in.first.sink, thread, 24), 0);
	take();
	cr_expect_eq(notes, 1);
	cr_expect_eq(out.error, 0);
	cr_expect_eq(out.blocks, 2);
	cr_expect_eq(out.instructions, 4);
	cr_assert_eq(records(), 4);
	record = record_at(0, -1);
	cr_expect_eq(memcmp(record.entry, &jump, sizeof(jump)), 0);
	cr_expect_eq(memcmp(record.code, code, sizeof(code)), 0);
	cr_expect_null(record_at(1, -1).code);
	cr_expect_eq(record_at(2, TRAIL_SIGNAL).between.values[0], 11);
	cr_expect_eq(record_at(3, TRAIL_END).between.values[1], 3);
	trail_store_status(store, &status);
	cr_expect_eq(status.live, 0);
}

Test(wire, who_did_not_end_has_lost_the_rest)
{
	block_put(thread_put(5), &jump, 20);
	take();
	close(fds[0]);
	cr_assert_eq(wire_out_take(&out, 0), 0);
	wire_out_release(&out);
	cr_assert_eq(records(), 2);
	record_at(1, TRAIL_LOST);
	fds[0] = dup(0);
}

/* As on a full disk, where another process's trail was refused first. */
Test(wire, thread_that_ends_after_an_error_has_lost_the_rest)
{
	struct sink_thread *thread = thread_put(5);

	block_put(thread, &jump, 20);
	take();
	out.error = -ENOSPC;
	block_put(thread, &jump, 21);
	cr_assert_eq(in.first.sink.calls->thread_end(&in.first.sink, thread, 22), 0);
	take();
	cr_assert_eq(records(), 2);
	record_at(1, TRAIL_LOST);
	cr_expect_eq(out.error, -ENOSPC);
}

Test(wire, nothing_is_taken_once_it_is_frozen)
{
	struct sink_thread *thread = thread_put(5);

	block_put(thread, &jump, 20);
	take();
	out.is_frozen = 1;
	block_put(thread, &jump, 21);
	cr_assert_eq(in.first.sink.calls->thread_end(&in.first.sink, thread, 22), 0);
	take();
	wire_out_release(&out);
	cr_assert_eq(records(), 2);
	cr_expect_eq(record_at(1, TRAIL_END).between.values[0], TRAIL_DETACHED);
}

Test(wire, more_than_a_buffer_goes_through)
{
	struct sink_thread *thread = thread_put(5);

	for (uint64_t i = 0; i < 5000; i++) {
		block_put(thread, &jump, 20 + i);
		if (i % 500 == 0)
			take();
	}
	take();
	cr_expect_eq(out.blocks, 5000);
}

/* So many threads, in a store that has no room to note them all. */
Test(wire, what_a_thread_did_that_the_store_could_not_note_is_counted_as_lost)
{
	struct trail_store_options small = { .bytes = TRAIL_STORE_BYTES_MIN,
					     .policy = WM_POLICY_DISCARD };
	struct sink_thread *last = NULL;
	struct trail_store_status status;

	trail_store_close(store);
	cr_assert_eq(trail_store_open(&store, &small), 0);
	out.to = trail_store_sink(store);
	for (int tid = 1; tid <= 1000; tid++)
		last = thread_put(tid);
	block_put(last, &jump, 20);
	take();
	trail_store_status(store, &status);
	cr_assert_gt(status.lost_threads, 0);
	cr_expect_eq(status.lost_blocks, 1);
}

Test(wire, whoever_has_gone_is_missed)
{
	thread_put(5);
	close(fds[1]);
	cr_expect_eq(wire_in_flush(&in), -EPIPE);
	fds[1] = dup(0);
}

/* As wire.c has it: bytes, kind, thread, has_code, ticks. */
struct head {
	uint32_t bytes;
	uint16_t kind, has_code;
	uint32_t thread, process;
	uint64_t ticks;
};

static const uint8_t about[24];

static int hostile(const struct head *head, const void *body, size_t bytes)
{
	cr_assert_eq(write(fds[0], head, sizeof(*head)), (ssize_t)sizeof(*head));
	cr_assert_eq(write(fds[0], body, bytes), (ssize_t)bytes);
	return wire_out_take(&out, 0);
}

Test(wire, a_message_that_is_too_long_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ UINT32_MAX, 3, 0, 0, 0, 0 }, "", 0), -EPROTO);
}

Test(wire, a_message_of_no_kind_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ 0, 99, 0, 0, 0, 0 }, "", 0), -EPROTO);
}

Test(wire, a_block_of_a_thread_that_is_not_there_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ sizeof(bare), 3, 0, 4, 0, 0 }, &bare, sizeof(bare)),
		     -EPROTO);
}

Test(wire, a_block_without_its_code_is_refused)
{
	thread_put(5);
	take();
	cr_expect_eq(hostile(&(struct head){ sizeof(jump), 3, 1, 0, 0, 0 }, &jump, sizeof(jump)),
		     -EPROTO);
}

Test(wire, a_block_without_instructions_is_refused)
{
	struct trail_entry none = bare;

	none.instructions = 0;
	thread_put(5);
	take();
	cr_expect_eq(hostile(&(struct head){ sizeof(none), 3, 0, 0, 0, 0 }, &none, sizeof(none)),
		     -EPROTO);
}

Test(wire, a_short_event_is_refused)
{
	thread_put(5);
	take();
	cr_expect_eq(hostile(&(struct head){ 2, 4, 0, 0, 0, 0 }, "ab", 2), -EPROTO);
}

Test(wire, an_event_that_leaves_more_than_there_is_is_refused)
{
	struct trail_between between = { .event = TRAIL_DEPART, .at = jump.start, .left = 1 };
	const struct head of_block = { sizeof(jump), 3, 0, 0, 0, 0 };
	const struct head of_event = { sizeof(between), 4, 0, 0, 0, 0 };

	thread_put(5);
	take();
	cr_expect_eq(hostile(&of_block, &jump, sizeof(jump)), 1);
	cr_expect_eq(hostile(&of_event, &between, sizeof(between)), 1);
	cr_expect_eq(hostile(&of_event, &between, sizeof(between)), -EPROTO, "of no block");
	cr_expect_eq(hostile(&of_block, &jump, sizeof(jump)), 1);
	between.left = jump.instructions + 1u;
	cr_expect_eq(hostile(&of_event, &between, sizeof(between)), -EPROTO);
}

Test(wire, a_thread_out_of_turn_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ 8, 2, 0, 7, 0, 0 }, "abcdefgh", 8), -EPROTO);
}

Test(wire, a_short_module_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ 3, 1, 0, 0, 0, 0 }, "abc", 3), -EPROTO);
}

/* ---- paths ---- */

enum { DEFINE = 10, PATH = 11, RUN = 12 };

/* Blocks 0 and 1, and path 0 of both; a thread 0. */
static void paths_put(void)
{
	static const uint32_t both[] = { 0, 1 };

	thread_put(5);
	take();
	for (uint32_t i = 0; i < 2; i++)
		cr_assert_eq(hostile(&(struct head){ sizeof(bare), DEFINE, 0, i, 0, 0 }, &bare,
				     sizeof(bare)),
			     1);
	cr_assert_eq(hostile(&(struct head){ sizeof(both), PATH, 0, 0, 0, 0 }, both, sizeof(both)),
		     1);
}

Test(wire, paths_come_out_as_their_blocks)
{
	static const uint32_t run[] = { 0, 0, 0 };
	struct trail_between left = { .event = TRAIL_DEPART, .at = bare.start, .left = 2 };

	paths_put();
	cr_expect_eq(hostile(&(struct head){ sizeof(run), RUN, 0, 0, 0, 9 }, run, sizeof(run)), 1);
	cr_expect_eq(out.blocks, 6);
	cr_expect_eq(out.instructions, 12);
	cr_expect_eq(records(), 6);
	/* an event may leave of the last one's last block what that has */
	cr_expect_eq(hostile(&(struct head){ sizeof(left), 4, 0, 0, 0, 9 }, &left, sizeof(left)),
		     1);
}

static void freezes(void *data, pid_t pid, pid_t tid)
{
	(void)pid;
	(void)tid;
	((struct wire_out *)data)->is_frozen = 1;
}

Test(wire, run_ends_where_it_is_frozen)
{
	static const uint32_t run[] = { 0, 0, 0 };

	paths_put();
	out.on_sought = freezes;
	out.data = &out;
	wire_out_seek(&out, bare.start);
	cr_expect_eq(hostile(&(struct head){ sizeof(run), RUN, 0, 0, 0, 9 }, run, sizeof(run)), 1);
	cr_expect_eq(records(), 2, "the path that it was in, and no other");
}

Test(wire, unwanted_block_is_refused_and_note_goes_through)
{
	struct sink_thread *thread = thread_put(5);
	int before = notes;

	take();
	block_put(thread, &bare, 20);
	wire_in_unwanted(&in);
	cr_expect_eq(in.first.sink.calls->block(&in.first.sink, thread, &bare, NULL, 21),
		     -ECANCELED);
	out.on_note = on_note;
	out.data = &notes;
	cr_assert_eq(wire_in_note(&in, "hello", 5), 0);
	take();
	cr_expect_eq(notes, before + 1);
	cr_expect_eq(records(), 0);
	cr_expect_eq(in.first.sink.calls->thread_end(&in.first.sink, thread, 22), -ECANCELED);
}

Test(wire, a_block_out_of_turn_is_refused)
{
	paths_put();
	cr_expect_eq(hostile(&(struct head){ sizeof(bare), DEFINE, 0, 3, 0, 0 }, &bare,
			     sizeof(bare)),
		     -EPROTO);
}

Test(wire, a_block_that_was_defined_is_refused)
{
	paths_put();
	cr_expect_eq(hostile(&(struct head){ sizeof(bare), DEFINE, 0, 1, 0, 0 }, &bare,
			     sizeof(bare)),
		     -EPROTO);
}

static int path_hostile(uint32_t number, const uint32_t *blocks, uint32_t bytes)
{
	paths_put();
	return hostile(&(struct head){ bytes, PATH, 0, number, 0, 0 }, blocks, bytes);
}

Test(wire, a_path_of_blocks_that_are_not_there_is_refused)
{
	cr_expect_eq(path_hostile(1, (const uint32_t[]){ 0, 2 }, 8), -EPROTO);
}

Test(wire, a_path_out_of_turn_is_refused)
{
	cr_expect_eq(path_hostile(2, (const uint32_t[]){ 0, 1 }, 8), -EPROTO);
}

Test(wire, a_path_that_was_defined_is_refused)
{
	cr_expect_eq(path_hostile(0, (const uint32_t[]){ 0, 1 }, 8), -EPROTO);
}

Test(wire, a_path_of_nothing_is_refused)
{
	cr_expect_eq(path_hostile(1, NULL, 0), -EPROTO);
}

Test(wire, a_path_of_half_a_number_is_refused)
{
	cr_expect_eq(path_hostile(1, (const uint32_t[]){ 0, 1 }, 6), -EPROTO);
}

Test(wire, a_path_that_is_too_long_is_refused)
{
	static const uint32_t many[1025];

	cr_expect_eq(path_hostile(1, many, sizeof(many)), -EPROTO);
}

static int run_hostile(uint32_t thread, const uint32_t *paths, uint32_t bytes)
{
	paths_put();
	return hostile(&(struct head){ bytes, RUN, 0, thread, 0, 9 }, paths, bytes);
}

Test(wire, a_run_of_paths_that_are_not_there_is_refused)
{
	cr_expect_eq(run_hostile(0, (const uint32_t[]){ 0, 1 }, 8), -EPROTO);
}

Test(wire, a_run_of_a_thread_that_is_not_there_is_refused)
{
	cr_expect_eq(run_hostile(1, (const uint32_t[]){ 0 }, 4), -EPROTO);
}

Test(wire, a_run_of_nothing_is_refused)
{
	cr_expect_eq(run_hostile(0, NULL, 0), -EPROTO);
}

Test(wire, a_run_that_is_too_long_is_refused)
{
	static const uint32_t many[1025];

	cr_expect_eq(run_hostile(0, many, sizeof(many)), -EPROTO);
}

/* ---- children ---- */

static struct trail_store *of_child;
static struct sink_process born;
static int ends;

static int on_child(void *data, const struct sink_process *process, struct trail_sink **sink)
{
	(void)data;
	born = *process;
	cr_expect_str_eq(process->exe, "/bin/child");
	*sink = trail_store_sink(of_child);
	return 0;
}

static void on_end(void *data, struct trail_sink *sink, const struct sink_ending *ending)
{
	(void)data;
	ends += sink == trail_store_sink(of_child);
	cr_expect_eq(ending->status, 0x300);
}

static struct trail_sink *child_put(pid_t pid)
{
	struct sink_process process = { pid, 77, 1234, "/bin/child" };
	struct trail_sink *child = NULL;

	out.on_child = on_child;
	out.on_end = on_end;
	wire_in_follow(&in);
	cr_assert_eq(in.first.sink.calls->child(&in.first.sink, &child, &process), 0);
	return child;
}

static void child_store(void)
{
	struct trail_store_options options = { .bytes = 1 << 20 };

	cr_assert_eq(trail_store_open(&of_child, &options), 0);
}

Test(wire, a_child_comes_out_at_its_own_sink)
{
	struct sink_ending ending = { .is_over = 1, .status = 0x300 };
	struct trail_store_status status;
	struct sink_thread *parent, *thread;
	struct trail_sink *child;

	child_store();
	parent = thread_put(77);
	child = child_put(78);
	cr_assert_eq(child->calls->thread_begin(child, &thread, 78, "kid", TRAIL_STEP, 20), 0);
	cr_assert_eq(child->calls->block(child, thread, &bare, NULL, 21), 0);
	block_put(parent, &bare, 22);
	cr_assert_eq(child->calls->block(child, thread, &bare, NULL, 23), 0);
	cr_assert_eq(child->calls->thread_end(child, thread, 24), 0);
	cr_assert_eq(child->calls->process_end(child, &ending), 0);
	take();
	cr_expect_eq(out.error, 0);
	cr_expect_eq(born.pid, 78);
	cr_expect_eq(born.ppid, 77);
	cr_expect_eq(born.start_time, 1234);
	cr_expect_eq(ends, 1);
	trail_store_status(of_child, &status);
	cr_expect_eq(status.blocks, 2);
	cr_expect_eq(status.live, 0);
	trail_store_status(store, &status);
	cr_expect_eq(status.blocks, 1);
	trail_store_close(of_child);
}

Test(wire, threads_that_a_child_leaves_open_end_with_it)
{
	struct sink_ending ending = { .is_over = 1, .status = 0x300 };
	struct trail_store_status status;
	struct sink_thread *thread;
	struct trail_sink *child;

	child_store();
	thread_put(77);
	child = child_put(78);
	cr_assert_eq(child->calls->thread_begin(child, &thread, 78, "kid", TRAIL_STEP, 20), 0);
	cr_assert_eq(child->calls->block(child, thread, &bare, NULL, 21), 0);
	cr_assert_eq(child->calls->process_end(child, &ending), 0);
	/* what comes of a thread whose process is over is put nowhere */
	cr_assert_eq(in.first.sink.calls->block(&in.first.sink, thread, &bare, NULL, 22), 0);
	take();
	cr_expect_eq(ends, 1);
	trail_store_status(of_child, &status);
	cr_expect_eq(status.live, 0);
	cr_expect_eq(status.blocks, 1);
	trail_store_close(of_child);
	free(thread);
}

Test(wire, a_child_that_nobody_asked_for_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ sizeof(about), 7, 0, 0, 1, 0 }, about, sizeof(about)),
		     -EPROTO);
}

Test(wire, a_child_out_of_turn_is_refused)
{
	out.on_child = on_child;
	cr_expect_eq(hostile(&(struct head){ sizeof(about), 7, 0, 0, 5, 0 }, about, sizeof(about)),
		     -EPROTO);
}

Test(wire, a_short_child_is_refused)
{
	out.on_child = on_child;
	cr_expect_eq(hostile(&(struct head){ 3, 7, 0, 0, 1, 0 }, "abc", 3), -EPROTO);
}

Test(wire, the_end_of_a_process_that_is_not_there_is_refused)
{
	struct sink_ending ending = { 0 };

	cr_expect_eq(hostile(&(struct head){ sizeof(ending), 8, 0, 0, 3, 0 }, &ending,
			     sizeof(ending)),
		     -EPROTO);
}

Test(wire, a_thread_of_a_process_that_is_not_there_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ 8, 2, 0, 0, 9, 0 }, "abcdefgh", 8), -EPROTO);
}

Test(wire, a_name_of_a_thread_that_is_not_there_is_refused)
{
	cr_expect_eq(hostile(&(struct head){ 3, 9, 0, 4, 0, 0 }, "abc", 3), -EPROTO);
}
