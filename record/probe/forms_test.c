/* SPDX-License-Identifier: MIT */
#include "record/probe/forms.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define FAR (UINT64_C(1) << 30)
#define NEAR (UINT64_C(32) << 20) /* how far a stack may grow */

static uint64_t code; /* a page that no mapping can grow into */
static struct control_detour choice;

static uint64_t map(uint64_t address, int prot)
{
	void *got = mmap((void *)address, PAGE, prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	cr_assert_neq(got, MAP_FAILED);
	return (uint64_t)got;
}

static void set_up(void)
{
	code = map(0, PROT_READ);
}

TestSuite(forms, .init = set_up);

/* A one-byte instruction; the four bytes after it make a jump lead to `landing`. */
static uint64_t leads_to(uint64_t landing)
{
	int32_t distance = (int32_t)(landing - code - DETOUR_JUMP_BYTES);

	choice = (struct control_detour){ .insn_bytes = 1, .kept_bytes = 4, .original = { 0x90 } };
	memcpy(choice.original + 1, &distance, sizeof(distance));
	return landing;
}

/* Whether the choice, at the start of the page, can be written in that form in this process. */
static int has(enum detour_form form)
{
	struct forms_room *room;
	unsigned int forms;

	cr_assert_eq(forms_room_read(&room, getpid()), 0);
	forms = forms_of(&choice, room, code);
	forms_room_free(room);
	return forms >> form & 1;
}

Test(forms, forms_without_process_depend_on_instruction)
{
	leads_to(code - FAR);
	cr_assert_eq(forms_of(&choice, NULL, 0), 1u << FORM_BYTE);
	choice.kept_bytes = 3;
	cr_assert_eq(forms_of(&choice, NULL, 0), 0);
	/* lea 64(%rdi), %eax: all but its first byte may be overwritten */
	choice = (struct control_detour){ .insn_bytes = 4,
					  .kept_bytes = 4,
					  .original = { 0x48, 0x8d, 0x47, 0x40, 0xc3 } };
	cr_assert_eq(forms_of(&choice, NULL, 0),
		     1u << FORM_BYTE | 1u << FORM_BEHIND | 1u << FORM_FIRST);
	choice.flags = DETOUR_SAFE;
	cr_assert_eq(forms_of(&choice, NULL, 0), 1u << FORM_BYTE | 1u << FORM_BEHIND);
	cr_assert_eq(forms_best(1u << FORM_FIRST | 1u << FORM_BEHIND), FORM_BEHIND);
	cr_assert_eq(forms_best(0), 0);
}

Test(forms, forms_in_process_need_free_page)
{
	uint64_t landing = leads_to(code - FAR + 0x100);

	cr_assert(has(FORM_BYTE));
	munmap((void *)map(landing - 0x100, PROT_NONE), PAGE);
	cr_assert(has(FORM_BYTE));
	map(landing - 0x100, PROT_NONE);
	cr_assert_not(has(FORM_BYTE), "the page is mapped");
}

Test(forms, forms_avoid_pages_where_stack_may_grow)
{
	uint64_t landing = leads_to(code - FAR + 0x100);

	map(landing - 0x100 + NEAR, PROT_READ);
	cr_assert(has(FORM_BYTE));
	map(landing - 0x100 + NEAR + PAGE, PROT_READ | PROT_WRITE);
	cr_assert(has(FORM_BYTE), "a mapping between limits the stack");
	map(landing - 0x100 + NEAR - 2 * PAGE, PROT_READ | PROT_WRITE);
	cr_assert_not(has(FORM_BYTE));
}

Test(forms, forms_do_not_cross_page)
{
	leads_to(code - FAR + PAGE - DETOUR_JUMP_BYTES);
	cr_assert(has(FORM_BYTE));
	leads_to(code - FAR + PAGE - DETOUR_JUMP_BYTES + 1);
	cr_assert_not(has(FORM_BYTE));
}

Test(forms, forms_need_room_for_breakpoint_landings)
{
	uint64_t landing = leads_to(code - FAR + 0x100);

	/* a breakpoint may change the highest byte of the distance to 0xcc */
	choice.starts = 8;
	cr_assert(has(FORM_BYTE));
	map((code + DETOUR_JUMP_BYTES - UINT64_C(0x34000000) +
	     ((landing - code - DETOUR_JUMP_BYTES) & 0xffffff)) &
		    ~(PAGE - 1),
	    PROT_NONE);
	cr_assert_not(has(FORM_BYTE));
	choice.starts = 0;
	cr_assert(has(FORM_BYTE));
}
