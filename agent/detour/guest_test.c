/* SPDX-License-Identifier: MIT */
#include "agent/detour/trial.h"

#include "agent/detour/memory.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Events in a chain whose span isn't theirs. */

#define POINTS 3
#define SECOND_AT 3
#define THREADS 4

static const uint8_t second_steps[] = { 4, 1 };
static uint8_t before[16];

/* Of trial_victim's: before its first instruction, before its second, behind both. Some of them in one span. */
static struct trial_wish pointed(unsigned int which, unsigned int count)
{
	static const uint8_t points[POINTS] = { 0, SECOND_AT, 7 };
	static const char *const names[POINTS] = { "first", "second", "third" };
	struct trial_wish wish = trial_victim_wish;

	wish.name = names[which];
	wish.point = points[which];
	for (unsigned int i = 0; i < count; i++)
		if (i != which)
			wish.others[wish.other_count++] = points[i];
	return wish;
}

/* The second alone: in a span that begins with it. */
static struct trial_wish second_alone(void)
{
	struct trial_wish wish = {
		.function = (void (*)(void))((uintptr_t)trial_victim + SECOND_AT),
		.span = 5,
		.steps = second_steps,
		.step_count = 2,
		.argument = 1,
		.name = "alone",
	};

	return wish;
}

static int try(const struct trial_wish *wish)
{
	union trial_record record;

	trial_compose(&record, wish);
	return trial_place(&record);
}

static void begin(void)
{
	struct trial_wish alone = second_alone();
	union trial_record record;

	/* what stands there before anything is armed */
	trial_compose(&record, &alone);
	trial_begin();
	trial_other_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
}

static void hit(uint64_t mine, uint64_t others)
{
	static uint64_t all_mine, all_others;

	cr_assert_eq(trial_victim(41), 42);
	all_mine += mine;
	all_others += others;
	/* with its own jump it is another event than as a guest */
	cr_assert_eq(trial_events(0) + trial_events(1), all_mine);
	cr_assert_eq(trial_other_events(), all_others);
	cr_assert(!mine || trial_last[0] == 41);
}

static void end(void)
{
	cr_assert_eq(trial_let_go() + trial_other_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	cr_assert_eq(trial_victim(41), 42);
}

/* The other session has `theirs` points of the span, of which the guest's is one. */
static void come_as_guest(const struct trial_wish *wish, unsigned int theirs)
{
	begin();
	for (unsigned int i = 0; i < theirs; i++) {
		struct trial_wish there = pointed(i, POINTS);

		trial_other_arm(&there);
	}
	trial_arm_detour(wish);
	hit(1, theirs);
	/* those that come later are passed, too */
	for (unsigned int i = theirs; i < POINTS; i++) {
		struct trial_wish there = pointed(i, POINTS);

		trial_other_arm(&there);
		hit(1, i + 1);
	}
	trial_other_let_go();
	hit(1, 0);
	for (unsigned int i = POINTS; i-- > 0;) {
		struct trial_wish there = pointed(i, POINTS);

		trial_other_arm(&there);
		hit(1, POINTS - i);
	}
	trial_let_go();
	hit(0, POINTS);
	trial_arm_detour(wish);
	hit(1, POINTS);
	end();
}

Test(guest, comes_to_the_first_point_of_a_span_that_has_several)
{
	come_as_guest(&trial_victim_wish, POINTS);
}

Test(guest, comes_to_a_point_in_the_middle)
{
	struct trial_wish wish = second_alone();

	come_as_guest(&wish, POINTS);
}

Test(guest, comes_to_a_point_at_which_no_event_is)
{
	struct trial_wish wish = second_alone();

	come_as_guest(&wish, 1);
}

Test(guest, comes_with_its_return)
{
	struct trial_wish wish = trial_victim_wish;
	struct trial_wish there = pointed(1, POINTS);

	begin();
	trial_other_arm(&there);
	wish.flags = DETOUR_RETURN;
	trial_arm_detour(&wish);
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_last[0], 42);
	end();
}

Test(guest, knows_more_points_than_the_span_that_stands)
{
	struct trial_wish wish = pointed(0, POINTS), more;

	begin();
	trial_other_arm(&trial_victim_wish);
	trial_arm_detour(&wish);
	hit(1, 1);
	for (unsigned int i = 1; i < POINTS; i++) {
		more = pointed(i, POINTS);
		cr_assert_eq(try(&more), -WM_E_DETOUR_TAKEN);
	}
	more = trial_victim_wish;
	more.name = "more";
	trial_other_arm(&more);
	hit(1, 2);
	end();
}

Test(guest, has_a_jump_of_its_own_when_its_host_is_gone)
{
	struct trial_wish wish = second_alone(), there = pointed(1, POINTS);
	size_t bytes = 0;

	begin();
	for (int turn = 0; turn < 6; turn++) {
		trial_other_arm(&there);
		trial_arm_detour(&wish);
		hit(1, 1);
		cr_assert_eq(trial_let_go() + trial_other_let_go(), 0);
		trial_arm_detour(&wish);
		cr_assert_eq(*(uint8_t *)trial_victim, before[0]);
		cr_assert_eq(((uint8_t *)trial_victim)[SECOND_AT], 0xe9);
		hit(1, 0);
		/* now it is the host */
		trial_other_arm(&there);
		hit(1, 1);
		trial_let_go();
		hit(0, 1);
		cr_assert_eq(trial_let_go() + trial_other_let_go(), 0);
		cr_assert(turn < 2 || memory_mapped() == bytes, "each has its memory once");
		bytes = memory_mapped();
	}
	end();
}

Test(guest, is_none_without_a_link_or_a_point)
{
	union trial_record record;
	struct trial_wish there = pointed(1, POINTS);

	begin();
	trial_other_arm(&there);
	trial_compose(&record, &trial_victim_wish);
	cr_assert_not_null(chain_host(&record.head));
	record.head.link_at = 0;
	cr_assert_null(chain_host(&record.head));
	trial_compose(&record, &trial_victim_wish);
	record.head.point++;
	cr_assert_null(chain_host(&record.head));
	trial_compose(&record, &trial_victim_wish);
	trial_other_let_go();
	cr_assert_null(chain_host(&record.head));
	end();
}

/* ---- while threads run ---- */

Test(guest, comes_and_goes_while_threads_run, .timeout = 60)
{
	struct detour_result result;
	struct trial_wish wishes[5];

	for (unsigned int i = 0; i < POINTS; i++)
		wishes[i] = pointed(i, POINTS);
	wishes[3] = trial_victim_wish;
	wishes[4] = second_alone();
	begin();
	srand(1);
	trial_runners_start(trial_victim, THREADS);
	for (unsigned int i = 0; i < 100; i++) {
		switch (rand() % 4) {
		case 0:
			cr_assert_leq(trial_let_go(), 1);
			break;
		case 1:
			cr_assert_leq(trial_other_let_go(), 1);
			break;
		case 2:
			if (!try(&wishes[rand() % 5]))
				cr_assert_eq(trial_commit(&result), 0);
			break;
		case 3:
			trial_other_try(&wishes[rand() % 5]);
			break;
		}
	}
	trial_let_go();
	trial_other_let_go();
	trial_runners_end();
	end();
}
