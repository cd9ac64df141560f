/* SPDX-License-Identifier: MIT */
/* Two runs whose signals, system calls and losses differ. */
#include "read/history/testing/divergence_fixture.h"

#include <criterion/criterion.h>
#include <sys/syscall.h>

TestSuite(divergence_event, .init = begin, .fini = end);

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

Test(divergence_event, is_not_a_signal_at_another_moment)
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

Test(divergence_event, is_a_signal_at_another_moment_if_strict)
{
	options.strict = 1;
	signals_come_at_other_moments();
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
	cr_expect_eq(result.blocks, 10 * TURN_BLOCKS);
}

Test(divergence_event, is_none_where_both_have_the_signal_at_the_same_moment)
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

Test(divergence_event, is_a_signal_whose_handler_does_not_return)
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

Test(divergence_event, is_not_the_result_of_a_system_call)
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

Test(divergence_event, is_another_system_call)
{
	makes_call(A, SYS_getpid, 100);
	leaves(A, 0);
	makes_call(B, SYS_getuid, 100);
	leaves(B, 0);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
	cr_expect_eq(result.blocks, 2);
}

Test(divergence_event, is_not_a_system_call_that_a_signal_had_made_again)
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

/* A block that did not run does not count: the gap behind it comes next. */
Test(divergence_event, is_not_a_block_that_was_left_before_it_began)
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

Test(divergence_event, is_not_a_breakpoint_of_another_tool)
{
	for (int i = 0; i < 2; i++) {
		ran(&runs[i], &HEAD);
		ran(&runs[i], &CALLS);
		if (!i)
			event(A, TRAIL_GAP, at(A, &SCAN), TRAIL_GAP_BREAKPOINT, 0);
		ran(&runs[i], &SCAN);
		ran(&runs[i], &FOUND);
		ran(&runs[i], &AFTER);
		leaves(&runs[i], 0);
	}
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect(!result.is_unsure);
}

Test(divergence_event, is_another_exit_status)
{
	turns(A, 1);
	leaves(A, 0);
	turns(B, 1);
	leaves(B, 3);
	compare();
	cr_expect_eq(result.kind, DIVERGENCE_EVENT);
}

Test(divergence_event, is_none_where_one_recording_was_over_before)
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

Test(divergence_event, is_not_where_a_thread_lost_the_processor)
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

Test(divergence_event, is_looked_for_behind_what_was_lost)
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

Test(divergence_event, is_looked_for_just_behind_so_much_as_was_lost)
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
