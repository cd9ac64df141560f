/* SPDX-License-Identifier: MIT */
#include "inside/detour/testing/fixture.h"

#include "inside/marker/testing/fixture.h"
#include "inside/runtime/heap.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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

/* Both sessions record what is wished. Then the first lets go, and the other continues. */
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

Test(chain, two_events_share_a_jump_of_each_form)
{
	const struct trial_wish *const wishes[] = { &trial_first_wish, &trial_behind_wish,
						    &trial_pushes_wish };
	long (*const functions[])(long) = { trial_first, trial_behind, trial_pushes };
	uint8_t before[3][24];
	uint32_t id = 0;

	trial_begin();
	for (int i = 0; i < 3; i++) {
		struct trial_wish other = named(wishes[i], "other");

		memcpy(before[i], (void *)functions[i], sizeof before[i]);
		trial_arm_detour(wishes[i]);
		trial_arm_detour(&other);
		cr_assert_eq(functions[i](41), 42);
		cr_assert_eq(trial_events(id++), 1);
		cr_assert_eq(trial_events(id++), 1);
	}
	cr_assert_eq(trial_let_go(), 0);
	for (int i = 0; i < 3; i++)
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

Test(chain, seventeenth_event_is_refused)
{
	union trial_record record;
	char name[16];
	int error = 0, count = 0;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	for (; !error && count < 100; count++) {
		struct trial_wish wish = named(&trial_victim_wish, name);

		snprintf(name, sizeof name, "name%d", count);
		trial_compose(&record, &wish);
		error = trial_place(&record);
	}
	cr_assert_eq(error, -WM_E_DETOUR_TAKEN);
	cr_assert_eq(count, DETOUR_CHAIN_MAX);
	cr_assert_eq(trial_victim(1), 2);
}

Test(chain, find_needs_same_bytes)
{
	union trial_record good, bad;

	trial_begin();
	trial_arm_detour(&trial_pushes_wish);
	trial_compose(&good, &trial_pushes_wish);
	cr_assert_not_null(chain_find(&good.head));
#define ANOTHER(change)                                                                            \
	do {                                                                                       \
		bad = good;                                                                        \
		change;                                                                            \
		cr_assert_null(chain_find(&bad.head), #change);                                    \
	} while (0)
	ANOTHER(bad.head.address++);
	ANOTHER(bad.head.insn_bytes++);
	ANOTHER(bad.head.link_at = 0);
	ANOTHER(bad.head.original[0] ^= 1);
	ANOTHER(bad.head.original[bad.head.insn_bytes] ^= 1);
	ANOTHER(bad.head.original[detour_owned(&bad.head) - 1] ^= 1);
	ANOTHER(bad.head.kept_bytes--);
	ANOTHER(bad.head.starts ^= 1);
#undef ANOTHER
	bad = good;
	bad.head.point++;
	cr_assert_not_null(chain_find(&bad.head), "the nop before it changes nothing");
	bad.head.stack_bytes = 0;
	cr_assert_not_null(chain_find(&bad.head), "the stack is the same behind each event");
}

static void expect_link(const struct detour *from, const struct detour *to)
{
	const uint8_t *link = (const uint8_t *)from->code + from->record->link_at;
	static const uint8_t none[] = DETOUR_LINK;
	int32_t far;

	if (!to) {
		cr_assert_arr_eq(link, none, sizeof none);
		return;
	}
	memcpy(&far, link + 3, sizeof far);
	cr_assert_eq((uintptr_t)link + DETOUR_LINK_BYTES + (uintptr_t)(intptr_t)far, to->code);
	cr_assert_eq(link[1], 0, "the short jump leads to the long one");
}

Test(chain, link_leads_to_next_event_after_commit)
{
	struct trial_wish two = named(&trial_victim_wish, "two");
	struct trial_wish three = named(&trial_victim_wish, "three");
	struct detour_result result;
	struct detour *head;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	head = detour_first();
	cr_assert_eq(trial_try(&two), 0);
	cr_assert_eq(trial_try(&three), 0);
	expect_link(head, NULL);
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.stopped_ns, 0);
	expect_link(head, head->next_member);
	expect_link(head->next_member, head->next_member->next_member);
	expect_link(head->next_member->next_member, NULL);
	cr_assert_eq(trial_let_go(), 0);
	expect_link(head, head->next_member);
}

Test(chain, join_out_of_reach_is_refused)
{
	struct detour another = { 0 };

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	another.code = detour_first()->code + 256;
	cr_assert_eq(chain_join(detour_first(), &another), 0);
	cr_assert_eq(another.head, detour_first());
	another.code += UINT64_C(4) << 30;
	cr_assert_eq(chain_join(detour_first(), &another), -WM_E_DETOUR_REACH);
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
	bad.head.link_at = (uint16_t)(bad.head.code_bytes - 4);
	cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL, "past the end");
}

/* ---- while threads run ---- */

#define THREADS 4

Test(chain, grows_while_threads_run_through_it, .timeout = 60)
{
	char name[16];

	trial_begin();
	trial_other_begin();
	trial_runners_start(trial_victim, THREADS);
	for (unsigned int i = 0; i < 15; i++) {
		struct trial_wish wish = named(&trial_victim_wish, name);

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

/* From here on the agent's heap has nothing. */
static void exhaust_heap(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = 1;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	for (size_t bytes = 32768; bytes >= 16; bytes /= 2) {
		while (heap_alloc(bytes))
			;
		while (heap_alloc(bytes * 3 / 4))
			;
	}
}

Test(chain, session_whose_plan_has_no_memory_hears_that)
{
	struct rlimit limit;

	trial_begin();
	trial_other_begin();
	trial_arm_detour(&trial_victim_wish);
	trial_other_arm(&trial_victim_wish);
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_told.refusals, 0);
	exhaust_heap();
	trial_other_let_go();
	cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_expect_eq(trial_told.refusals, 1);
	cr_expect_eq(trial_told.refusal[0].error, -ENOMEM);
	cr_assert_eq(trial_victim(41), 42);
	cr_expect_eq(trial_events(0), 1);
}
