/* SPDX-License-Identifier: MIT */
#include "inside/detour/landing.h"

#include "inside/detour/room.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE ((uintptr_t)ROOM_PAGE_BYTES)
#define HERE UINT64_C(0x300000000000) /* nothing is mapped near */
#define DISTANCE 0x40000000
#define CODE (HERE - 0x30000000) /* a trampoline; no thread runs it */

/* One jump. */
struct one {
	struct control_detour record;
	struct pun_window window;
	struct jump jump;
};

static struct text text = { .fd = -1 };

static int take(struct one *one, enum detour_form form)
{
	unsigned int number = 0;

	cr_assert(pun_next(&one->record, form, &number, &one->window));
	return landing_take(&one->record, &one->window, &one->jump);
}

/* The jump's distance is fixed: `landing` is its only landing. */
static int take_there(uintptr_t landing, struct one *one)
{
	static const uint8_t bytes[] = { 0x55, 0, 0, 0, DISTANCE >> 24 };

	*one = (struct one){ .record = { .address = landing - DETOUR_JUMP_BYTES - DISTANCE,
					 .insn_bytes = 1,
					 .kept_bytes = 4 } };
	memcpy(one->record.original, bytes, sizeof bytes);
	return take(one, FORM_BYTE);
}

static int try_there(uintptr_t landing)
{
	struct one one;

	return take_there(landing, &one);
}

/* The jump may lead to any of the 64 KiB from `low` on. */
static int take_near(uintptr_t low, struct one *one)
{
	static const uint8_t bytes[] = { 0x83, 0xc0, 0x01, 0, DISTANCE >> 24 };

	*one = (struct one){ .record = { .address = low - DETOUR_JUMP_BYTES - DISTANCE,
					 .insn_bytes = 3,
					 .kept_bytes = 2 } };
	memcpy(one->record.original, bytes, sizeof bytes);
	return take(one, FORM_FIRST);
}

static void aim_at(struct one *one, uintptr_t code)
{
	if (text.fd < 0)
		cr_assert_eq(text_open(&text), 0);
	cr_assert_eq(landing_aim(&text, &one->record, &one->window, &one->jump, code), 0);
}

static void aim(struct one *one)
{
	aim_at(one, CODE);
}

static void take_and_aim(uintptr_t landing, struct one *one)
{
	cr_assert_eq(take_there(landing, one), 0);
	aim(one);
}

static void expect_landing(uintptr_t landing)
{
	int32_t distance;

	memcpy(&distance, (const void *)(landing + 1), sizeof distance);
	cr_assert_eq(*(const uint8_t *)landing, 0xe9);
	cr_assert_eq(landing + DETOUR_JUMP_BYTES + (uintptr_t)(intptr_t)distance, CODE);
}

/* ---- what is mapped ---- */

struct mappings {
	size_t count, file_pages;
	int is_other; /* some mapping is not private, readable and executable */
};

/* The agent's landings in /proc/self/maps. */
static struct mappings look_at_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mappings found = { 0 };
	char line[256], access[8];
	unsigned long start, end, offset;

	while (fgets(line, sizeof line, maps)) {
		if (!strstr(line, "/memfd:waymark-detours"))
			continue;
		cr_assert_eq(sscanf(line, "%lx-%lx %7s %lx", &start, &end, access, &offset), 4);
		found.count += (end - start) / PAGE;
		found.is_other |= strcmp(access, "r-xp") != 0;
		if (found.file_pages < (offset + end - start) / PAGE)
			found.file_pages = (offset + end - start) / PAGE;
	}
	fclose(maps);
	return found;
}

static int count_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(all))
		count++;
	closedir(all);
	return count;
}

Test(landing, map_puts_page_where_distance_leads)
{
	struct mappings found;
	struct one one;
	int descriptors;

	take_and_aim(HERE + 100, &one);
	descriptors = count_descriptors();
	cr_assert_eq(one.jump.count, 1);
	cr_assert_eq(one.jump.landings[0], HERE + 100);
	cr_assert_eq(landing_error(&one.jump), -EAGAIN);
	cr_assert_eq(landing_pages(), 0);
	landing_map();
	cr_assert_eq(landing_error(&one.jump), 0);
	cr_assert_eq(landing_pages(), 1);
	expect_landing(HERE + 100);
	found = look_at_maps();
	cr_assert_eq(found.count, 1);
	cr_assert_not(found.is_other, "r-xp");
	cr_assert_eq(count_descriptors(), descriptors);
}

Test(landing, file_is_sealed)
{
	struct one one;
	char path[64];
	int fd;

	take_and_aim(HERE, &one);
	landing_map();
	snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", HERE, HERE + PAGE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		cr_skip_test("map_files needs CAP_CHECKPOINT_RESTORE");
	cr_assert_eq(fcntl(fd, F_GET_SEALS),
		     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	close(fd);
}

#define MANY 100

Test(landing, different_offsets_share_a_file_page)
{
	struct one ones[MANY];
	struct mappings found;

	for (size_t i = 0; i < MANY; i++)
		take_and_aim(HERE + i * 2 * PAGE + i * DETOUR_JUMP_BYTES, &ones[i]);
	landing_map();
	found = look_at_maps();
	cr_assert_eq(found.count, MANY);
	cr_assert_eq(found.file_pages, 1);
	for (size_t i = 0; i < MANY; i++)
		expect_landing(ones[i].jump.landings[0]);
}

Test(landing, same_offset_needs_a_file_page_each)
{
	struct one ones[MANY];
	struct mappings found;

	for (size_t i = 0; i < MANY; i++)
		take_and_aim(HERE + i * 2 * PAGE + i % 5, &ones[i]);
	landing_map();
	found = look_at_maps();
	cr_assert_eq(found.count, MANY);
	cr_assert_eq(found.file_pages, MANY);
	for (size_t i = 0; i < MANY; i++)
		expect_landing(ones[i].jump.landings[0]);
}

/* ---- beside each other ---- */

Test(landing, overlap_in_a_page_is_refused)
{
	struct one one, next;

	take_and_aim(HERE + 100, &one);
	cr_assert_eq(try_there(HERE + 96), -WM_E_PUN_TAKEN);
	cr_assert_eq(try_there(HERE + 100), -WM_E_PUN_TAKEN);
	cr_assert_eq(try_there(HERE + 104), -WM_E_PUN_TAKEN);
	take_and_aim(HERE + 95, &next);
	landing_map();
	cr_assert_eq(landing_pages(), 1);
	expect_landing(HERE + 95);
	expect_landing(HERE + 100);
}

Test(landing, mapped_page_of_ours_takes_another)
{
	struct one one, next;

	take_and_aim(HERE + 100, &one);
	landing_map();
	take_and_aim(HERE + 105, &next);
	cr_assert_eq(landing_error(&next.jump), 0);
	expect_landing(HERE + 105);
	expect_landing(HERE + 100);
	landing_map();
	cr_assert_eq(landing_pages(), 1);
}

Test(landing, page_crossing_is_refused)
{
	cr_assert_eq(try_there(HERE + PAGE - DETOUR_JUMP_BYTES + 1), -WM_E_PUN_TAKEN);
	cr_assert_eq(try_there(HERE + PAGE - DETOUR_JUMP_BYTES), 0);
}

Test(landing, untake_frees_the_place)
{
	struct one one;

	cr_assert_eq(take_there(HERE, &one), 0);
	cr_assert(landing_is_in(HERE, HERE + 1));
	landing_untake(&one.jump);
	cr_assert_eq(take_there(HERE + 2, &one), 0);
	landing_untake(&one.jump);
	landing_map();
	cr_assert_eq(landing_pages(), 0);
}

/* ---- foreign memory ---- */

static void map_there(uintptr_t address, size_t bytes)
{
	cr_assert_neq(mmap((void *)address, bytes, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
		      MAP_FAILED);
}

Test(landing, foreign_page_is_refused)
{
	map_there(HERE, PAGE);
	cr_assert_eq(try_there(HERE + 100), -WM_E_PUN_TAKEN);
	cr_assert_eq(try_there(HERE + PAGE), 0);
}

Test(landing, foreign_page_mapped_before_map_is_kept)
{
	struct one one, next;

	take_and_aim(HERE, &one);
	take_and_aim(HERE + PAGE, &next);
	map_there(HERE, PAGE);
	landing_map();
	cr_assert_eq(landing_error(&one.jump), -WM_E_PUN_TAKEN);
	cr_assert_eq(landing_error(&next.jump), 0);
	cr_assert_eq(*(const uint8_t *)HERE, 0);
	/* the page is known to be taken now */
	cr_assert_eq(try_there(HERE + 100), -WM_E_PUN_TAKEN);
}

Test(landing, map_without_descriptor_can_be_retried)
{
	struct rlimit usual, none = { 0 };
	struct one one;

	take_and_aim(HERE, &one);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
	none.rlim_max = usual.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	landing_map();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
	cr_assert_eq(landing_error(&one.jump), -EAGAIN);
	cr_assert_eq(landing_pages(), 0);
	landing_map();
	cr_assert_eq(landing_error(&one.jump), 0);
	expect_landing(HERE);
}

Test(landing, heap_grows_below_landing)
{
	intptr_t bytes = PUN_STACK_ROOM / 2;
	uintptr_t landing;
	struct one one;

	if (sbrk(bytes) == (void *)-1)
		cr_skip_test("the heap may not grow so far here");
	sbrk(-bytes);
	cr_assert_eq(room_look(0), 0);
	landing = room_next((uintptr_t)sbrk(0));
	cr_assert_eq(take_there(landing, &one), 0);
	aim_at(&one, landing);
	landing_map();
	cr_assert_eq(landing_error(&one.jump), 0);
	cr_assert_neq(sbrk(bytes), (void *)-1);
}

/* ---- several landings for one jump ---- */

/* Each of the four kept bytes is a start of an instruction. */
static int take_sixteen(uintptr_t landing, struct one *one)
{
	static const uint8_t bytes[] = { 0x55, 0, 0, 0, DISTANCE >> 24 };

	*one = (struct one){ .record = { .address = landing - DETOUR_JUMP_BYTES - DISTANCE,
					 .insn_bytes = 1,
					 .kept_bytes = 4,
					 .starts = 0xf } };
	memcpy(one->record.original, bytes, sizeof bytes);
	return take(one, FORM_BYTE);
}

Test(landing, four_instruction_starts_need_sixteen)
{
	struct one one;

	cr_assert_eq(take_sixteen(HERE, &one), 0);
	aim(&one);
	landing_map();
	cr_assert_eq(one.jump.count, 16);
	cr_assert_eq(landing_error(&one.jump), 0);
	expect_landing(HERE);
	expect_landing(HERE + 0xcc);
	expect_landing(HERE + 0xcc00);
	expect_landing(HERE + 0xcccccc);
	expect_landing(HERE - DISTANCE + (uintptr_t)(intptr_t)(int32_t)0xcccccccc);
}

Test(landing, one_of_sixteen_taken_reserves_none)
{
	struct one one;

	map_there(HERE + 0xcc0000, PAGE);
	cr_assert_eq(take_sixteen(HERE, &one), -WM_E_PUN_TAKEN);
	cr_assert_not(landing_is_in(HERE, HERE + PAGE));
	cr_assert_eq(try_there(HERE), 0);
}

Test(landing, one_of_sixteen_refused_by_map_refuses_jump)
{
	struct one one;

	cr_assert_eq(take_sixteen(HERE, &one), 0);
	aim(&one);
	map_there(HERE + 0xcc0000, PAGE);
	landing_map();
	cr_assert_eq(landing_error(&one.jump), -WM_E_PUN_TAKEN);
}

Test(landing, overlap_within_a_jump_is_refused)
{
	static const uint8_t bytes[] = { 0x55, 0xc8, 0, 0, DISTANCE >> 24 };
	struct one one = {
		.record = { .address = HERE, .insn_bytes = 1, .kept_bytes = 4, .starts = 1 }
	};

	memcpy(one.record.original, bytes, sizeof bytes);
	cr_assert_eq(take(&one, FORM_BYTE), -WM_E_PUN_TAKEN);
	one.record.original[1] = 0xc7;
	cr_assert_eq(take(&one, FORM_BYTE), 0);
	cr_assert_eq(one.jump.count, 2);
}

/* ---- free bytes of the distance ---- */

Test(landing, free_bytes_prefer_own_page)
{
	struct one there, one;

	take_and_aim(HERE + 0xf000, &there);
	cr_assert_eq(take_near(HERE, &one), 0);
	cr_assert_eq(one.jump.landings[0], HERE + 0xf000 + DETOUR_JUMP_BYTES);
	cr_assert_eq(take_near(HERE + 0xff00, &one), 0);
	cr_assert_eq(one.jump.landings[0], HERE + 0xff00, "in the same page, at its own offset");
	cr_assert_eq(take_near(HERE + 0x10000, &one), 0);
	cr_assert_eq(one.jump.landings[0], HERE + 0x10000);
	cr_assert_eq(memcmp(one.jump.bytes.bytes, (uint8_t[]){ 0xe9, 0, 0 }, 3), 0);
}

Test(landing, free_bytes_find_free_page)
{
	struct one one;

	map_there(HERE, 15 * PAGE);
	cr_assert_eq(take_near(HERE, &one), 0);
	cr_assert_eq(one.jump.landings[0], HERE + 15 * PAGE);
	map_there(HERE + 0x100000, 16 * PAGE);
	room_changed();
	cr_assert_eq(take_near(HERE + 0x100000, &one), -WM_E_PUN_TAKEN);
}

Test(landing, whole_jump_needs_no_landing)
{
	struct one one = {
		.record = { .address = CODE - 0x1000, .insn_bytes = 5, .original = { 0xb8 } }
	};

	cr_assert_eq(take(&one, FORM_FIRST), 0);
	cr_assert_eq(one.jump.count, 0);
	aim(&one);
	cr_assert_eq(memcmp(one.jump.bytes.bytes, (uint8_t[]){ 0xe9, 0xfb, 0x0f, 0, 0 }, 5), 0);
	cr_assert_eq(landing_error(&one.jump), 0);
}

Test(landing, aim_out_of_reach_is_refused)
{
	struct one one;

	cr_assert_eq(take_there(HERE, &one), 0);
	cr_assert_eq(landing_aim(&text, &one.record, &one.window, &one.jump,
				 HERE + (UINT64_C(1) << 32)),
		     -WM_E_DETOUR_REACH);
}

/* ---- limits ---- */

#define LEFT 400

/* Use up the mappings that the kernel allows, but LEFT. */
static void use_mappings(void)
{
	size_t most = 200000, i = 1;
	char *pages = mmap(NULL, most * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	while (i < most && !mprotect(pages + i * PAGE, PAGE, PROT_READ))
		i += 2;
	if (i >= most)
		cr_skip_test("vm.max_map_count is higher here");
	munmap(pages + (i - LEFT) * PAGE, LEFT * PAGE);
}

Test(landing, page_beyond_limit_is_refused)
{
	struct one ones[LEFT];
	size_t count = 0;
	int error;

	use_mappings();
	while (count < LEFT && !(error = take_there(HERE + count * 2 * PAGE, &ones[count])))
		count++;
	cr_assert_eq(error, -WM_E_DETOUR_MEMORY);
	cr_assert_eq(count, room_limit());
	cr_assert_leq(count, LEFT / 4 + 1);
	cr_assert_geq(count, LEFT / 4 - 8);
	/* a page that is reserved takes more landings */
	cr_assert_eq(try_there(HERE + 100), 0);
	/* a page without landings does not count */
	landing_untake(&ones[count - 1].jump);
	cr_assert_eq(try_there(HERE + 2 * LEFT * PAGE), 0);
}
