/* SPDX-License-Identifier: MIT */
/*
 * Two runs of a program that never was, written, read and compared. Its main part is a loop that calls a library
 * which loops itself:
 *
 *	program	0x100 head:	branch to leave		library	0x2000 scan:	branch to found
 *		0x108		call scan			0x2004		jump to scan
 *		0x10d		jump to head			0x2010 found:	return
 *		0x140 leave:	system call
 *		0x200 handler:	return				0x3000		system call (sigreturn)
 */
#include "history/divergence.h"
#include "trace/trail/sample_trail.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

enum module { PROGRAM, LIBRARY, PLUGIN, NOWHERE, MODULES };

struct code {
	enum module module;
	uint64_t offset;
	uint16_t bytes;
	uint8_t kind;
	enum module to;
	uint64_t target;
};

static const struct code HEAD = { PROGRAM, 0x100, 8, TRAIL_BRANCH, PROGRAM, 0x140 },
			 CALLS = { PROGRAM, 0x108, 5, TRAIL_CALL, LIBRARY, 0x2000 },
			 SCAN = { LIBRARY, 0x2000, 4, TRAIL_BRANCH, LIBRARY, 0x2010 },
			 MORE = { LIBRARY, 0x2004, 2, TRAIL_JUMP, LIBRARY, 0x2000 },
			 FOUND = { LIBRARY, 0x2010, 4, TRAIL_RETURN, PROGRAM, 0 },
			 TAIL = { PROGRAM, 0x10d, 2, TRAIL_JUMP, PROGRAM, 0x100 },
			 LEAVE = { PROGRAM, 0x140, 4, TRAIL_SYSCALL, PROGRAM, 0 },
			 AFTER = { PROGRAM, 0x144, 4, TRAIL_JUMP, PROGRAM, 0x100 },
			 AGAIN = { PROGRAM, 0x142, 2, TRAIL_SYSCALL, PROGRAM, 0 },
			 HANDLER = { PROGRAM, 0x200, 4, TRAIL_RETURN, PROGRAM, 0 },
			 SIGRETURN = { LIBRARY, 0x3000, 4, TRAIL_SYSCALL, PROGRAM, 0 };

/* A run being written, then read. */
struct run {
	struct sample_trail sample;
	uint64_t bases[MODULES];
	struct trace_reader *reader;
	struct trails trails;
	struct image *image;
	uint8_t fill; /* of code in no module */
};

static struct run runs[2];
static struct run *const A = &runs[0], *const B = &runs[1];
static struct alike *alike;
static struct divergence result;
static struct divergence_options options;

static const uint64_t bases[2][MODULES] = {
	{ 0x400000, 0x7f0000000000, 0x600000000000, 0x200000000000 },
	{ 0x55d0a0000000, 0x7fab00001000, 0x610000005000, 0x210000007000 },
};

static void open_run(struct run *run, const uint64_t at[MODULES])
{
	static const char *const paths[] = { "/bin/program", "/lib/libc.so.6", "/lib/plugin.so" };

	memcpy(run->bases, at, sizeof(run->bases));
	sample_trail_begin(&run->sample);
	for (int i = 0; i < NOWHERE; i++)
		sample_trail_module(&run->sample, paths[i], at[i], NULL, 0);
	sample_trail_thread(&run->sample, 101, "name");
}

static void begin(void)
{
	open_run(A, bases[0]);
	open_run(B, bases[1]);
}

static void end(void)
{
	divergence_release(&result);
	alike_close(alike);
	for (int i = 0; i < 2; i++) {
		image_close(runs[i].image);
		trails_release(&runs[i].trails, runs[i].reader);
		trace_reader_close(runs[i].reader);
		sample_trail_remove(&runs[i].sample);
	}
}

TestSuite(divergence, .init = begin, .fini = end);

static uint64_t at(const struct run *run, const struct code *code)
{
	return run->bases[code->module] + code->offset;
}

static void ran(struct run *run, const struct code *code)
{
	struct trail_entry entry = { .start = at(run, code),
				     .target = code->target ? run->bases[code->to] + code->target
							    : 0,
				     .bytes = code->bytes,
				     .last = (uint16_t)(code->bytes - 2),
				     .instructions = 2,
				     .kind = code->kind };
	uint8_t bytes[64];

	if (code->bytes == 2) {
		entry.last = 0;
		entry.instructions = 1;
	}
	memset(bytes, code->module == NOWHERE ? run->fill : 1, sizeof(bytes));
	if (code->module == NOWHERE && entry.target)
		bytes[code->bytes - 1] = (uint8_t)(entry.target >> 20); /* a distance */
	sample_trail_ran(&run->sample, &entry, bytes);
}

/* Some bytes of a block, which something came between. */
static void ran_part(struct run *run, const struct code *code, uint16_t bytes)
{
	struct code part = *code;

	part.bytes = bytes;
	part.kind = TRAIL_FALL;
	part.target = 0;
	ran(run, &part);
}

static void event(struct run *run, enum trail_event kind, uint64_t where, uint64_t first,
		  uint64_t second)
{
	sample_trail_event(&run->sample, kind, where, 0, first, second);
}

/* A turn of the loop, in which the library makes so many. */
static void turn(struct run *run, int scans)
{
	ran(run, &HEAD);
	ran(run, &CALLS);
	ran(run, &SCAN);
	for (int i = 0; i < scans; i++) {
		ran(run, &MORE);
		ran(run, &SCAN);
	}
	ran(run, &FOUND);
	ran(run, &TAIL);
}

#define TURN_BLOCKS 7 /* with one scan */

static void turns(struct run *run, int count)
{
	for (int i = 0; i < count; i++)
		turn(run, 1);
}

static void leaves(struct run *run, uint64_t status)
{
	ran(run, &HEAD);
	ran(run, &LEAVE);
	event(run, TRAIL_END, 0, TRAIL_EXITED, status);
}

static void makes_call(struct run *run, uint64_t number, uint64_t got)
{
	ran(run, &HEAD);
	ran(run, &LEAVE);
	event(run, TRAIL_SYSCALLED, at(run, &AFTER), number, got);
	ran(run, &AFTER);
}

/* A signal before the code at `where`, and its handler. */
static void has_signal(struct run *run, uint64_t where)
{
	event(run, TRAIL_SIGNAL, where, 14, at(run, &HANDLER));
	ran(run, &HANDLER);
	ran(run, &SIGRETURN);
	/* at times nobody knows where it goes on */
	event(run, TRAIL_SYSCALLED, run == A ? 0 : where, SYS_rt_sigreturn, 0);
}

static void compare(void)
{
	const struct trail_path *paths[2];
	struct image *images[2];

	for (int i = 0; i < 2; i++) {
		struct run *run = &runs[i];

		sample_trail_thread_end(&run->sample);
		sample_trail_close(&run->sample);
		cr_assert_eq(trace_reader_open(&run->reader, run->sample.folder), 0);
		cr_assert_eq(trails_read(&run->trails, run->reader), 0);
		cr_assert_eq(run->trails.path_count, 1);
		cr_assert_null(run->trails.paths[0].damage, "%d: %s", i,
			       run->trails.paths[0].damage);
		cr_assert_eq(image_open(&run->image, &run->reader->meta.processes[0], NULL), 0);
		paths[i] = &run->trails.paths[0];
		images[i] = run->image;
	}
	cr_assert_eq(alike_open(&alike), 0);
	cr_assert_eq(divergence_find(&result, alike, paths, images, &options), 0);
}

/* What comes next on one of them begins there. */
static void expect_next(int which, uint64_t address)
{
	struct trail_cursor cursor = result.at[which];
	struct trail_item item;

	cr_assert(trail_next(&cursor, &item));
	cr_assert_not_null(item.block);
	cr_expect_eq(item.block->start, address, "%d: %lx", which, item.block->start);
}

static void expect_same(uint64_t harmless)
{
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect_eq(result.harmless_total, harmless, "%lu", result.harmless_total);
	cr_expect_not(result.is_unsure);
}

Test(divergence, is_none_though_all_lies_elsewhere)
{
	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 1000);
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(0);
	cr_expect_eq(result.blocks, 1000 * TURN_BLOCKS + 2);
	cr_expect_eq(result.instructions, 1000 * (TURN_BLOCKS * 2 - 2) + 4);
}

Test(divergence, is_where_the_program_takes_another_way)
{
	turns(A, 1000);
	leaves(A, 0);
	turns(B, 700);
	leaves(B, 0);
	compare();
	cr_assert_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 700 * TURN_BLOCKS + 1);
	cr_expect_eq(result.parted[0], at(A, &HEAD) + 6);
	cr_expect_eq(result.parted[1], at(B, &HEAD) + 6);
	expect_next(0, at(A, &CALLS));
	expect_next(1, at(B, &LEAVE));
}

static void library_takes_another_way(void)
{
	turns(A, 10);
	turn(A, 5);
	leaves(A, 0);
	turns(B, 10);
	turn(B, 2);
	leaves(B, 0);
	compare();
}

Test(divergence, within_a_library_is_harmless)
{
	library_takes_another_way();
	expect_same(1);
	cr_expect_eq(result.harmless[0].kind, HARMLESS_LIBRARY);
	cr_expect_str_eq(result.harmless[0].module, "libc.so.6");
	cr_expect_eq(result.harmless[0].blocks[0], 7);
	cr_expect_eq(result.harmless[0].blocks[1], 1);
}

Test(divergence, within_a_library_counts_if_all_does)
{
	options.all = 1;
	library_takes_another_way();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	expect_next(0, at(A, &MORE));
	expect_next(1, at(B, &FOUND));
}

Test(divergence, counts_where_the_library_calls_the_program_on_its_other_way)
{
	static const struct code calls = { LIBRARY, 0x2004, 5, TRAIL_CALL, PROGRAM, 0x200 },
				 back = { LIBRARY, 0x2009, 2, TRAIL_JUMP, LIBRARY, 0x2000 };

	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 3);
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		for (int j = 0; j < 2 + i; j++) {
			ran(&runs[i], &SCAN);
			ran(&runs[i], &calls);
			ran(&runs[i], &HANDLER);
			ran(&runs[i], &back);
		}
		ran(&runs[i], &SCAN);
		ran(&runs[i], &FOUND);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	expect_next(0, at(A, &FOUND));
	expect_next(1, at(B, &calls));
}

Test(divergence, counts_where_the_library_never_returns)
{
	static const struct code stops = { LIBRARY, 0x2010, 2, TRAIL_STOP, PROGRAM, 0 };

	turns(A, 3);
	leaves(A, 0);
	turns(B, 2);
	ran(B, &HEAD);
	ran(B, &CALLS);
	ran(B, &SCAN);
	ran(B, &stops);
	event(B, TRAIL_END, 0, TRAIL_KILLED, 4);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 2 * TURN_BLOCKS + 3);
}

Test(divergence, within_a_library_is_harmless_though_it_calls_on)
{
	static const struct code calls = { LIBRARY, 0x2004, 5, TRAIL_CALL, LIBRARY, 0x2100 },
				 called = { LIBRARY, 0x2100, 4, TRAIL_RETURN, LIBRARY, 0 },
				 back = { LIBRARY, 0x2009, 2, TRAIL_JUMP, LIBRARY, 0x2000 };

	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 3);
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		for (int j = 0; j < i; j++) {
			ran(&runs[i], &calls);
			ran(&runs[i], &called);
			ran(&runs[i], &back);
			ran(&runs[i], &SCAN);
		}
		ran(&runs[i], &FOUND);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(1);
	cr_expect_eq(result.harmless[0].blocks[0], 1);
	cr_expect_eq(result.harmless[0].blocks[1], 5);
}

Test(divergence, counts_where_the_library_returns_elsewhere)
{
	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		if (i) {
			ran(&runs[i], &MORE);
			ran(&runs[i], &SCAN);
		}
		ran(&runs[i], &FOUND);
		ran(&runs[i], i ? &AFTER : &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.harmless_total, 0);
	cr_expect_eq(result.blocks, 3);
}

/* Both plugins differ in how often they loop. */
static void plugin_takes_another_way(void)
{
	static const struct code calls = { PROGRAM, 0x108, 5, TRAIL_CALL, PLUGIN, 0x10 },
				 loops = { PLUGIN, 0x10, 4, TRAIL_BRANCH, PLUGIN, 0x10 },
				 out = { PLUGIN, 0x14, 4, TRAIL_RETURN, PROGRAM, 0 };

	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &calls);
		for (int j = 0; j < 3 + i; j++)
			ran(&runs[i], &loops);
		ran(&runs[i], &out);
		ran(&runs[i], &TAIL);
		leaves(&runs[i], 0);
	}
	compare();
}

Test(divergence, counts_within_any_other_library)
{
	plugin_takes_another_way();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
}

Test(divergence, is_harmless_where_one_says_so)
{
	static const char *const names[] = { "nothing", "plug*" };

	options.harmless = names;
	options.harmless_count = 2;
	plugin_takes_another_way();
	expect_same(1);
}

static void signals_come_at_other_moments(void)
{
	turns(A, 10);
	has_signal(A, at(A, &HEAD));
	turns(A, 20);
	leaves(A, 0);

	turns(B, 17);
	ran_part(B, &HEAD, 4); /* in the middle of a block */
	has_signal(B, at(B, &HEAD) + 4);
	ran(B, &(struct code){ PROGRAM, 0x104, 4, TRAIL_BRANCH, PROGRAM, 0x140 });
	ran(B, &CALLS);
	ran(B, &SCAN);
	ran(B, &FOUND);
	ran(B, &TAIL);
	turns(B, 12);
	leaves(B, 0);
}

Test(divergence, is_not_a_signal_at_another_moment)
{
	signals_come_at_other_moments();
	compare();
	/* the turn with the signal had one scan less, too */
	expect_same(3);
	cr_expect_eq(result.blocks, 30 * TURN_BLOCKS + 2 - 3, "%lu", result.blocks);
	cr_expect_eq(result.harmless[0].kind, HARMLESS_SIGNAL);
	cr_expect_eq(result.harmless[0].number, 14);
	cr_expect_eq(result.harmless[0].count, 2);
	cr_expect_eq(result.harmless[0].blocks[0], 2);
	cr_expect_eq(result.harmless[0].blocks[1], 2);
}

Test(divergence, is_a_signal_at_another_moment_if_strict)
{
	options.strict = 1;
	signals_come_at_other_moments();
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
	cr_expect_eq(result.blocks, 10 * TURN_BLOCKS);
}

Test(divergence, is_none_where_both_have_the_signal_at_the_same_moment)
{
	options.strict = 1;
	for (int i = 0; i < 2; i++) {
		turns(&runs[i], 3);
		has_signal(&runs[i], at(&runs[i], &HEAD));
		leaves(&runs[i], 0);
	}
	compare();
	expect_same(0);
}

Test(divergence, is_a_signal_whose_handler_does_not_return)
{
	turns(A, 10);
	event(A, TRAIL_SIGNAL, at(A, &HEAD), 14, at(A, &HANDLER));
	ran(A, &HANDLER); /* and jumped */
	leaves(A, 0);
	turns(B, 10);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
	cr_expect_eq(result.blocks, 10 * TURN_BLOCKS);
}

Test(divergence, is_not_the_result_of_a_system_call)
{
	makes_call(A, SYS_getpid, 100);
	leaves(A, 0);
	makes_call(B, SYS_getpid, 200);
	leaves(B, 0);
	compare();
	expect_same(1);
	cr_expect_eq(result.harmless[0].kind, HARMLESS_RESULT);
	cr_expect_eq(result.harmless[0].number, SYS_getpid);
}

Test(divergence, is_another_system_call)
{
	makes_call(A, SYS_getpid, 100);
	leaves(A, 0);
	makes_call(B, SYS_getuid, 100);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
	cr_expect_eq(result.blocks, 2);
}

Test(divergence, is_not_a_system_call_that_a_signal_had_made_again)
{
	ran(A, &HEAD);
	ran(A, &LEAVE);
	event(A, TRAIL_SYSCALLED, at(A, &AGAIN), SYS_read, (uint64_t)-512);
	has_signal(A, at(A, &AGAIN));
	ran(A, &AGAIN);
	event(A, TRAIL_SYSCALLED, at(A, &AFTER), SYS_read, 1);
	ran(A, &AFTER);
	leaves(A, 0);
	makes_call(B, SYS_read, 1);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect_eq(result.harmless_total, 3, "%lu", result.harmless_total);
	cr_expect_eq(result.harmless[2].kind, HARMLESS_AGAIN);
	cr_expect_eq(result.blocks, 5);
}

/* A block of which nothing ran is none: what comes is the gap behind it. */
Test(divergence, is_not_a_block_that_was_left_before_it_began)
{
	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		ran(&runs[i], &SCAN);
		ran(&runs[i], &MORE);
		ran(&runs[i], &SCAN);
		ran(&runs[i], &FOUND);
		if (!i) {
			ran(A, &AFTER);
			sample_trail_event(&A->sample, TRAIL_GAP, at(A, &AFTER), 2,
					   TRAIL_GAP_NATIVE, 0);
		}
		if (i) {
			ran(B, &TAIL);
			ran(B, &HEAD);
			ran(B, &LEAVE);
		}
		ran(&runs[i], &AFTER);
		turns(&runs[i], 3);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect(result.is_unsure);
}

Test(divergence, is_another_exit_status)
{
	turns(A, 1);
	leaves(A, 0);
	turns(B, 1);
	leaves(B, 3);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
}

Test(divergence, is_none_where_one_recording_was_over_before)
{
	turns(A, 5);
	event(A, TRAIL_END, 0, TRAIL_DETACHED, 0);
	turns(B, 9);
	leaves(B, 0);
	compare();
	expect_same(0);
	cr_expect_eq(result.is_over[0], 1);
	cr_expect_eq(result.is_over[1], 0);
	cr_expect_eq(result.blocks, 5 * TURN_BLOCKS);
}

Test(divergence, is_not_where_a_thread_lost_the_processor)
{
	turns(A, 5);
	leaves(A, 0);
	turns(B, 2);
	ran_part(B, &HEAD, 4);
	event(B, TRAIL_DEPART, at(B, &HEAD) + 4, 0, 0);
	event(B, TRAIL_ARRIVE, at(B, &HEAD) + 4, 0, 0);
	ran(B, &(struct code){ PROGRAM, 0x104, 4, TRAIL_BRANCH, PROGRAM, 0x140 });
	ran(B, &CALLS);
	ran(B, &SCAN);
	ran(B, &MORE);
	ran(B, &SCAN);
	ran(B, &FOUND);
	ran(B, &TAIL);
	turns(B, 2);
	leaves(B, 0);
	compare();
	expect_same(0);
}

static void some_turns(struct run *run, int first, int last)
{
	for (int i = first; i < last; i++)
		turn(run, i % 7);
}

Test(divergence, is_looked_for_behind_what_was_lost)
{
	some_turns(A, 0, 50);
	leaves(A, 0);
	some_turns(B, 0, 10);
	event(B, TRAIL_LOST, 0, 0, 0);
	some_turns(B, 15, 30);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.is_unsure, 1);
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	expect_next(0, at(A, &CALLS));
	expect_next(1, at(B, &LEAVE));
	cr_expect_eq(result.at[1].path->blocks - 1,
		     result.at[1].path->parts[result.at[1].part].before + result.at[1].id);
}

Test(divergence, is_looked_for_just_behind_so_much_as_was_lost)
{
	turns(A, 100);
	turn(A, 9);
	leaves(A, 0);
	turns(B, 10);
	event(B, TRAIL_LOST, 0, 50 * TURN_BLOCKS, 0);
	turns(B, 40);
	turn(B, 9);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.is_unsure, 1);
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect_eq(result.harmless_total, 0);
	cr_expect_eq(result.blocks, 50 * TURN_BLOCKS + 23 + 2, "%lu", result.blocks);
}

Test(divergence, of_code_in_no_module_is_told_by_its_bytes)
{
	static const struct code made = { NOWHERE, 0x10, 7, TRAIL_CALL, PROGRAM, 0x200 },
				 then = { NOWHERE, 0x17, 4, TRAIL_RETURN, PROGRAM, 0 };

	for (int i = 0; i < 2; i++) {
		runs[i].fill = 9;
		for (int j = 0; j < 2; j++) {
			ran(&runs[i], &made);
			ran(&runs[i], &HANDLER);
			ran(&runs[i], &then);
			runs[i].fill = (uint8_t)(9 + i); /* other code at the same place */
		}
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 3);
}

Test(divergence, of_code_in_no_module_is_another_place_to_lead_to)
{
	for (int i = 0; i < 2; i++) {
		struct code jumps = { NOWHERE, 0x10, 7, TRAIL_JUMP, PROGRAM, i ? 0x140 : 0x100 };

		runs[i].fill = 9;
		ran(&runs[i], &jumps);
		ran(&runs[i], i ? &LEAVE : &HEAD);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_WAY);
	cr_expect_eq(result.blocks, 0);
}
