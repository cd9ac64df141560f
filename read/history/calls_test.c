/* SPDX-License-Identifier: MIT */
/*
 * Paths made up block by block, through calls_fixture's names, and the calls that are made of them,
 * as text: a frame is NAME( and what went on in it, and how it went: ) returned, / replaced, ^
 * passed by, ~ lost, x executed, . still open. In front: = a jump, ! a signal, ? found.
 */
#include "read/history/calls.h"
#include "read/history/testing/made.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static char text[1 << 16];
static struct calls calls;

static void begin(void)
{
	made_begin();
}

static void end(void)
{
	calls_release(&calls);
	made_end();
}

TestSuite(calls, .init = begin, .fini = end);

/* Read the written trace, and begin the walk. */
static void read_back(int has_items)
{
	calls_init(&calls, made_read(), &made.functions, has_items);
}

static void put(const char *words)
{
	size_t used = strlen(text);

	cr_assert_lt(used + strlen(words) + 2, sizeof(text));
	snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "", words);
}

static void put_change(const struct call_change *change)
{
	static const char *const hows[] = { "", "=", "!", "?" };
	static const char *const ends[] = { ")", "/", "^", "~", "x", "." };
	const struct function *function = change->frame->function;
	char words[128];

	if (change->kind == CALL_LEAVE) {
		put(ends[change->end]);
		return;
	}
	if (function->name)
		snprintf(words, sizeof(words), "%s%s(", hows[change->frame->how], function->name);
	else if (function->flags & FUNCTION_IS_STUB)
		snprintf(words, sizeof(words), "%s[plt](", hows[change->frame->how]);
	else
		snprintf(words, sizeof(words), "%s%lx(", hows[change->frame->how], function->start);
	put(words);
}

static void history(const char *wanted)
{
	struct call_change change;
	int more;

	read_back(0);
	while ((more = calls_next(&calls, &change)) > 0)
		put_change(&change);
	cr_assert_eq(more, 0);
	cr_expect_str_eq(text, wanted, "\n got    %s\n wanted %s", text, wanted);
	cr_expect_eq(calls.depth, 0);
}

/* main calls f, which is the path's end then. */
static void main_calls_f(void)
{
	made_ran(MAIN, TRAIL_CALL, F);
}

Test(calls, come_and_go)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_CALL_INDIRECT, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_RETURN, 0);
	history("?main( f( g( ) g( ) ) .");
}

Test(calls, count_what_ran_in_them)
{
	struct call_change change;
	int seen = 0;

	main_calls_f();
	made_ran(F, TRAIL_BRANCH, F + 4);
	made_ran(F + 4, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_RETURN, 0);
	read_back(0);
	while (calls_next(&calls, &change) > 0) {
		const struct call_frame *frame = change.frame;

		if (change.kind != CALL_LEAVE || !frame->function->name)
			continue;
		seen++;
		if (!strcmp(frame->function->name, "f")) {
			cr_expect_eq(frame->blocks, 3);
			cr_expect_eq(frame->instructions, 6);
			cr_expect_eq(frame->total_blocks, 4);
			cr_expect_eq(frame->total_instructions, 8);
			cr_expect_eq(frame->from, MAIN + 2);
			cr_expect_eq(frame->back, MAIN + 4);
			cr_expect_eq(frame->index, 1);
			cr_expect_eq(change.depth, 1);
		} else if (!strcmp(frame->function->name, "main")) {
			cr_expect_eq(frame->blocks, 2);
			cr_expect_eq(frame->total_instructions, 12);
		}
	}
	cr_expect_eq(seen, 3);
	cr_expect_eq(calls.blocks, 6);
	cr_expect_eq(calls.instructions, 12);
}

Test(calls, recurse)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, F);
	made_ran(F, TRAIL_CALL, F);
	made_ran(F, TRAIL_BRANCH, F + 32);
	made_ran(F + 32, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( f( f( ) ) ) .");
}

Test(calls, of_the_tail_replace_their_caller)
{
	main_calls_f();
	made_ran(F, TRAIL_JUMP, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_CALL, F);
	made_ran(F, TRAIL_JUMP_INDIRECT, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 8, TRAIL_FALL, 0);
	history("?main( f( / =g( ) f( / =g( ) .");
}

Test(calls, stay_in_a_function_that_jumps_in_itself_its_cold_part_and_its_marker)
{
	main_calls_f();
	made_ran(F, TRAIL_JUMP_INDIRECT, 0);
	made_ran(F + 16, TRAIL_JUMP, F);
	made_ran(F, TRAIL_BRANCH, F_COLD + 8);
	made_ran(F_COLD + 8, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F_COLD + 12, TRAIL_JUMP, F + 4);
	made_ran(F + 4, TRAIL_JUMP, ENTRY);
	made_ran(ENTRY, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(ENTRY + 4, TRAIL_JUMP, F + 8);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( g( ) g( ) ) .");
}

Test(calls, are_left_by_longjmp)
{
	made_ran(MAIN, TRAIL_CALL, SETJMP);
	made_ran(SETJMP, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_CALL, F);
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_CALL, LONGJMP);
	made_ran(LONGJMP, TRAIL_JUMP_INDIRECT, 0);
	made_ran(MAIN + 4, TRAIL_CALL, F);
	made_ran(F, TRAIL_RETURN, 0);
	made_ran(MAIN + 8, TRAIL_FALL, 0);
	history("?main( _setjmp( ) f( g( longjmp( ^ ^ ^ f( ) .");
}

/* The same function is above and below the one that called setjmp. */
Test(calls, are_left_by_longjmp_up_to_the_one_that_set_it)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, SETJMP);
	made_ran(SETJMP, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_CALL, F);
	made_ran(F, TRAIL_FALL, 0);
	made_ran(F + 4, TRAIL_CALL, LONGJMP);
	made_ran(LONGJMP, TRAIL_JUMP_INDIRECT, 0);
	made_ran(F + 4, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( _setjmp( ) f( longjmp( ^ ^ g( ) ) .");
}

/* The unwinder returns to the handler, which may lie in the cold part. */
Test(calls, are_left_by_an_exception)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_CALL, THUNK);
	made_ran(THUNK, TRAIL_RETURN, 0);
	made_ran(F_COLD, TRAIL_CALL, THUNK);
	made_ran(THUNK, TRAIL_RETURN, 0);
	made_ran(MAIN + 32, TRAIL_FALL, 0);
	history("?main( f( g( thunk( ^ ^ thunk( ^ ^ .");
}

Test(calls, of_handlers_end_with_rt_sigreturn)
{
	main_calls_f();
	made_event(TRAIL_SIGNAL, F, 0, 10, HANDLER);
	made_ran(HANDLER, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(HANDLER + 4, TRAIL_RETURN, 0);
	made_ran(NAMELESS, TRAIL_SYSCALL, 0);
	made_event(TRAIL_SYSCALLED, F, 0, SYS_rt_sigreturn, 0);
	made_ran(F, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( !handler( g( ) ) ) .");
}

#define KERNEL UINT64_C(0xffffffff81000000)

Test(calls, of_the_kernel_come_back_behind_the_system_call)
{
	main_calls_f();
	made_ran(F, TRAIL_SYSCALL, 0);
	made_ran(KERNEL, TRAIL_FAR, 0);
	made_ran(F + 4, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( ffffffff81000000( ) g( ) ) .");
}

Test(calls, of_the_kernel_come_back_to_where_they_interrupted)
{
	main_calls_f();
	made_event(TRAIL_SIGNAL, F, 0, 0, KERNEL);
	made_ran(KERNEL, TRAIL_FAR, 0);
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( !ffffffff81000000( ) g( ) ) .");
}

/*
 * A fault at a function's first instruction: the function was called, though none of its blocks
 * ran.
 */
Test(calls, killed_at_first_instruction_is_in_callee)
{
	main_calls_f();
	made_event(TRAIL_END, F, 0, TRAIL_KILLED, 11);
	history("?main( f( . .");
}

Test(calls, of_handlers_nest_and_may_go_on_elsewhere)
{
	main_calls_f();
	made_ran(F, TRAIL_FALL, 0);
	made_event(TRAIL_SIGNAL, F, 2, 10, HANDLER);
	made_event(TRAIL_SIGNAL, HANDLER, 0, 12, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(NAMELESS, TRAIL_SYSCALL, 0);
	made_event(TRAIL_SYSCALLED, HANDLER, 0, SYS_rt_sigreturn, 0);
	made_ran(HANDLER, TRAIL_RETURN, 0);
	made_ran(NAMELESS, TRAIL_SYSCALL, 0);
	made_event(TRAIL_SYSCALLED, MAIN + 16, 0, SYS_rt_sigreturn, 0);
	made_ran(MAIN + 16, TRAIL_FALL, 0);
	history("?main( f( !handler( !g( ) ^ ^ .");
}

Test(calls, are_left_by_a_handler_that_jumps_out)
{
	made_ran(MAIN, TRAIL_CALL, SETJMP);
	made_ran(SETJMP, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_CALL, F);
	made_event(TRAIL_SIGNAL, F, 0, 11, HANDLER);
	made_ran(HANDLER, TRAIL_CALL, LONGJMP);
	made_ran(LONGJMP, TRAIL_JUMP_INDIRECT, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( _setjmp( ) f( !handler( longjmp( ^ ^ ^ .");
}

static uint64_t stub_address(void)
{
	struct code_file *file;
	uint64_t stub;

	cr_assert_eq(code_file_open(&file, CALLS_FIXTURE), 0);
	stub = code_file_section(file, ".plt")->address;
	code_file_close(file);
	return stub;
}

Test(calls, through_a_retpoline_may_be_of_a_stub)
{
	uint64_t stub = stub_address();

	made_ran(MAIN, TRAIL_CALL, THUNK);
	made_ran(THUNK, TRAIL_RETURN, 0);
	made_ran(stub, TRAIL_JUMP_INDIRECT, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( thunk( / =[plt]( / =g( ) .");
}

Test(calls, go_through_a_stub_and_the_loader)
{
	uint64_t stub = stub_address();

	made_ran(MAIN, TRAIL_CALL, stub);
	made_ran(stub, TRAIL_JUMP_INDIRECT, 0);
	made_ran(stub + 16, TRAIL_JUMP_INDIRECT, 0);
	made_ran(SWAP, TRAIL_CALL, F); /* in the place of the loader */
	made_ran(F, TRAIL_RETURN, 0);
	made_ran(SWAP + 4, TRAIL_JUMP_INDIRECT, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_CALL, stub);
	made_ran(stub, TRAIL_JUMP_INDIRECT, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 8, TRAIL_FALL, 0);
	history("?main( [plt]( / swap( f( ) / =g( ) [plt]( / g( ) .");
}

Test(calls, from_before_the_beginning_are_found_when_returned_to)
{
	made_ran(G + 8, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 12, TRAIL_RETURN, 0);
	made_ran(F + 12, TRAIL_RETURN, 0);
	made_ran(MAIN + 8, TRAIL_RETURN, 0);
	made_ran(ELSEWHERE, TRAIL_FALL, 0);
	history("?g( ) ?f( g( ) ) ?f( ) ?main( ) ?0( .");
}

Test(calls, through_a_retpoline_are_the_target_s)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, THUNK);
	made_ran(THUNK, TRAIL_CALL, THUNK + 16);
	made_ran(THUNK + 16, TRAIL_RETURN, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( thunk( / =g( ) ) .");
}

Test(calls, of_the_next_instruction_or_of_a_place_within_are_none)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, F + 4);
	made_ran(F + 4, TRAIL_CALL, F + 32);
	made_ran(F + 32, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( ) .");
}

Test(calls, of_the_next_instruction_are_none_without_names_too)
{
	made_ran(MAIN, TRAIL_CALL, ELSEWHERE);
	made_ran(ELSEWHERE, TRAIL_CALL, ELSEWHERE + 4);
	made_ran(ELSEWHERE + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( 500000( ) .");
}

/* Nobody knows who waits for f, but it is not f. */
Test(calls, of_a_place_within_are_none_at_the_beginning_too)
{
	made_ran(F, TRAIL_CALL, F + 32);
	made_ran(F + 32, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_FALL, 0);
	history("?f( .");
}

/* swap() returns on another stack, whose first function begins so; then back and forth. */
Test(calls, on_other_stacks_do_no_harm)
{
	made_ran(MAIN, TRAIL_CALL, SWAP);
	made_ran(SWAP, TRAIL_RETURN, 0);
	made_ran(F, TRAIL_CALL, SWAP);
	made_ran(SWAP, TRAIL_RETURN, 0);
	for (int i = 0; i < 1000; i++) {
		made_ran(MAIN + 4, TRAIL_CALL, SWAP);
		made_ran(SWAP, TRAIL_RETURN, 0);
		made_ran(F + 4, TRAIL_CALL, G);
		made_ran(G, TRAIL_RETURN, 0);
		made_ran(F + 8, TRAIL_JUMP, F);
		made_ran(F, TRAIL_CALL, SWAP);
		made_ran(SWAP, TRAIL_RETURN, 0);
		made_ran(MAIN + 4, TRAIL_JUMP, MAIN + 4);
	}
	read_back(0);
	for (struct call_change change; calls_next(&calls, &change) > 0;) {
		cr_assert_lt(change.depth, 4);
		if (change.kind == CALL_ENTER && change.frame->index < 2 + 8 * 3)
			put_change(&change);
	}
	cr_expect(strstr(text, "?main( swap( =f( swap( swap( ?f( g( swap( swap( ?f( ") == text,
		  "%s", text);
}

Test(calls, are_unsure_after_a_loss_until_one_is_returned_to)
{
	struct call_change change;
	int unsure = 0, sure = 0;

	main_calls_f();
	made_ran(F, TRAIL_CALL, G);
	made_event(TRAIL_LOST, 0, 0, 17, 0);
	made_ran(F + 32, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	made_ran(MAIN + 8, TRAIL_FALL, 0);
	read_back(1);
	while (calls_next(&calls, &change) > 0) {
		if (change.kind == CALL_BLOCK && change.item->index == 2)
			unsure = calls_is_unsure(&calls, 0) && calls_is_unsure(&calls, 1);
		if (change.kind == CALL_BLOCK && change.item->index == 3)
			sure = !calls_is_unsure(&calls, 0);
		if (change.kind == CALL_ENTER || change.kind == CALL_LEAVE)
			put_change(&change);
	}
	cr_expect_str_eq(text, "?main( f( ) .");
	cr_expect(unsure);
	cr_expect(sure);
}

Test(calls, are_lost_where_a_loss_leads_elsewhere)
{
	main_calls_f();
	made_event(TRAIL_LOST, 0, 0, 17, 0);
	made_ran(SWAP + 8, TRAIL_FALL, 0);
	history("?main( ~ ?swap( .");
}

Test(calls, out_of_what_is_not_recorded_are_found)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, ELSEWHERE);
	made_event(TRAIL_GAP, 0, 0, TRAIL_GAP_NATIVE, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_event(TRAIL_GAP, 0, 0, TRAIL_GAP_NATIVE, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_event(TRAIL_GAP, F + 4, 0, TRAIL_GAP_NATIVE, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( ?g( ) ?g( ) ) .");
}

/*
 * By other modules' code: f() calls what calls f() again, and g(), which returns there; that
 * returns for f(), too.
 */
Test(calls, by_way_of_modules_that_were_not_chosen_are_calls)
{
	main_calls_f();
	made_ran(F, TRAIL_CALL, ELSEWHERE);
	made_event(TRAIL_GAP, F, 0, TRAIL_GAP_ELSEWHERE, 0);
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_RETURN, 0);
	made_event(TRAIL_GAP, F + 4, 0, TRAIL_GAP_ELSEWHERE, 0);
	made_ran(F + 4, TRAIL_JUMP, ELSEWHERE);
	made_event(TRAIL_GAP, MAIN + 4, 0, TRAIL_GAP_ELSEWHERE, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( f( f( g( ) ) ) .");
}

/*
 * The outermost frame's return address is unknown, which is no address: not even 0, where a file
 * may have code.
 */
Test(calls, return_to_0_as_to_any_other_place)
{
	made_ran(MAIN, TRAIL_RETURN, 0);
	made_ran(0, TRAIL_RETURN, 0);
	made_ran(G + 4, TRAIL_FALL, 0);
	history("?main( ) ?0( ) ?g( .");
}

Test(calls, lost_on_the_way_to_0_are_lost)
{
	made_ran(MAIN, TRAIL_FALL, 0);
	made_event(TRAIL_LOST, 0, 0, 0, 0);
	made_ran(0, TRAIL_FALL, 0);
	history("?main( ~ ?0( .");
}

Test(calls, end_where_another_program_takes_the_place)
{
	main_calls_f();
	made_ran(F, TRAIL_SYSCALL, 0);
	made_event(TRAIL_EXEC, 0, 0, 0, 0);
	made_ran(MAIN, TRAIL_FALL, 0);
	history("?main( f( x x ?main( .");
}

Test(calls, go_on_over_what_changes_nothing)
{
	main_calls_f();
	made_event(TRAIL_DEPART, F, 0, 0, 0);
	made_event(TRAIL_ARRIVE, F, 0, 0, 0);
	made_ran(F, TRAIL_SYSCALL, 0);
	made_event(TRAIL_FORK, F + 4, 0, 7, 0);
	made_event(TRAIL_SYSCALLED, F + 4, 0, SYS_fork, 7);
	made_ran(F + 4, TRAIL_CALL, G);
	made_event(TRAIL_SIGNAL, G, 0, 17, 0); /* no handler */
	made_ran(G, TRAIL_RETURN, 0);
	made_event(TRAIL_DEPART, F + 8, 0, 0, 0);
	made_event(TRAIL_ARRIVE, F + 8, 0, 0, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	made_event(TRAIL_END, 0, 0, TRAIL_EXITED, 0);
	history("?main( f( g( ) ) .");
}

Test(calls, of_nameless_code_are_told_apart_by_address)
{
	made_ran(MAIN, TRAIL_CALL, ELSEWHERE);
	made_ran(ELSEWHERE, TRAIL_CALL, ELSEWHERE + 64);
	made_ran(ELSEWHERE + 64, TRAIL_JUMP, ELSEWHERE + 128);
	made_ran(ELSEWHERE + 128, TRAIL_RETURN, 0);
	made_ran(ELSEWHERE + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	history("?main( 500000( 500040( ) ) .");
}

Test(calls, of_a_range_know_what_was_before)
{
	struct trail_range range;
	struct call_change change;

	main_calls_f();
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	read_back(0);
	trail_range_init(&range, made.reader, &made.trails.paths[0],
			 &(struct trail_bound){ TRAIL_BOUND_BLOCK, 3 },
			 &(struct trail_bound){ TRAIL_BOUND_BLOCK, 6 });
	cr_assert_eq(calls_range(&calls, &range), 0);
	cr_assert_eq(calls.depth, 3);
	cr_expect_str_eq(calls.frames[1].function->name, "f");
	cr_expect_eq(calls.blocks, 3);
	while (calls_next(&calls, &change) > 0)
		put_change(&change);
	cr_expect_str_eq(text, ") g( ) . .");
	cr_expect_eq(calls.blocks, 6);
}

/* More than the stack has room for is counted, and comes back to where it was. */
Test(calls, are_bounded_in_depth)
{
	uint32_t deep = CALLS_DEPTH_MAX + 1000, most = 0;
	struct call_change change;
	uint64_t enters = 0, leaves = 0;

	main_calls_f();
	for (uint32_t i = 0; i < deep; i++)
		made_ran(F, TRAIL_CALL, F);
	made_ran(F, TRAIL_RETURN, 0);
	for (uint32_t i = 0; i < deep; i++)
		made_ran(F + 4, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	read_back(0);
	while (calls_next(&calls, &change) > 0) {
		most = change.depth > most ? change.depth : most;
		enters += change.kind == CALL_ENTER;
		leaves += change.kind == CALL_LEAVE;
	}
	cr_expect_eq(most, CALLS_DEPTH_MAX - 1);
	cr_expect_eq(enters, CALLS_DEPTH_MAX);
	cr_expect_eq(leaves, CALLS_DEPTH_MAX);
	cr_expect_eq(calls.beyond, 0);
	cr_expect_eq(calls.beyond_ever, 1002);
}
