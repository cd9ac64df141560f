/* SPDX-License-Identifier: MIT */
#include "agent/detour/trial.h"

#include "agent/control/lock.h"
#include "agent/marker/bed.h"
#include "agent/store/store.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct trial_wish named(const struct trial_wish *wish, const char *name)
{
	struct trial_wish other = *wish;

	other.name = name;
	return other;
}

/* ---- tests ---- */

Test(chain, two_events_at_one_point_are_both_recorded)
{
	struct trial_wish two = trial_victim_wish;
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	two.argument = 2;
	two.name = "two";
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trial_victim(41), 42);
	trial_arm_detour(&two);
	cr_assert_eq(trial_victim(42), 43);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_last[0], 42);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_last[0], 42);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0) + trial_events(1), 3);
	/* the second alone: by way of the first, which records nothing */
	trial_arm_detour(&two);
	cr_assert_eq(trial_victim(5), 6);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_events(1), 2);
	cr_assert_eq(trial_let_go(), 0);
}

Test(chain, both_come_in_one_batch_in_any_number)
{
	struct trial_wish wishes[3];
	struct detour_result result;
	union trial_record record;

	trial_begin();
	for (int i = 0; i < 3; i++) {
		wishes[i] = named(&trial_victim_wish, (const char *[]){ "a", "b", "c" }[i]);
		trial_compose(&record, &wishes[i]);
		cr_assert_eq(trial_place(&record), 0);
	}
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 3);
	cr_assert_eq(result.sites, 1, "one jump");
	cr_assert_eq(trial_victim(1), 2);
	for (uint32_t id = 0; id < 3; id++)
		cr_assert_eq(trial_events(id), 1);
	cr_assert_eq(trial_let_go(), 0);
}

Test(chain, a_session_that_ends_leaves_the_other_its_event)
{
	struct trial_wish other = named(&trial_victim_wish, "other");
	uint8_t before[16];

	trial_begin();
	trial_other_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	for (int turn = 0; turn < 2; turn++) {
		uint64_t had = trial_events(0), others = trial_other_events();

		/* whose is the jump, and whose the link: either way */
		trial_arm_detour(&trial_victim_wish);
		trial_other_arm(&other);
		trial_victim(1);
		cr_assert_eq(trial_events(0), had + 1);
		cr_assert_eq(trial_other_events(), others + 1);
		if (turn) {
			trial_other_let_go();
			trial_victim(2);
			cr_assert_eq(trial_events(0), had + 2);
			cr_assert_eq(trial_other_events(), others + 1);
			cr_assert_eq(trial_let_go(), 0);
		} else {
			trial_let_go();
			cr_assert_eq(*(uint8_t *)trial_victim, 0xe9);
			trial_victim(2);
			cr_assert_eq(trial_events(0), had + 1);
			cr_assert_eq(trial_other_events(), others + 2);
			cr_assert_eq(trial_other_last, 2);
			cr_assert_eq(trial_other_let_go(), 0);
		}
		cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	}
}

/* Both sessions record what is wished; then the first lets go, and the other's goes on. */
static void first_lets_go(const struct trial_wish *mine, const struct trial_wish *other)
{
	trial_arm_detour(mine);
	trial_other_arm(other);
	trial_victim(1);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_other_events(), 1);
	trial_let_go();
	trial_victim(2);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_other_events(), 2);
}

Test(chain, two_sessions_have_the_same_event)
{
	trial_begin();
	trial_other_begin();
	first_lets_go(&trial_victim_wish, &trial_victim_wish);
	cr_assert_eq(trial_other_let_go(), 0);
	cr_assert_neq(*(uint8_t *)trial_victim, 0xe9);
}

Test(chain, an_entry_and_a_return_are_two_events)
{
	struct trial_wish returning = named(&trial_victim_wish, "returning");
	struct trial_wish again = named(&trial_victim_wish, "again");

	trial_begin();
	returning.flags = DETOUR_RETURN | DETOUR_SECRETIVE;
	returning.argument = 0;
	again.flags = DETOUR_RETURN | DETOUR_SECRETIVE;
	again.argument = 0;
	trial_arm_detour(&trial_victim_wish);
	trial_arm_detour(&returning);
	trial_arm_detour(&again);
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 41);
	for (uint32_t id = 1; id < 3; id++) {
		cr_assert_eq(trial_events(id), 1);
		cr_assert_eq(trial_last[0], 42);
	}
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(trial_victim(41), 42);
}

Test(chain, relays_and_punned_jumps_have_chains_too)
{
	const struct trial_wish *const wishes[] = { &trial_short_wish, &trial_tight_wish };
	long (*const functions[])(long) = { trial_short, trial_tight };
	uint8_t before[2][24];
	uint32_t id = 0;

	trial_begin();
	for (int i = 0; i < 2; i++) {
		struct trial_wish other = named(wishes[i], "other");

		memcpy(before[i], (void *)functions[i], sizeof before[i]);
		trial_arm_detour(wishes[i]);
		trial_arm_detour(&other);
		cr_assert_eq(functions[i](41), 42);
		cr_assert_eq(trial_events(id++), 1);
		cr_assert_eq(trial_events(id++), 1);
	}
	cr_assert_eq(trial_let_go(), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_arr_eq((void *)functions[i], before[i], sizeof before[i]);
}

static uint16_t semaphores[2];

Test(chain, each_has_its_semaphore)
{
	struct trial_wish one = trial_victim_wish, two = named(&trial_victim_wish, "two");

	trial_begin();
	one.semaphore = &semaphores[0];
	two.semaphore = &semaphores[1];
	trial_arm_detour(&one);
	cr_assert_eq(semaphores[0], 1);
	cr_assert_eq(semaphores[1], 0);
	trial_arm_detour(&two);
	cr_assert_eq(semaphores[0], 1);
	cr_assert_eq(semaphores[1], 1);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(semaphores[0], 0);
	cr_assert_eq(semaphores[1], 0);
}

Test(chain, is_of_one_point_and_of_bounded_length)
{
	union trial_record record;
	char name[16];
	int error = 0, count = 0;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	trial_compose(&record, &trial_victim_wish);
	record.head.point += 3;
	cr_assert_eq(trial_place(&record), -WM_E_DETOUR_TAKEN);
	trial_compose(&record, &trial_victim_wish);
	record.head.link_at = 0;
	cr_assert_eq(trial_place(&record), -WM_E_DETOUR_TAKEN);
	for (; !error && count < 100; count++) {
		struct trial_wish wish = named(&trial_victim_wish, name);

		snprintf(name, sizeof name, "name%d", count);
		trial_compose(&record, &wish);
		error = trial_place(&record);
	}
	cr_assert_eq(error, -WM_E_DETOUR_TAKEN);
	cr_assert_eq(count, 16);
	cr_assert_eq(trial_victim(1), 2);
}

Test(chain, is_of_those_that_replace_the_same_in_the_same_way)
{
	union trial_record good, bad;

	trial_begin();
	trial_arm_detour(&trial_short_wish);
	trial_compose(&good, &trial_short_wish);
	cr_assert_not_null(chain_find(&good.head));
#define ANOTHER(change)                                                                            \
	do {                                                                                       \
		bad = good;                                                                        \
		change;                                                                            \
		cr_assert_null(chain_find(&bad.head), #change);                                    \
	} while (0)
	ANOTHER(bad.head.address++);
	ANOTHER(bad.head.point++);
	ANOTHER(bad.head.span_bytes++);
	ANOTHER(bad.head.relay++);
	ANOTHER(bad.head.pun++);
	ANOTHER(bad.head.tier = TIER_ONE);
	ANOTHER(bad.head.link_at = 0);
	ANOTHER(bad.head.original[0] ^= 1);
	ANOTHER(bad.head.original[good.head.span_bytes + DETOUR_RELAY_BYTES - 1] ^= 1);
#undef ANOTHER
}

Test(chain, damaged_links_are_refused)
{
	union trial_record good, bad;

	trial_begin();
	trial_compose(&good, &trial_victim_wish);
	bad = good;
	bad.head.link_at++;
	cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL, "no link there");
	bad = good;
	bad.head.event_at = (uint16_t)(bad.head.link_at + 1);
	cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL, "behind its link");
	bad = good;
	bad.head.link_at = (uint16_t)(bad.head.code_bytes - 4);
	cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL, "past the end");
}

/* ---- several points in one span ---- */

#define POINTS 3

static const char *const point_names[POINTS] = { "first", "second", "third" };

/* Of trial_victim's: before its first instruction, before its second, behind both. */
static struct trial_wish pointed(unsigned int which)
{
	static const uint8_t points[POINTS] = { 0, 3, 7 };
	struct trial_wish wish = named(&trial_victim_wish, point_names[which]);

	wish.point = points[which];
	for (unsigned int i = 0; i < POINTS; i++)
		if (i != which)
			wish.others[wish.other_count++] = points[i];
	return wish;
}

/* They come one after the other, in this order, whatever stands already. */
static void come_in_order(const unsigned int order[POINTS])
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	for (int count = 0; count < POINTS; count++) {
		struct trial_wish wish = pointed(order[count]);

		trial_arm_detour(&wish);
		cr_assert_eq(trial_victim(count), count + 1);
	}
	for (uint32_t id = 0; id < POINTS; id++)
		cr_assert_eq(trial_events(id), POINTS - id);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	cr_assert_eq(trial_victim(41), 42);
	/* and again one alone: the others are passed, and record nothing */
	for (uint32_t id = 0; id < POINTS; id++) {
		struct trial_wish wish = pointed(order[id]);

		trial_arm_detour(&wish);
		cr_assert_eq(trial_victim(41), 42);
		cr_assert_eq(trial_events(id), POINTS - id + 1);
		cr_assert_eq(trial_let_go(), 0);
	}
}

Test(chain, points_of_one_span_come_forwards)
{
	come_in_order((const unsigned int[]){ 0, 1, 2 });
}

Test(chain, points_of_one_span_come_backwards)
{
	come_in_order((const unsigned int[]){ 2, 1, 0 });
}

Test(chain, points_of_one_span_come_from_the_middle)
{
	come_in_order((const unsigned int[]){ 1, 0, 2 });
}

Test(chain, points_of_one_span_come_to_the_middle)
{
	come_in_order((const unsigned int[]){ 2, 0, 1 });
}

Test(chain, every_point_has_a_chain_of_its_own)
{
	struct trial_wish wishes[2 * POINTS];
	struct detour_result result;
	union trial_record record;

	trial_begin();
	for (unsigned int i = 0; i < 2 * POINTS; i++) {
		wishes[i] = pointed((i + 1) % POINTS);
		if (i >= POINTS)
			wishes[i].name = "again";
		trial_compose(&record, &wishes[i]);
		cr_assert_eq(trial_place(&record), 0);
	}
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 2 * POINTS);
	cr_assert_eq(result.sites, 1, "one jump");
	cr_assert_eq(trial_victim(41), 42);
	for (uint32_t id = 0; id < 2 * POINTS; id++)
		cr_assert_eq(trial_events(id), 1);
	cr_assert_eq(trial_let_go(), 0);
}

Test(chain, points_of_one_span_are_let_go_one_by_one)
{
	struct trial_wish mine = pointed(1), other = pointed(0);
	uint8_t before[16];

	trial_begin();
	trial_other_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	first_lets_go(&mine, &other);
	trial_arm_detour(&mine);
	trial_other_let_go();
	trial_victim(3);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_other_events(), 2);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
}

Test(chain, a_point_that_it_does_not_know_is_refused)
{
	struct trial_wish wish = pointed(1);
	union trial_record record;

	trial_begin();
	wish.other_count--; /* the third */
	trial_arm_detour(&wish);
	for (unsigned int i = 0; i < 2; i++) {
		wish = pointed(2);
		wish.other_count -= i;
		trial_compose(&record, &wish);
		cr_assert_eq(trial_place(&record), -WM_E_DETOUR_TAKEN);
	}
}

Test(chain, damaged_points_are_refused)
{
	struct trial_wish wish = pointed(1);
	union trial_record good, bad;
	struct detour_link *links;

	trial_begin();
	trial_compose(&good, &wish);
	for (int damage = 0; damage < 7; damage++) {
		bad = good;
		links = (struct detour_link *)(uintptr_t)detour_links(&bad.head);
		switch (damage) {
		case 0:
			bad.head.link_count = 3; /* the texts are elsewhere then */
			break;
		case 1:
			bad.head.link_count = 255;
			break;
		case 2:
			links[0].at++;
			break;
		case 3:
			links[1].at = (uint16_t)(bad.head.code_bytes - 1);
			break;
		case 4:
			links[1].point = 8;
			break;
		case 5:
			links[0].point = 3; /* its own */
			break;
		case 6:
			links[1].point = 0;
			break;
		}
		cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL, "damage %d", damage);
	}
	bad = good;
	bad.head.link_at = 0;
	cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL);
	cr_assert_eq(trial_place(&good), 0);
}

/* ---- while threads run ---- */

#define THREADS 4

static void grow_while_threads_run(unsigned int points)
{
	char name[16];

	trial_begin();
	trial_other_begin();
	trial_runners_start(trial_victim, THREADS);
	for (unsigned int i = 0; i < 15; i++) {
		struct trial_wish wish = points ? pointed(i * 2 % points) : trial_victim_wish;

		wish.name = name;
		snprintf(name, sizeof name, "name%u", i);
		if (i % 2)
			trial_other_arm(&wish);
		else
			trial_arm_detour(&wish);
		if (i % 5 == 4)
			cr_assert_eq(trial_let_go() + trial_other_let_go(), 0);
	}
	trial_let_go();
	trial_other_let_go();
	trial_runners_end();
	cr_assert_neq(*(uint8_t *)trial_victim, 0xe9);
}

Test(chain, grows_while_threads_run_through_it, .timeout = 60)
{
	grow_while_threads_run(0);
}

Test(chain, grows_at_several_points_while_threads_run_through_it, .timeout = 60)
{
	grow_while_threads_run(POINTS);
}
