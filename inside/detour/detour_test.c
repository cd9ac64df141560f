/* SPDX-License-Identifier: MIT */
#include "inside/detour/memory.h"
#include "inside/detour/testing/fixture.h"

#include "inside/marker/testing/fixture.h"
#include "inside/runtime/reentrancy_guard.h"

#include "inside/store/event_store.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

Test(detour, records_the_argument_and_leaves_the_function_as_it_was)
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(*(uint8_t *)trial_victim, 0xe9);
	cr_assert_eq(trial_told.events, 1);
	cr_assert_str_eq(trial_told.event[0].text, "md\ntrial\nvictim\n?\n0\nvalue");
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 41);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0), 1);
}

/* ---- refusals ---- */

Test(detour, refuses_what_is_not_as_expected)
{
	struct detour_result result;
	union trial_record record;
	uint8_t *kept = trial_jump(&trial_victim_wish) + 4;

	trial_begin();
	trial_compose(&record, &trial_victim_wish);
	record.head.original[4] ^= 1;
	cr_assert_eq(trial_place(&record), -WM_E_SITE_CHANGED);
	/* and if it changes after that */
	trial_compose(&record, &trial_victim_wish);
	cr_assert_eq(trial_place(&record), 0);
	trial_write(kept, *kept ^ 1);
	trial_commit(&result);
	cr_assert_eq(result.markers, 0);
	cr_assert_eq(result.refused, 1);
	cr_assert_eq(trial_told.refusal[0].error, -WM_E_SITE_CHANGED);
	trial_write(kept, *kept ^ 1);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0), 0);
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0), 1);
}

/* trial_victim's second instruction: add $1, %rax. */
static struct trial_wish second(void)
{
	struct trial_wish wish = trial_victim_wish;

	wish.skipped = 3;
	wish.insn_bytes = 4;
	wish.name = "second";
	return wish;
}

Test(detour, refuses_a_place_too_near_to_another_detour)
{
	struct trial_wish next = second();

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trial_try(&next), -WM_E_DETOUR_TAKEN);
	cr_assert_eq(trial_let_go(), 0);
	trial_arm_detour(&next);
	cr_assert_eq(trial_try(&trial_victim_wish), -WM_E_DETOUR_TAKEN);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_let_go(), 0);
	/* both records are known now: still one at a time */
	cr_assert_eq(trial_try(&trial_victim_wish), 0);
	cr_assert_eq(trial_try(&next), -WM_E_DETOUR_TAKEN);
}

Test(detour, unwanted_jump_makes_room)
{
	struct trial_wish next = second();

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	detour_release(
		TRIAL_LANE); /* the jump stays armed until a sweep or another detour removes it */
	cr_assert_eq(*trial_jump(&trial_victim_wish), 0xe9);
	trial_arm_detour(&next);
	cr_assert_neq(*trial_jump(&trial_victim_wish), 0xe9);
	cr_assert_eq(trial_victim(1), 2);
}

/* A marker's bytes change when it is armed: no distance may end in these bytes. */
Test(detour, refuses_bytes_of_a_marker)
{
	struct trial_wish wish = trial_victim_wish;
	const struct module *module;

	trial_begin();
	module = registry_modules();
	while (module && !module->site_count)
		module = module->next;
	cr_assert_not_null(module);
	wish.insn_bytes = 1;
	for (int before = 1; before <= 6; before++) {
		wish.function = (void (*)(void))(module->sites[0].address - (uintptr_t)before);
		cr_assert_eq(trial_try(&wish) == -WM_E_SPAN_MARKER, before < 5, "%d", before);
	}
}

Test(detour, refuses_more_than_its_memory)
{
	union trial_record record;

	trial_begin();
	memory_limit(0);
	trial_compose(&record, &trial_victim_wish);
	cr_assert_eq(trial_place(&record), -WM_E_DETOUR_MEMORY);
	memory_limit(DETOUR_MEMORY_MAX_BYTES);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_gt(memory_mapped(), 0);
}

Test(detour, refuses_what_is_out_of_reach)
{
	union trial_record record;
	struct detour_fixup *fixup;

	trial_begin();
	trial_compose(&record, &trial_victim_wish);
	fixup = (void *)((char *)&record.head + sizeof record.head +
			 ((record.head.code_bytes + 7u) & ~7u));
	cr_assert_eq(fixup->kind, FIXUP_REL32);
	fixup->target += UINT64_C(8) << 30;
	cr_assert_eq(trial_place(&record), -WM_E_DETOUR_REACH);
}

/* Bytes that a peer damaged: anything but a crash. Nothing of it is armed. */
Test(detour, damaged_messages_are_refused)
{
	union trial_record good, bad;
	struct trial_wish wish = trial_victim_wish;
	uint32_t random = 1;
	int taken = 0;

	trial_begin();
	wish.flags = DETOUR_RETURN;
	trial_compose(&good, &wish);
	for (int i = 0; i < 200000; i++) {
		size_t bytes = good.head.bytes;

		bad = good;
		for (int n = 0; n < 1 + i % 3; n++) {
			random = random * 1664525u + 1013904223u;
			((uint8_t *)&bad)[(random >> 8) % bytes] = (uint8_t)(random >> 3);
		}
		/* detours.c checks this first */
		if (bad.head.bytes <= bytes)
			taken += !trial_place(&bad);
	}
	cr_log_info("%d of 200000 were good enough", taken);
	for (uint32_t bytes = 0; bytes < good.head.bytes; bytes += 8) {
		bad = good;
		bad.head.bytes = bytes;
		cr_assert_eq(trial_place(&bad), -WM_E_PROTOCOL);
	}
	cr_assert_eq(trial_victim(1), 2);
}

/* ---- semaphores, strings, children ---- */

static uint16_t semaphore;

Test(detour, counts_its_semaphore_up_and_down)
{
	struct trial_wish wish = trial_victim_wish;

	trial_begin();
	wish.semaphore = &semaphore;
	semaphore = 7;
	trial_arm_detour(&wish);
	cr_assert_eq(semaphore, 8);
	trial_arm_detour(&wish);
	cr_assert_eq(semaphore, 8, "once, however often it is asked for");
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(semaphore, 7);
}

/* Otherwise the program would keep computing arguments that no session records. */
Test(detour, counts_its_semaphore_down_where_it_is_refused)
{
	struct trial_wish wish = trial_victim_wish;
	struct detour_result result = { 0 };
	uint8_t *at;

	trial_begin();
	wish.semaphore = &semaphore;
	semaphore = 7;
	cr_assert_eq(trial_try(&wish), 0);
	at = trial_jump(&wish) + 4;
	trial_write(at, *at ^ 1u); /* a byte that it keeps */
	trial_commit(&result);
	cr_expect_eq(result.refused, 1);
	cr_expect_eq(semaphore, 7);
}

Test(detour, strings_lead_anywhere)
{
	struct trial_wish wish = trial_victim_wish;
	static char text[10000];
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *fields = (const char *)trial_last;

	trial_begin();
	wish.argument = 3;
	trial_arm_detour(&wish);
	trial_victim((long)"twelve");
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(fields[0], FIELD_WHOLE);
	cr_assert_str_eq(fields + 1, "twelve");
	trial_victim(0);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(fields[0], FIELD_NULL);
	trial_victim(1);
	cr_assert_eq(trial_events(0), 3);
	cr_assert_eq(fields[0], FIELD_UNREADABLE);
	trial_victim((long)0xdead000000000000);
	cr_assert_eq(trial_events(0), 4);
	cr_assert_eq(fields[0], FIELD_UNREADABLE);
	memset(text, 'x', sizeof text - 1);
	trial_victim((long)text);
	cr_assert_eq(trial_events(0), 5);
	cr_assert_eq(fields[0], FIELD_CUT);
	/* up to the very end of what is there, with its NUL and without */
	munmap(page + 4096, 4096);
	memset(page, 'y', 4096);
	page[4095] = 0;
	trial_victim((long)(page + 4000));
	cr_assert_eq(trial_events(0), 6);
	cr_assert_eq(fields[0], FIELD_WHOLE);
	page[4095] = 'y';
	trial_victim((long)(page + 4000));
	cr_assert_eq(trial_events(0), 7);
	cr_assert_eq(fields[0], FIELD_UNREADABLE);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
}

Test(detour, a_childs_detours_are_inert_until_it_wants_them_itself)
{
	int status;
	pid_t pid;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	pid = fork();
	if (!pid) {
		static const uint8_t original[] = { 0x48, 0x89, 0xf8, 0x48, 0x83, 0xc0, 0x01 };
		struct detour_result result = { 0 };

		detour_forked(1, 0);
		store_forked(0);
		cr_assert_eq(text_open(&trial_text), 0); /* the parent's leads to its memory */
		if (*(uint8_t *)trial_victim != 0xe9 || trial_victim(1) != 2)
			_exit(2);
		_exit(detour_disarm_idle(&trial_text, 1000, &result) != 0 || result.sites != 1 ||
		      trial_victim(1) != 2 ||
		      memcmp((void *)trial_victim, original, sizeof original) != 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(trial_victim(1), 2);
	cr_assert_eq(trial_events(0), 1);
}

static uint64_t one_number(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 8;
}

static void count_id(const struct fixture_event *event, void *data)
{
	*(unsigned int *)data += event->id == detour_first()->events[0].ids[0];
}

/* In a child: what it is left to do, and 0 when all is as it should be. */
static int adopt_in_child(void)
{
	struct detour *detour = detour_first();
	uint32_t id = detour->events[0].ids[0];
	unsigned int events = 0;

	detour_forked(1, 0);
	store_forked(0);
	trial_victim(1); /* no session's */
	fixture_store(1, 1 << 20, STORE_DISCARD);
	detour_lane_open(1);
	if (detour_adopt(2, 1) != 0 || detour_adopt(0, 1) != 1 || detour_adopt(0, 1) != 0)
		return 3;
	if (detour->events[0].ids[1] != id || detour->lanes != 2 || !detour->is_armed)
		return 4;
	trial_victim(1);
	trial_victim(1);
	fixture_read(1, one_number, count_id, &events);
	return events != 2 ? 5 : 0;
}

Test(detour, a_child_takes_over_what_its_parent_had)
{
	int status;
	pid_t pid;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	trial_victim(1);
	pid = fork();
	if (!pid)
		_exit(adopt_in_child());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
	cr_assert_eq(trial_events(0), 1);
}

Test(detour, code_is_written_by_mprotect_too)
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_victim, sizeof before);
	text_release(&trial_text);
	text_limit_way(WAY_MPROTECT);
	cr_assert_eq(text_open(&trial_text), 0);
	cr_assert_eq(text_way(), WAY_MPROTECT);
	trial_arm_detour(&trial_victim_wish);
	cr_assert_eq(trial_victim(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_victim, before, sizeof before);
}

/* ---- what the agent does itself ---- */

static void on_signal(int number)
{
	(void)number;
	trial_victim(7);
}

Test(detour, what_the_agent_calls_is_no_event_but_what_a_handler_calls_is)
{
	struct reentrancy_guard guard;

	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	signal(SIGUSR1, on_signal);
	trial_victim(1);
	reentrancy_guard_enter(&guard);
	trial_victim(2);
	raise(SIGUSR1);
	trial_victim(3);
	reentrancy_guard_leave(&guard);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_last[0], 7);
	reentrancy_guard_at = REENTRANCY_GUARD_FOR_GOOD;
	trial_victim(4);
	reentrancy_guard_at = 0;
	cr_assert_eq(trial_events(0), 2);
}

static sigjmp_buf way_out;

static void leave_by_jump(int number)
{
	(void)number;
	siglongjmp(way_out, 1);
}

static __attribute__((noinline)) void begin_and_leave(void)
{
	struct reentrancy_guard guard;

	reentrancy_guard_enter(&guard);
	trial_victim(2);
	raise(SIGUSR1);
	reentrancy_guard_leave(&guard);
}

/* Deeper on the stack than begin_and_leave() was. */
static __attribute__((noinline)) void call_deep(long value)
{
	volatile char frame[4096];

	for (size_t i = 0; i < sizeof frame; i++)
		frame[i] = 1;
	frame[0] = (char)trial_victim(value + frame[0] - 1); /* no tail call */
}

Test(detour, what_the_agent_did_when_a_handler_left_it_by_a_jump_hides_no_later_event)
{
	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	signal(SIGUSR1, leave_by_jump);
	if (!sigsetjmp(way_out, 1))
		begin_and_leave();
	cr_assert_eq(trial_events(0), 0);
	call_deep(3);
	call_deep(4);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(trial_last[0], 4);
}
