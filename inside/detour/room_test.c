/* SPDX-License-Identifier: MIT */
#include "inside/detour/room.h"

#include "base/pun.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((uintptr_t)ROOM_PAGE_BYTES)
#define FAR UINT64_C(0x300000000000) /* nothing is mapped near */
#define MANY 2000

/* Map a page. */
static void map_at(uintptr_t address, int prot, int flags)
{
	cr_assert_neq(mmap((void *)address, PAGE, prot, flags | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			   -1, 0),
		      MAP_FAILED);
}

static void look(void)
{
	cr_assert_eq(room_look(0), 0);
}

Test(room, mapped_page_is_not_free)
{
	map_at(FAR, PROT_READ, MAP_PRIVATE);
	look();
	cr_assert_not(room_is_free(FAR));
	cr_assert(room_is_free(FAR - PAGE));
	cr_assert(room_is_free(FAR + PAGE));
	cr_assert_not(room_is_free((uintptr_t)look & ~(PAGE - 1)));
}

Test(room, next_skips_mapped_pages)
{
	map_at(FAR, PROT_READ, MAP_PRIVATE);
	look();
	cr_assert_eq(room_next(FAR - PAGE), FAR - PAGE);
	cr_assert_eq(room_next(FAR - PAGE + 1), FAR + PAGE);
	cr_assert_eq(room_next(FAR), FAR + PAGE);
	cr_assert_eq(room_next(PUN_HIGHEST), 0);
}

Test(room, null_page_is_not_free)
{
	look();
	cr_assert_not(room_is_free(PUN_LOWEST - PAGE));
	cr_assert_geq(room_next(0), PUN_LOWEST);
}

static void expect_growth(uintptr_t top, uintptr_t room)
{
	cr_assert_not(room_is_free(top - PAGE));
	cr_assert_not(room_is_free(top - room));
	cr_assert(room_is_free(top - room - PAGE));
}

Test(room, room_below_private_writable_memory_is_not_free)
{
	map_at(FAR, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	look();
	expect_growth(FAR, PUN_DATA_ROOM);
	cr_assert(room_is_free(FAR + PAGE));
}

Test(room, room_below_shared_or_readonly_memory_is_free)
{
	map_at(FAR, PROT_READ | PROT_WRITE, MAP_SHARED);
	map_at(FAR + PUN_DATA_ROOM, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	look();
	cr_assert(room_is_free(FAR - PAGE));
	cr_assert(room_is_free(FAR + PUN_DATA_ROOM - PAGE));
}

static uintptr_t stack_start(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t start = 0, at;
	char line[256];

	while (fgets(line, sizeof line, maps)) {
		if (strstr(line, "[stack]") && sscanf(line, "%lx-", &at) == 1)
			start = at;
	}
	fclose(maps);
	cr_assert_neq(start, 0);
	return start;
}

Test(room, room_below_main_stack_is_not_free)
{
	look();
	cr_assert_not(room_is_free(stack_start() - PAGE));
	cr_assert_not(room_is_free(stack_start() - PUN_STACK_ROOM / 2));
}

Test(room, room_above_heap_is_not_free)
{
	uintptr_t end = (uintptr_t)sbrk(0);

	look();
	end = (end + PAGE - 1) & ~(PAGE - 1);
	cr_assert_not(room_is_free(end));
	cr_assert_not(room_is_free(end + PUN_STACK_ROOM - PAGE));
	cr_assert_geq(room_next(end), end + PUN_STACK_ROOM);
	cr_assert(room_is_free(room_next(end)));
}

Test(room, second_look_within_a_second_is_skipped)
{
	look();
	map_at(FAR, PROT_READ, MAP_PRIVATE);
	look();
	cr_assert(room_is_free(FAR));
	room_changed();
	look();
	cr_assert_not(room_is_free(FAR));
}

/* ---- limit ---- */

static size_t limit_after_look(size_t own)
{
	room_changed();
	cr_assert_eq(room_look(own), 0);
	return room_limit();
}

Test(room, limit_is_a_quarter_of_free_mappings)
{
	size_t before = limit_after_look(0), after, slack = 8; /* what the test itself maps */
	char *pages = mmap(NULL, MANY * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < MANY; i += 2)
		cr_assert_eq(mprotect(pages + i * PAGE, PAGE, PROT_NONE), 0);
	after = limit_after_look(0);
	cr_assert_leq(after, before - MANY / 4 + slack);
	cr_assert_geq(after, before - MANY / 4 - slack);
	/* our own mappings do not count */
	cr_assert_geq(limit_after_look(MANY), before - slack);
}
