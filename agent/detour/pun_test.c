/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/detour/pun.h"

#include "agent/detour/gaps.h"
#include "agent/detour/trial.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096u

static uintptr_t tight_landing(void)
{
	return (uintptr_t)trial_tight + DETOUR_JUMP_BYTES + (uintptr_t)(intptr_t)TRIAL_TIGHT_FAR;
}

static void *map_at(uintptr_t address, int prot)
{
	void *got = mmap((void *)(address & ~(uintptr_t)(PAGE_BYTES - 1)), PAGE_BYTES, prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		cr_skip_test("something lies there already");
	return got;
}

static int place(const struct trial_wish *wish)
{
	union trial_record record;

	trial_compose(&record, wish);
	return trial_place(&record);
}

/* A record that pun_take() alone is asked about; the program has nothing at its address. */
static int take(uint64_t address, unsigned int span, const void *following, unsigned int kept,
		uintptr_t *landing)
{
	struct control_detour record = { .address = address,
					 .span_bytes = (uint8_t)span,
					 .pun = (uint8_t)kept };
	uint8_t jump[2 * DETOUR_JUMP_BYTES] = { 0 };
	int error;

	memcpy(record.original + span, following, kept);
	error = pun_take(&record, jump, landing);
	if (!error) {
		uint8_t whole[DETOUR_SPAN_MAX];
		unsigned int at = 0;
		int32_t distance;

		memcpy(whole, record.original, sizeof whole);
		memcpy(whole, jump, span);
		while (whole[at] == 0x26)
			at++;
		cr_assert_lt(at, span);
		cr_assert_eq(whole[at], 0xe9);
		memcpy(&distance, whole + at + 1, sizeof distance);
		cr_assert_eq(address + at + 5 + (uint64_t)(int64_t)distance, *landing,
			     "the jump leads to its landing");
		for (unsigned int i = span; i < sizeof jump; i++)
			cr_assert_eq(jump[i], 0, "behind its span nothing is written");
	}
	return error;
}

/* One that can lead to that address alone. */
static int take_there(uintptr_t where, uintptr_t *landing)
{
	return take(where - DETOUR_JUMP_BYTES - 0x40000000, 1, "\0\0\0\x40", 4, landing);
}

Test(pun, a_jump_ends_in_the_bytes_that_follow)
{
	uint8_t before[16];

	trial_begin();
	memcpy(before, (void *)trial_tight, sizeof before);
	trial_arm_detour(&trial_tight_wish);
	cr_assert_eq(*(uint8_t *)trial_tight, 0xe9);
	cr_assert_arr_eq((uint8_t *)trial_tight + 1, before + 1, sizeof before - 1);
	cr_assert_eq(trial_tight(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 41);
	/* who comes from elsewhere finds what was there */
	cr_assert_eq(trial_tight_behind(1), 2);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_tight, before, sizeof before);
	cr_assert_eq(trial_tight(1), 2);
	trial_arm_detour(&trial_tight_wish);
	cr_assert_eq(trial_tight(6), 7);
	cr_assert_eq(trial_events(0), 2);
	cr_assert_eq(pun_mapped(), PAGE_BYTES, "its old page");
}

Test(pun, bytes_that_are_free_choose_where_it_leads)
{
	uint8_t before[16];
	uintptr_t landing;

	trial_begin();
	memcpy(before, (void *)trial_narrow, sizeof before);
	trial_arm_detour(&trial_narrow_wish);
	cr_assert_eq(trial_narrow(41), 42);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_arr_eq((uint8_t *)trial_narrow + TRIAL_NARROW_SPAN, before + TRIAL_NARROW_SPAN,
			 sizeof before - TRIAL_NARROW_SPAN);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_arr_eq((void *)trial_narrow, before, sizeof before);
	/* no page is free for the distance as it is, but for the one that a prefix leaves */
	cr_assert_eq(take(0x10000000000, 1, "\0\0\0\xc0", 4, &landing), 0);
	pun_untake(landing);
	mmap((void *)(0x10000000005 - 0x40000000 - PAGE_BYTES), 4 * PAGE_BYTES, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	cr_assert_eq(take(0x20000000000, 2, "\0\0\xc0\xd0", 3, &landing), 0);
	cr_assert_eq(landing & ~(uintptr_t)255, (0x20000000005 - 0x40000000) & ~(uintptr_t)255);
	map_at(0x30000000005 - 0x40000000, PROT_READ);
	cr_assert_eq(take(0x30000000000, 2, "\0\0\xc0\xd0", 4, &landing), 0);
	cr_assert_eq(landing, 0x30000000006 + (int32_t)0xd0c00000);
}

/* As it is, the distance leads below 0; behind a prefix it leads up, and has a free byte still. */
Test(pun, a_prefix_and_a_free_byte_go_together)
{
	uintptr_t landing;

	cr_assert_eq(take(0x400000, 3, "\0\x80\x40", 3, &landing), 0);
	cr_assert_eq(landing, 0x400006 + 0x40800000);
	cr_assert_eq(take(0x400000, 3, "\0\x80\x40", 3, &landing), 0);
	cr_assert_eq(landing, 0x400006 + 0x40800005);
}

Test(pun, is_refused_where_its_address_is_taken)
{
	void *there;

	trial_begin();
	there = map_at(tight_landing(), PROT_NONE);
	cr_assert_eq(place(&trial_tight_wish), -WM_E_PUN_TAKEN);
	cr_assert_eq(trial_tight(1), 2);
	munmap(there, PAGE_BYTES);
	trial_arm_detour(&trial_tight_wish);
	cr_assert_eq(trial_tight(1), 2);
	cr_assert_eq(trial_events(0), 1);
}

Test(pun, is_refused_where_a_stack_may_grow)
{
	uintptr_t stack;
	void *there;

	trial_begin();
	stack = tight_landing() + PUN_DATA_ROOM - 2 * PAGE_BYTES;
	there = map_at(stack, PROT_READ | PROT_WRITE);
	cr_assert_eq(place(&trial_tight_wish), -WM_E_PUN_GROWTH);
	/* what can't be written is no stack */
	cr_assert_eq(mprotect(there, PAGE_BYTES, PROT_READ), 0);
	cr_assert_eq(place(&trial_tight_wish), 0);
}

Test(pun, is_refused_only_as_near_to_what_may_be_a_stack)
{
	uintptr_t data = 0x50000000000, landing;

	map_at(data, PROT_READ | PROT_WRITE);
	cr_assert_eq(take_there(data - PUN_DATA_ROOM, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take_there(data - 2 * PAGE_BYTES, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take_there(data - PUN_DATA_ROOM - PAGE_BYTES, &landing), 0);
	cr_assert_eq(take_there(data + PAGE_BYTES, &landing), 0);
	/* less than that lies below it at all */
	map_at(PUN_DATA_ROOM / 2, PROT_READ | PROT_WRITE);
	cr_assert_eq(take(PUN_DATA_ROOM / 4 + 0x40000000, 1, "\0\0\0\xc0", 4, &landing),
		     -WM_E_PUN_GROWTH);
}

struct below {
	uintptr_t start, end;
};

static void find_stack(const struct gap *gap, void *data)
{
	if (gap->before_stack)
		*(struct below *)data = (struct below){ gap->start, gap->end };
}

Test(pun, is_refused_where_the_main_stack_may_grow)
{
	struct below below = { 0 };
	uintptr_t landing;

	cr_assert_eq(gaps_find(find_stack, &below), 0);
	cr_assert_neq(below.end, 0);
	if (below.end - below.start < 2 * PUN_DATA_ROOM)
		cr_skip_test("something lies right below the stack");
	cr_assert_eq(take_there(below.end - PAGE_BYTES, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take_there(below.end - PUN_DATA_ROOM - 4 * PAGE_BYTES, &landing),
		     -WM_E_PUN_GROWTH, "further than from other memory");
	if (below.end - below.start < GAPS_STACK_ROOM + 2 * PUN_DATA_ROOM)
		cr_skip_test("something lies less than 1 GiB below the stack");
	cr_assert_eq(take_there(below.end - GAPS_STACK_ROOM, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take_there(below.end - GAPS_STACK_ROOM - PAGE_BYTES, &landing), 0);
}

Test(pun, is_refused_where_the_heap_may_grow)
{
	uintptr_t heap = (uintptr_t)sbrk(0), landing;
	int32_t near = 0x01000000, far = 0x7fff0000;

	/* 16 MiB above it, then what little can be reached beyond 1 GiB */
	cr_assert_eq(take(heap, 1, &near, 4, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take(heap, 1, &far, 4, &landing), 0);
	cr_assert_geq(landing, heap + GAPS_STACK_ROOM);
	heap = (heap + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
	cr_assert_eq(take_there(heap + GAPS_STACK_ROOM - PAGE_BYTES, &landing), -WM_E_PUN_GROWTH);
	cr_assert_eq(take_there(heap + GAPS_STACK_ROOM, &landing), 0);
}

static void find_heap(const struct gap *gap, void *data)
{
	if (gap->after_heap)
		*(uintptr_t *)data = gap->start;
}

/* A child without its heap: where that would begin there is nothing yet, nor anywhere near. */
Test(pun, is_refused_where_a_heap_may_begin)
{
	uintptr_t end = 0, start, landing;
	int status;
	pid_t child;

	cr_assert_eq(gaps_find(find_heap, &end), 0);
	if (!end)
		cr_skip_test("the heap has something right behind it, or there is none");
	cr_assert_eq(gaps_area(end - 1, &start, &end), 0);
	child = fork();
	if (!child) {
		int error = (uintptr_t)syscall(SYS_brk, start) == start
				    ? take_there(start + (UINT64_C(16) << 20), &landing)
				    : 0;

		_exit(error != -WM_E_PUN_GROWTH);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

Test(pun, is_refused_outside_of_the_programs_memory)
{
	uintptr_t landing;

	cr_assert_eq(take(0x400000, 1, "\0\0\0\xc0", 4, &landing), -WM_E_PUN_OUTSIDE, "below 0");
	cr_assert_eq(take(0x400000, 1, "\0\0\xc1\xff", 4, &landing), -WM_E_PUN_OUTSIDE, "null");
	cr_assert_eq(take(0x7ffffff00000, 1, "\0\0\0\x10", 4, &landing), -WM_E_PUN_OUTSIDE);
	cr_assert_eq(take(0xfffffffff0000000, 1, "\0\0\0\xc0", 4, &landing), -WM_E_PUN_OUTSIDE);
}

Test(pun, landings_share_pages)
{
	uintptr_t landing, other;
	size_t mapped;

	cr_assert_eq(take(0x10000000000, 1, "\0\0\0\xc0", 4, &landing), 0);
	mapped = pun_mapped();
	cr_assert_eq(take(0x10000000005, 1, "\0\0\0\xc0", 4, &other), 0);
	cr_assert_eq(other, landing + 5);
	cr_assert_eq(pun_mapped(), mapped);
	/* one that would overlap either is another's */
	cr_assert_eq(take(0x10000000004, 1, "\0\0\0\xc0", 4, &other), -WM_E_PUN_TAKEN);
	pun_untake(landing);
	cr_assert_eq(take(0x10000000004, 1, "\0\0\0\xc0", 4, &other), -WM_E_PUN_TAKEN);
	cr_assert_eq(take(0x10000000000, 1, "\0\0\0\xc0", 4, &other), 0);
	cr_assert_eq(pun_mapped(), mapped);
}

Test(pun, landings_share_no_byte)
{
	uintptr_t landing = 0x68000000100, other;

	cr_assert_eq(take_there(landing, &other), 0);
	cr_assert_eq(take_there(landing - 4, &other), -WM_E_PUN_TAKEN, "its first");
	cr_assert_eq(take_there(landing + 4, &other), -WM_E_PUN_TAKEN, "its last");
	cr_assert_eq(take_there(landing - 5, &other), 0);
	cr_assert_eq(take_there(landing + 5, &other), 0);
	/* nor across pages, where the next one is ours, and where it is not */
	landing = (landing | (PAGE_BYTES - 1)) + 1;
	cr_assert_eq(take_there(landing + 1, &other), 0);
	cr_assert_eq(take_there(landing - 3, &other), -WM_E_PUN_TAKEN);
	cr_assert_eq(take_there(landing - 4, &other), 0);
	cr_assert_eq(take_there(landing + PAGE_BYTES - 3, &other), -WM_E_PUN_TAKEN);
}

Test(pun, one_across_two_pages_has_both)
{
	uintptr_t landing, other;

	cr_assert_eq(take(0x10000000ff9, 1, "\0\0\0\xc0", 4, &landing), 0);
	cr_assert_eq(landing % PAGE_BYTES, 0xffe);
	cr_assert_eq(pun_mapped(), 2 * PAGE_BYTES);
	/* nobody else has any of it; when it is given back, another has it */
	cr_assert_eq(take_there(landing + 2, &other), -WM_E_PUN_TAKEN);
	cr_assert_eq(take_there(landing + 5, &other), 0);
	pun_untake(landing + 5);
	pun_untake(landing);
	cr_assert_eq(take_there(landing, &other), 0);
	cr_assert_eq(pun_mapped(), 2 * PAGE_BYTES);
}

Test(pun, lies_in_one_page_if_there_is_the_choice)
{
	uintptr_t landing;

	cr_assert_eq(take(0x70000000ff8, 2, "\0\0\xc0", 3, &landing), 0);
	cr_assert_eq(landing, 0x70000001000 - 0x40000000);
	cr_assert_eq(take(0x71000000ff6, 2, "\0\0\xc0", 3, &landing), 0);
	cr_assert_eq(landing, 0x71000000ffb - 0x40000000);
	cr_assert_eq(pun_mapped(), 2 * PAGE_BYTES);
}

Test(pun, leads_to_what_its_bytes_say_alone)
{
	uintptr_t data = 0x60000000000, landing;

	cr_assert_eq(take(data, 1, "\0\0\xc0", 3, &landing), -WM_E_PUN_OUTSIDE, "too few stay");
	map_at(data, PROT_READ);
	cr_assert_eq(take_there(data + PAGE_BYTES - 1, &landing), -WM_E_PUN_TAKEN);
	cr_assert_eq(take_there(data + PAGE_BYTES, &landing), 0);
	/* of 64 KiB that it may choose from, the last bytes before other memory are too few */
	data += 0x10000000000;
	map_at(data, PROT_READ);
	cr_assert_eq(take(data + 0x3ffffff9, 3, "\0\xc0", 2, &landing), 0);
	cr_assert_eq(landing, data + PAGE_BYTES);
}

/* 64 KiB that begin below the lowest address that is anybody's, and end above it. */
Test(pun, a_null_pointer_leads_nowhere)
{
	uintptr_t landing;

	cr_assert_eq(take(GAPS_LOWEST - 0x8005 + 0x40000000, 3, "\0\xc0", 2, &landing), 0);
	cr_assert_eq(landing, GAPS_LOWEST);
}

Test(pun, its_memory_is_bounded)
{
	uintptr_t landing;
	unsigned int i = 0;
	int error = 0;

	for (; !error && i <= PUN_PAGES_MAX; i++)
		error = take(0x10000000000 + (uint64_t)i * 2 * PAGE_BYTES, 1, "\0\0\0\xc0", 4,
			     &landing);
	cr_assert_eq(error, -WM_E_DETOUR_MEMORY);
	cr_assert_eq(i, PUN_PAGES_MAX + 1);
	cr_assert_eq(pun_mapped(), (size_t)PUN_PAGES_MAX * PAGE_BYTES);
}

/* ---- neighbours ---- */

Test(pun, nobody_changes_what_a_jump_ends_in)
{
	trial_begin();
	trial_arm_detour(&trial_tight_wish);
	cr_assert_eq(place(&trial_behind_wish), -WM_E_DETOUR_TAKEN);
	cr_assert_eq(trial_tight(1), 2);
	cr_assert_eq(trial_let_go(), 0);
	trial_arm_detour(&trial_behind_wish);
	cr_assert_eq(place(&trial_tight_wish), -WM_E_DETOUR_TAKEN);
	cr_assert_eq(trial_tight(1), 2);
	cr_assert_eq(trial_let_go(), 0);
	/* both were there before: still one at a time */
	cr_assert_eq(place(&trial_tight_wish), 0);
	cr_assert_eq(place(&trial_behind_wish), -WM_E_DETOUR_TAKEN);
}

Test(pun, a_jump_never_ends_in_a_marker)
{
	const struct module *module;
	struct trial_wish wish = trial_tight_wish;

	trial_begin();
	module = registry_modules();
	while (module && !module->site_count)
		module = module->next;
	cr_assert_not_null(module);
	for (int before = 1; before <= 5; before++) {
		wish.function = (void (*)(void))(module->sites[0].address - (uintptr_t)before);
		cr_assert_eq(place(&wish) == -WM_E_SPAN_MARKER, before < 5, "%d", before);
	}
}

Test(pun, what_follows_must_be_what_it_was)
{
	struct detour_result result;
	union trial_record record;
	uint8_t byte = *((uint8_t *)trial_tight + 2);

	trial_begin();
	trial_compose(&record, &trial_tight_wish);
	record.head.original[2] ^= 1;
	cr_assert_eq(trial_place(&record), -WM_E_SITE_CHANGED);
	/* and if it changes after that: the jump would lead elsewhere */
	cr_assert_eq(place(&trial_tight_wish), 0);
	byte ^= 1;
	cr_assert_eq(text_write_code(&trial_text, (uintptr_t)trial_tight + 2, &byte, 1,
				     PROT_READ | PROT_EXEC),
		     0);
	trial_commit(&result);
	cr_assert_eq(result.refused, 1);
	cr_assert_eq(trial_told.refusal[0].error, -WM_E_SITE_CHANGED);
	cr_assert_eq(*(uint8_t *)trial_tight, 0x90);
}

Test(pun, a_childs_is_taken_away)
{
	int status;
	pid_t pid;

	trial_begin();
	trial_arm_detour(&trial_tight_wish);
	pid = fork();
	if (!pid) {
		struct detour_result result = { 0 };

		detour_forked(1, 0);
		if (text_open(&trial_text) || trial_tight(1) != 2)
			_exit(2);
		_exit(detour_disarm_idle(&trial_text, 1000, &result) != 0 || result.sites != 1 ||
		      trial_tight(1) != 2 || *(uint8_t *)trial_tight != 0x90);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	cr_assert_eq(trial_tight(1), 2);
	cr_assert_eq(trial_events(0), 1);
}

/* ---- messages ---- */

Test(pun, damaged_messages_are_refused)
{
	union trial_record good, bad;
	struct detour_refusal refusal;
	struct {
		uint8_t span, pun, tier;
		int8_t relay;
	} const bads[] = {
		{ 0, 4, TIER_PUNNED, 0 },  { 1, 0, TIER_PUNNED, 0 },	{ 1, 3, TIER_PUNNED, 0 },
		{ 1, 5, TIER_PUNNED, 0 },  { 5, 4, TIER_PUNNED, 0 },	{ 1, 4, TIER_SEVERAL, 0 },
		{ 1, 4, TIER_PUNNED, 16 }, { 48, 255, TIER_PUNNED, 0 }, { 6, 0, TIER_PUNNED, 0 },
	};

	trial_begin();
	trial_compose(&good, &trial_tight_wish);
	for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
		bad = good;
		bad.head.span_bytes = bads[i].span;
		bad.head.pun = bads[i].pun;
		bad.head.tier = bads[i].tier;
		bad.head.relay = bads[i].relay;
		cr_assert_eq(detour_place(&trial_text, TRIAL_LANE, &bad.head, bad.head.bytes,
					  &refusal),
			     -WM_E_PROTOCOL, "%zu", i);
	}
	cr_assert_eq(place(&trial_tight_wish), 0);
}
