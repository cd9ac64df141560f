/* SPDX-License-Identifier: MIT */
/* The callers of our own functions are those that libc finds; forged stacks and tables end. */
#include "inside/unwind/unwind.h"

#include "base/testing/entered.h"
#include "inside/marker/careful.h"
#include "inside/unwind/testing/forged_table.h"
#include "inside/unwind/testing/modules.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WANTED 10
#define LIBC_MAX 64

static uint64_t callers[WANTED];

/* ---- real stacks ---- */

static void begin(void)
{
	careful_allow(getpid());
	modules_add();
}

static void *libc[LIBC_MAX];
static int libc_count;

/* libc's backtrace(3). A sanitizer interposes that name, and its own frame would be the first. */
int __backtrace(void **frames, int most);

static __attribute__((noinline)) void look(void)
{
	ucontext_t context;

	getcontext(&context);
	unwind_callers(&context, callers, WANTED);
	libc_count = __backtrace(libc, LIBC_MAX);
}

/* libc's first is look() itself. */
static void are_the_same(int at_least)
{
	cr_assert_gt(libc_count, at_least);
	for (int i = 0; i < WANTED; i++)
		cr_assert_eq(callers[i], i + 1 < libc_count ? (uintptr_t)libc[i + 1] : 0,
			     "caller %d: %lx", i + 1, callers[i]);
}

static __attribute__((noinline)) int nested(int depth)
{
	volatile int kept = depth;

	if (depth)
		nested(depth - 1);
	else
		look();
	return kept;
}

Test(unwind, callers_of_recursion_are_those_of_libc)
{
	begin();
	nested(3);
	are_the_same(5);
	nested(30);
	are_the_same(30);
}

static void handle(int signal)
{
	(void)signal;
	nested(1);
}

Test(unwind, callers_of_handler_include_what_it_interrupted)
{
	struct sigaction action = { .sa_handler = handle };

	begin();
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	are_the_same(6);
}

Test(unwind, callers_on_alternate_stack_lead_to_the_threads_own)
{
	static char stack[1 << 16];
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };

	begin();
	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	are_the_same(6);
}

static int by_libc(const void *one, const void *other)
{
	look();
	return *(const char *)one - *(const char *)other;
}

Test(unwind, callers_through_library_are_those_of_libc)
{
	char letters[] = "dcba";

	begin();
	qsort(letters, 4, 1, by_libc);
	are_the_same(4);
}

Test(unwind, callers_of_what_a_marker_enters_are_those_of_libc)
{
	begin();
	entered_by_marker(look);
	are_the_same(6);
}

/* ---- forged stacks ---- */

/* Neither keeps anything; the second has a frame pointer. */
__asm__(".pushsection .text\n"
	".globl forged_bare, forged_framed\n"
	"forged_bare: .cfi_startproc\n nop\n nop\n ret\n .cfi_endproc\n"
	"forged_framed: .cfi_startproc\n .cfi_def_cfa rbp, 16\n .cfi_offset rbp, -16\n"
	" nop\n nop\n ret\n .cfi_endproc\n"
	".popsection\n");
extern const char forged_bare[], forged_framed[];

/* Pages: no access, stack, no access. */
static uint64_t *stack_new(void)
{
	char *all = mmap(NULL, 3 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(all, MAP_FAILED);
	cr_assert_eq(mprotect(all + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	return (uint64_t *)(void *)(all + PAGE_BYTES);
}

/* How many callers there are. */
static unsigned int unwind_from(const void *pc, const void *sp, uint64_t bp)
{
	ucontext_t context = { .uc_flags = 0 };
	unsigned int count = 0;

	context.uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)pc;
	context.uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)sp;
	context.uc_mcontext.gregs[REG_RBP] = (greg_t)bp;
	memset(callers, 0xee, sizeof(callers));
	unwind_callers(&context, callers, WANTED);
	while (count < WANTED && callers[count])
		count++;
	for (unsigned int i = count; i < WANTED; i++)
		cr_assert_eq(callers[i], 0);
	return count;
}

Test(unwind, stack_at_edge_of_its_mapping_is_read_up_to_there)
{
	const size_t last = PAGE_BYTES / sizeof(uint64_t) - 1;
	uint64_t *stack = stack_new(), in_bare = (uintptr_t)forged_bare + 1;

	begin();
	/* the return address is the first word of the mapping, then the last two */
	stack[0] = in_bare;
	cr_assert_eq(unwind_from(forged_bare, stack, 0), 1);
	stack[last - 1] = stack[last] = in_bare;
	cr_assert_eq(unwind_from(forged_bare, &stack[last - 1], 0), 2);
	cr_assert_eq(callers[1], in_bare);
	/* half of it is there; nothing is */
	cr_assert_eq(unwind_from(forged_bare, (char *)&stack[last] + 4, 0), 0);
	cr_assert_eq(unwind_from(forged_bare, &stack[last + 1], 0), 0);
	cr_assert_eq(unwind_from(forged_bare, (void *)8, 0), 0);
	cr_assert_eq(unwind_from(forged_bare, (void *)UINTPTR_MAX, 0), 0);
	cr_assert_eq(unwind_from(forged_framed, stack, UINT64_MAX - 8), 0);
}

Test(unwind, overwritten_stack_ends_at_the_address_that_is_no_code)
{
	uint64_t *stack = stack_new();

	begin();
	for (int i = 0; i < PAGE_BYTES / 8; i++)
		stack[i] = 0x4141414141414141;
	cr_assert_eq(unwind_from(forged_bare, stack, 0), 1);
	cr_assert_eq(callers[0], 0x4141414141414141);
	/* whatever the frame pointer leads to */
	stack[8] = 0;
	stack[9] = (uintptr_t)forged_bare + 1;
	cr_assert_eq(unwind_from(forged_bare, stack, (uintptr_t)&stack[8]), 1);
}

Test(unwind, cyclic_stack_ends)
{
	uint64_t *stack = stack_new();

	begin();
	/* each frame is its own caller; then two are each other's */
	stack[8] = (uintptr_t)&stack[8];
	stack[9] = (uintptr_t)forged_framed + 1;
	cr_assert_leq(unwind_from(forged_framed, stack, (uintptr_t)&stack[8]), 2);
	stack[8] = (uintptr_t)&stack[4];
	stack[4] = (uintptr_t)&stack[8];
	stack[5] = (uintptr_t)forged_framed + 1;
	cr_assert_leq(unwind_from(forged_framed, stack, (uintptr_t)&stack[8]), 2);
}

/* ---- forged tables ---- */

static uint64_t *two_frames(void)
{
	uint64_t *stack = stack_new();

	stack[0] = (uintptr_t)code + 11;
	stack[1] = (uintptr_t)code + 22;
	stack[2] = 0x1234;
	return stack;
}

Test(unwind, row_is_kept_until_its_module_goes)
{
	uint64_t *stack;

	begin();
	ground_new();
	stack = two_frames();
	table_make(table, 8);
	code_add(table);
	cr_assert_eq(unwind_from(code, stack, 0), 3);
	cr_assert_eq(callers[2], 0x1234);
	/* the table cannot be read, and is not */
	mprotect(table, PAGE_BYTES, PROT_NONE);
	cr_assert_eq(unwind_from(code, stack, 0), 3);
	mprotect(table, PAGE_BYTES, PROT_READ | PROT_WRITE);
	/* another module comes to the same place */
	boundary_remove((uintptr_t)code);
	table_make(table, 24);
	code_add(table);
	cr_assert_eq(unwind_from(code, stack, 0), 1);
	cr_assert_eq(callers[0], 0x1234);
}

Test(unwind, code_without_table_is_passed_by_frame_pointers)
{
	uint64_t *stack = stack_new();

	begin();
	ground_new();
	code_add(NULL);
	stack[4] = (uintptr_t)&stack[8];
	stack[5] = (uintptr_t)code + 11;
	stack[8] = 1; /* no frame pointer */
	stack[9] = (uintptr_t)code + 22;
	cr_assert_eq(unwind_from(code, stack, (uintptr_t)&stack[4]), 2);
	cr_assert_eq(callers[0], (uintptr_t)code + 11);
	cr_assert_eq(callers[1], (uintptr_t)code + 22);
	/* what is no chain, or leads to no code, is no caller */
	cr_assert_eq(unwind_from(code, stack, 12345), 0);
	cr_assert_eq(unwind_from(code, &stack[6], (uintptr_t)&stack[4]), 0);
	stack[5] = 0x1234;
	cr_assert_eq(unwind_from(code, stack, (uintptr_t)&stack[4]), 0);
}

Test(unwind, table_that_is_cut_cyclic_or_huge_has_no_callers)
{
	struct forged *forged;
	uint64_t *stack;

	begin();
	ground_new();
	stack = two_frames();
	/* cut at each of its bytes by the end of the mapping */
	for (size_t bytes = 0; bytes < sizeof(struct forged); bytes++) {
		static char whole[PAGE_BYTES];
		char *at = table + PAGE_BYTES - bytes;

		table_make(whole, 8);
		memcpy(at, whole, bytes);
		code_add(at);
		unwind_from(code, stack, 0);
		boundary_remove((uintptr_t)code);
	}
	code_add(table);
#define BAD(change)                                                                                \
	do {                                                                                       \
		boundary_remove((uintptr_t)code);                                                  \
		code_add(table);                                                                   \
		forged = table_make(table, 8);                                                     \
		change;                                                                            \
		cr_assert_eq(unwind_from(code, stack, 0), 0, #change);                             \
	} while (0)
	BAD(forged->entries = UINT32_MAX);
	BAD(forged->entries = 0);
	BAD(forged->common_bytes = UINT32_MAX);
	BAD(forged->own_bytes = UINT32_MAX);
	BAD(forged->own_bytes = 0);
	BAD(forged->back = 4);	  /* its CIE is itself */
	BAD(forged->back = 0);	  /* it is a CIE */
	BAD(forged->pair[1] = 0); /* the record is the table */
	BAD(forged->common_id = 1; forged->common[0] = 1);
	BAD(memset(forged->own, 0x0a,
		   sizeof(forged->own))); /* remembers more than there is room for */
	BAD(memset(forged->own, 0x80, sizeof(forged->own)));	  /* a number without an end */
	BAD(forged->common[9] = 0x0f; forged->common[10] = 0x7f); /* an expression behind the end */
#undef BAD
}

Test(unwind, random_tables_and_stacks_end, .timeout = 60)
{
	uint64_t *stack;

	begin();
	ground_new();
	stack = stack_new();
	srand(1);
	code_add(table);
	for (int round = 0; round < 20000; round++) {
		struct forged *forged;

		boundary_remove((uintptr_t)code);
		code_add(table);
		forged = table_make(table, 8);
		for (int i = 0; i < 4; i++)
			((uint8_t *)forged)[12 + rand() % (int)(sizeof(*forged) - 12)] = (uint8_t)
				rand();
		for (int i = 0; i < 32; i++)
			stack[i] = rand() % 2 ? (uintptr_t)code + (size_t)rand() % PAGE_BYTES
					      : (uintptr_t)&stack[rand() % 40];
		unwind_from(code + rand() % PAGE_BYTES, stack, (uintptr_t)&stack[rand() % 40]);
	}
}
