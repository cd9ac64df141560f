/* SPDX-License-Identifier: MIT */
/* Where instructions begin: code and a table of functions in, lengths out. */
#include "inside/unwind/boundary.h"

#include "inside/marker/careful.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define SECOND 16 /* where the second function begins */

/* The .eh_frame_hdr of two functions (LSB 5.0, 10.6.2). */
struct header {
	uint8_t version, frame, count, table;
	int32_t frame_at;
	uint32_t entries;
	int32_t functions[2][2];
};

static uint8_t *code;
static struct header *header;

/*
 * push %rbp; mov %rax, (%rdi); ret; and behind that int3, up to
 * nop; mov %eax, (%rdi); call next; ret
 */
static const uint8_t first[] = "\x55\x48\x89\x07\xc3";
static const uint8_t second[] = "\x90\x89\x07\xe8\x00\x00\x00\x00\xc3";

static void begin(void)
{
	int32_t distance;

	code = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	cr_assert_neq(code, MAP_FAILED);
	memset(code, 0xcc, PAGE_BYTES);
	memcpy(code, first, sizeof(first) - 1);
	memcpy(code + SECOND, second, sizeof(second) - 1);
	header = (struct header *)(void *)(code + PAGE_BYTES);
	distance = -(int32_t)PAGE_BYTES;
	*header = (struct header){
		.version = 1,
		.frame = 0x1b,
		.count = 0x03,
		.table = 0x3b,
		.entries = 2,
		.functions = { { distance, 0 }, { distance + SECOND, 0 } },
	};
	careful_allow(getpid());
	boundary_add((uintptr_t)code, (uintptr_t)code + PAGE_BYTES, (uintptr_t)header);
}

/* Of the instruction that ends so far behind the code's beginning. */
static unsigned int before(unsigned int end, int is_expected_start)
{
	int is_start = -1;
	unsigned int bytes = boundary_before((uintptr_t)code + end, &is_start);

	cr_assert_eq(is_start, is_expected_start, "at %u", end);
	return bytes;
}

Test(boundary, instruction_is_read_from_its_functions_start)
{
	begin();
	cr_assert_eq(before(1, 0), 1);
	cr_assert_eq(before(4, 0), 3, "mov %%rax, (%%rdi) ends as mov %%eax, (%%rdi) does");
	cr_assert_eq(before(5, 0), 1);
	cr_assert_eq(before(SECOND + 1, 0), 1);
	cr_assert_eq(before(SECOND + 3, 0), 2);
	cr_assert_eq(before(SECOND + 8, 0), 5);
}

Test(boundary, result_is_the_same_once_it_is_kept)
{
	begin();
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(before(4, 0), 3);
		cr_assert_eq(before(SECOND, 1), 1);
	}
}

Test(boundary, address_within_an_instruction_has_none)
{
	begin();
	cr_assert_eq(before(2, 0), 0);
	cr_assert_eq(before(3, 0), 0);
	cr_assert_eq(before(SECOND + 5, 0), 0);
}

Test(boundary, end_that_is_a_functions_start_is_reported)
{
	begin();
	cr_assert_eq(before(SECOND, 1), 1);
	cr_assert_eq(before(SECOND - 1, 0), 1);
}

Test(boundary, code_that_changed_is_read_again)
{
	begin();
	cr_assert_eq(before(4, 0), 3);
	code[1] = 0x90; /* nop; mov %eax, (%rdi) */
	cr_assert_eq(before(4, 0), 2);
}

Test(boundary, code_before_the_first_function_has_none)
{
	begin();
	header->functions[0][0] += 2;
	cr_assert_eq(before(1, 0), 0);
	cr_assert_eq(before(4, 0), 2, "read from the third byte on");
}

static void none_with(const char *what)
{
	cr_assert_eq(before(4, 0), 0, "%s", what);
}

Test(boundary, table_of_another_form_is_not_read)
{
	begin();
	header->version = 2;
	none_with("another version");
	header->version = 1;
	header->count = 0x0b;
	none_with("another form of the number");
	header->count = 0x03;
	header->table = 0x1b;
	none_with("another form of the table");
	header->table = 0x3b;
	header->entries = 0;
	none_with("no function");
	header->entries = 2;
	cr_assert_eq(before(4, 0), 3);
}

Test(boundary, table_that_is_longer_than_its_memory_is_not_believed)
{
	begin();
	header->entries = UINT32_MAX;
	none_with("entries that no memory has");
}

Test(boundary, nothing_is_read_without_leave)
{
	begin();
	careful_allow(0);
	none_with("the kernel may not be asked");
}

/* ---- modules ---- */

Test(boundary, module_without_a_table_has_code_alone)
{
	begin();
	boundary_remove((uintptr_t)code);
	boundary_add((uintptr_t)code, (uintptr_t)code + PAGE_BYTES, 0);
	none_with("no table");
	cr_assert(boundary_is_code((uintptr_t)code + 1));
	cr_assert_eq(boundary_table((uintptr_t)code), 0);
}

Test(boundary, module_that_is_gone_has_none)
{
	begin();
	cr_assert_eq(before(4, 0), 3);
	boundary_remove((uintptr_t)code);
	none_with("no module");
	cr_assert_not(boundary_is_code((uintptr_t)code + 1));
}

/* An address is where an instruction ends: a module's last one is its own, its first one is not. */
Test(boundary, module_has_the_ends_of_its_instructions)
{
	boundary_add(0x5000, 0x6000, 0x50);
	boundary_add(0x1000, 0x2000, 0x10);
	boundary_add(0x2000, 0x3000, 0x20);
	cr_assert_not(boundary_is_code(0x1000));
	cr_assert(boundary_is_code(0x1001));
	cr_assert(boundary_is_code(0x2000));
	cr_assert(boundary_is_code(0x3000));
	cr_assert_not(boundary_is_code(0x3001));
	cr_assert_not(boundary_is_code(0x5000));
	cr_assert(boundary_is_code(0x6000));
	cr_assert_not(boundary_is_code(0x6001));
	cr_assert_eq(boundary_table(0x1000), 0x10);
	cr_assert_eq(boundary_table(0x1fff), 0x10);
	cr_assert_eq(boundary_table(0x2000), 0x20);
	cr_assert_eq(boundary_table(0x3000), 0);
	cr_assert_eq(boundary_table(0x5fff), 0x50);
	boundary_remove(0x2000);
	cr_assert_eq(boundary_table(0x2000), 0);
	cr_assert_eq(boundary_table(0x1fff), 0x10);
	cr_assert_eq(boundary_table(0x5000), 0x50);
}

Test(boundary, epoch_changes_with_each_module)
{
	uint32_t epoch = boundary_epoch();

	boundary_add(0x1000, 0x2000, 0);
	cr_assert_neq(boundary_epoch(), epoch);
	epoch = boundary_epoch();
	boundary_remove(0x3000);
	cr_assert_eq(boundary_epoch(), epoch);
	boundary_remove(0x1000);
	cr_assert_neq(boundary_epoch(), epoch);
}

Test(boundary, module_past_the_most_is_not_known)
{
	uint32_t epoch;

	for (uintptr_t i = 1; i <= BOUNDARY_MODULES_MAX; i++)
		boundary_add(i * 0x1000, i * 0x1000 + 0x1000, i);
	epoch = boundary_epoch();
	boundary_add((BOUNDARY_MODULES_MAX + 1) * 0x1000, (BOUNDARY_MODULES_MAX + 2) * 0x1000, 1);
	cr_assert_eq(boundary_epoch(), epoch);
	cr_assert_eq(boundary_table(0x1000), 1);
	cr_assert_eq(boundary_table(BOUNDARY_MODULES_MAX * 0x1000), BOUNDARY_MODULES_MAX);
	cr_assert_eq(boundary_table((BOUNDARY_MODULES_MAX + 1) * 0x1000), 0);
}
