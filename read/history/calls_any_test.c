/* SPDX-License-Identifier: MIT */
/* A thread that goes anywhere, as no program would: what must hold of its calls all the same. */
#include "read/history/calls.h"
#include "read/history/testing/made.h"

#include <criterion/criterion.h>
#include <sys/syscall.h>

static void begin(void)
{
	made_begin();
}

static void end(void)
{
	made_end();
}

TestSuite(calls_any, .init = begin, .fini = end);

static uint64_t seed;

static uint64_t any(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

static uint64_t anywhere(void)
{
	static const uint64_t places[] = { MAIN,  F,	   G,	 LONGJMP,  SETJMP,   F_COLD,
					   THUNK, HANDLER, SWAP, NAMELESS, ELSEWHERE };

	/* mostly a beginning, or behind a block */
	return places[any(sizeof(places) / sizeof(places[0]))] + 4 * any(any(2) ? 3 : 10);
}

/* A thread that does whatever a trail may say, with no sense at all. */
static void ran_wildly(int items)
{
	uint64_t at = anywhere();

	for (int i = 0; i < items; i++) {
		enum trail_kind kind = (enum trail_kind)any(TRAIL_STOP);
		uint64_t to = anywhere();

		if (kind == TRAIL_FALL || kind == TRAIL_SYSCALL)
			to = at + 4;
		made_ran(at, kind, kind <= TRAIL_CALL && kind != TRAIL_FALL ? to : 0);
		if (kind == TRAIL_BRANCH && any(2))
			to = at + 4;
		at = to;
		switch (any(16)) {
		case 0:
			made_event(TRAIL_SIGNAL, at, 0, 10, HANDLER);
			at = HANDLER;
			break;
		case 1:
			if (kind != TRAIL_SYSCALL)
				break;
			at = anywhere();
			made_event(TRAIL_SYSCALLED, at, 0, any(2) ? SYS_rt_sigreturn : 1, 0);
			break;
		case 2:
			made_event(any(2) ? TRAIL_LOST : TRAIL_GAP, 0, 0, 0, 0);
			at = anywhere();
			break;
		case 3:
			made_event(any(8) ? TRAIL_DEPART : TRAIL_EXEC, at, 0, 0, 0);
			break;
		default:
			break;
		}
	}
}

Test(calls_any, come_and_go_in_order_and_count_all_whatever_a_trail_says)
{
	uint64_t blocks = 0, instructions = 0, total = 0;
	struct call_change change;
	struct calls calls;
	uint32_t depth = 0;
	int more;

	seed = 1;
	ran_wildly(200000);
	calls_init(&calls, made_read(), &made.functions, 1);
	while ((more = calls_next(&calls, &change)) > 0) {
		switch (change.kind) {
		case CALL_ENTER:
			cr_assert_eq(change.depth, depth++);
			break;
		case CALL_LEAVE:
			cr_assert_eq(change.depth, --depth);
			blocks += change.frame->blocks;
			instructions += change.frame->instructions;
			if (!depth)
				total += change.frame->total_blocks;
			break;
		case CALL_BLOCK:
			cr_assert_eq(change.depth, depth - 1);
			break;
		default:
			break;
		}
		cr_assert_eq(calls.depth, depth);
		cr_assert_leq(calls.unsure, depth);
	}
	cr_assert_eq(more, 0);
	calls_release(&calls);
	cr_expect_eq(depth, 0);
	cr_expect_eq(blocks, 200000);
	cr_expect_eq(total, 200000);
	cr_expect_eq(instructions, 400000);
}
