/* SPDX-License-Identifier: MIT */
/*
 * The callers of hits are those that libc finds, whether the stack is read directly or by the
 * kernel; forged stacks and tables end, and say why.
 */
#include "inside/unwind/caller_walk.h"

#include "inside/marker/careful.h"
#include "inside/marker/hit.h"
#include "inside/unwind/testing/forged_table.h"
#include "inside/unwind/testing/modules.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define LIBC_MAX 256

static struct hit_callers found;
static struct control_detour record;

static void begin(void)
{
	careful_allow(getpid());
	modules_add();
}

/* As a hit at `pc`, whose trampoline pushed nothing. Returns how many callers there are. */
static unsigned int find(const struct hit_registers *registers, struct writer_stack stack,
			 unsigned int wanted)
{
	struct hit_at at = { .record = &record,
			     .sp = registers->sp,
			     .payload = (const uint64_t *)registers->sp,
			     .stack = stack };

	record.address = record.point = registers->pc;
	found.wanted = wanted;
	caller_walk(registers, &at, &found);
	cr_assert_leq(found.count, 1 + wanted);
	cr_assert_eq(found.all[0], registers->pc);
	return found.count - 1;
}

/* ---- real stacks ---- */

static void *libc[LIBC_MAX];
static int libc_count;
static unsigned int wanted = FIELD_CALLERS_MAX;
static int is_direct;

/* libc's backtrace(3). A sanitizer interposes that name, and its own frame would be the first. */
int __backtrace(void **frames, int most);

static struct writer_stack own_stack(void)
{
	struct writer_stack stack = { 0 };
	pthread_attr_t attributes;
	void *low;

	if (!is_direct)
		return stack;
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &stack.bytes);
	pthread_attr_destroy(&attributes);
	stack.low = (uintptr_t)low;
	return stack;
}

static __attribute__((noinline)) void look(void)
{
	struct hit_registers registers;
	ucontext_t context;
	const greg_t *of = context.uc_mcontext.gregs;

	getcontext(&context);
	registers = (struct hit_registers){ .pc = (uintptr_t)of[REG_RIP],
					    .sp = (uintptr_t)of[REG_RSP],
					    .bp = (uintptr_t)of[REG_RBP],
					    .bx = (uintptr_t)of[REG_RBX],
					    .r12 = (uintptr_t)of[REG_R12],
					    .r13 = (uintptr_t)of[REG_R13],
					    .r14 = (uintptr_t)of[REG_R14],
					    .r15 = (uintptr_t)of[REG_R15] };
	find(&registers, own_stack(), wanted);
	libc_count = __backtrace(libc, LIBC_MAX);
}

/* libc's first is look() itself. */
static void are_the_same_until(unsigned int at_least, int state)
{
	unsigned int there = (unsigned int)libc_count - 1;

	cr_assert_gt(there, at_least);
	cr_assert_eq(found.count - 1, there < wanted ? there : wanted, "%u of %u, state %d",
		     found.count - 1, there, found.state);
	for (unsigned int i = 1; i < found.count; i++)
		cr_assert_eq(found.all[i], (uintptr_t)libc[i], "caller %u: %lx", i, found.all[i]);
	cr_assert_eq(found.state, there <= wanted ? state : FIELD_CUT, "%d", found.state);
}

static void are_the_same(unsigned int at_least)
{
	are_the_same_until(at_least, FIELD_WHOLE);
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

/* Each test twice: reading the stack itself, and through the kernel. */
#define BOTH_WAYS for (is_direct = 0; is_direct < 2; is_direct++)

Test(callers, recursion_has_those_of_libc)
{
	begin();
	BOTH_WAYS
	{
		nested(3);
		are_the_same(5);
		nested(100);
		are_the_same(100);
		cr_assert_eq(found.state, FIELD_CUT);
	}
}

Test(callers, walk_ends_at_what_is_wanted)
{
	begin();
	BOTH_WAYS
	{
		wanted = 1;
		nested(3);
		are_the_same(5);
		/* all there are is no cut */
		wanted = (unsigned int)libc_count - 1;
		nested(3);
		are_the_same(5);
		cr_assert_eq(found.state, FIELD_WHOLE);
	}
}

static void handle(int signal)
{
	(void)signal;
	nested(1);
}

Test(callers, handler_has_what_it_interrupted)
{
	static char other[1 << 16];
	struct sigaction action = { .sa_handler = handle };
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };

	begin();
	BOTH_WAYS
	{
		action.sa_flags = 0;
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		are_the_same(6);
		action.sa_flags = SA_ONSTACK;
		sigaltstack(&stack, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		are_the_same(6);
	}
}

static int by_libc(const void *one, const void *other)
{
	look();
	return *(const char *)one - *(const char *)other;
}

Test(callers, library_between_is_walked_through)
{
	char letters[] = "dcba";

	begin();
	BOTH_WAYS
	{
		qsort(letters, 4, 1, by_libc);
		are_the_same(4);
	}
}

static ucontext_t back, there;

static void coroutine(void)
{
	nested(2);
}

Test(callers, coroutine_ends_at_its_first_function)
{
	static char stack[1 << 16];

	begin();
	BOTH_WAYS
	{
		getcontext(&there);
		there.uc_stack.ss_sp = stack;
		there.uc_stack.ss_size = sizeof(stack);
		there.uc_link = &back;
		makecontext(&there, coroutine, 0);
		swapcontext(&back, &there);
		/* the byte before glibc's __start_context is of no function */
		are_the_same_until(3, FIELD_NO_RULE);
	}
}

/* The CFA is in %rbx: its rule needs more than three registers. */
void by_rbx(void (*call)(void));
__asm__(".pushsection .text\n"
	".globl by_rbx\n"
	"by_rbx: .cfi_startproc\n"
	"	pushq %rbx\n"
	"	.cfi_def_cfa_offset 16\n .cfi_offset rbx, -16\n"
	"	movq %rsp, %rbx\n"
	"	.cfi_def_cfa_register rbx\n"
	"	subq $100, %rsp\n"
	"	andq $-64, %rsp\n"
	"	call *%rdi\n"
	"	movq %rbx, %rsp\n"
	"	.cfi_def_cfa_register rsp\n"
	"	popq %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".popsection\n");

static void nest_twice(void)
{
	nested(2);
}

Test(callers, frame_found_by_another_register_is_walked_through)
{
	begin();
	BOTH_WAYS
	{
		by_rbx(nest_twice);
		are_the_same(5);
	}
}

/* ---- forged stacks ---- */

/* Neither keeps anything; the second has a frame pointer. */
__asm__(".pushsection .text\n"
	".globl forged_bare, forged_framed, forged_below\n"
	"forged_bare: .cfi_startproc\n nop\n nop\n ret\n .cfi_endproc\n"
	"forged_framed: .cfi_startproc\n .cfi_def_cfa rbp, 16\n .cfi_offset rbp, -16\n"
	" nop\n nop\n ret\n .cfi_endproc\n"
	"forged_below: .cfi_startproc\n .cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n"
	" nop\n nop\n ret\n .cfi_endproc\n"
	".popsection\n");
extern const char forged_bare[], forged_framed[], forged_below[];

/* Pages: no access, stack, no access. */
static uint64_t *stack_new(void)
{
	char *all = mmap(NULL, 3 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(all, MAP_FAILED);
	cr_assert_eq(mprotect(all + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	return (uint64_t *)(void *)(all + PAGE_BYTES);
}

/* How many callers there are; the state must be the one that is expected. */
static unsigned int walk_from(const void *pc, const void *sp, uint64_t bp, int state)
{
	const struct hit_registers registers = { .pc = (uintptr_t)pc,
						 .sp = (uintptr_t)sp,
						 .bp = bp };
	unsigned int count = find(&registers, (struct writer_stack){ 0 }, 10);

	cr_assert_eq(found.state, state, "%d", found.state);
	return count;
}

Test(callers, stack_at_edge_of_its_mapping_is_unreadable_from_there)
{
	const size_t last = PAGE_BYTES / sizeof(uint64_t) - 1;
	uint64_t *stack = stack_new(), in_bare = (uintptr_t)forged_bare + 1;

	begin();
	stack[last - 1] = stack[last] = in_bare;
	cr_assert_eq(walk_from(forged_bare, &stack[last - 1], 0, FIELD_UNREADABLE), 2);
	cr_assert_eq(found.all[2], in_bare);
	/* half of it is there; nothing is */
	cr_assert_eq(walk_from(forged_bare, (char *)&stack[last] + 4, 0, FIELD_UNREADABLE), 0);
	cr_assert_eq(walk_from(forged_bare, &stack[last + 1], 0, FIELD_UNREADABLE), 0);
	cr_assert_eq(walk_from(forged_bare, (void *)8, 0, FIELD_UNREADABLE), 0);
	cr_assert_eq(walk_from(forged_framed, stack, UINT64_MAX - 8, FIELD_ASTRAY), 0);
	cr_assert_eq(walk_from(forged_below, stack, 8, FIELD_UNREADABLE), 0);
}

Test(callers, overwritten_stack_ends_at_the_address_that_is_no_code)
{
	uint64_t *stack = stack_new();

	begin();
	for (int i = 0; i < PAGE_BYTES / 8; i++)
		stack[i] = 0x4141414141414141;
	cr_assert_eq(walk_from(forged_bare, stack, 0, FIELD_ASTRAY), 1);
	cr_assert_eq(found.all[1], 0x4141414141414141);
}

Test(callers, cyclic_stack_ends)
{
	uint64_t *stack = stack_new();

	begin();
	/* two frames are each other's callers */
	stack[8] = (uintptr_t)&stack[4];
	stack[9] = (uintptr_t)forged_framed + 1;
	stack[4] = (uintptr_t)&stack[8];
	stack[5] = (uintptr_t)forged_framed + 1;
	cr_assert_leq(walk_from(forged_framed, stack, (uintptr_t)&stack[8], FIELD_ASTRAY), 2);
	/* the caller's frame is in memory, below */
	stack[7] = (uintptr_t)&stack[2];
	cr_assert_eq(walk_from(forged_below, &stack[4], (uintptr_t)&stack[8], FIELD_ASTRAY), 0);
}

Test(callers, word_beside_the_stack_is_not_read_directly)
{
	uint64_t *stack = stack_new();
	const struct writer_stack half = { (uintptr_t)stack, PAGE_BYTES / 2 };
	const struct hit_registers registers = { .pc = (uintptr_t)forged_framed,
						 .sp = (uintptr_t)stack,
						 .bp = (uintptr_t)stack + PAGE_BYTES - 8 };

	begin();
	/* the stack ends there, as libc has it: a step behind it would fault */
	cr_assert_eq(find(&registers, half, 10), 0);
	cr_assert_eq(found.state, FIELD_UNREADABLE);
}

/* ---- tables ---- */

Test(callers, rule_is_kept_until_its_module_goes)
{
	uint64_t *stack = stack_new();

	begin();
	ground_new();
	table_make(table, 8);
	code_add(table);
	stack[0] = (uintptr_t)code + 11;
	stack[1] = (uintptr_t)code + 22;
	stack[2] = 0x1234;
	cr_assert_eq(walk_from(code, stack, 0, FIELD_ASTRAY), 3);
	cr_assert_eq(found.all[1], (uintptr_t)code + 11);
	cr_assert_eq(found.all[2], (uintptr_t)code + 22);
	cr_assert_eq(found.all[3], 0x1234);
	/* the table can't be read, and is not */
	mprotect(table, PAGE_BYTES, PROT_NONE);
	cr_assert_eq(walk_from(code, stack, 0, FIELD_ASTRAY), 3);
	mprotect(table, PAGE_BYTES, PROT_READ | PROT_WRITE);
	boundary_remove((uintptr_t)code);
	cr_assert_eq(walk_from(code, stack, 0, FIELD_ASTRAY), 0);
	/* another module comes to the same place */
	table_make(table, 24);
	code_add(table);
	cr_assert_eq(walk_from(code, stack, 0, FIELD_ASTRAY), 1);
	cr_assert_eq(found.all[1], 0x1234);
}

Test(callers, no_rule_is_read_without_leave)
{
	uint64_t *stack = stack_new();

	begin();
	careful_allow(0);
	stack[0] = (uintptr_t)forged_bare + 1;
	cr_assert_eq(walk_from(forged_bare, stack, 0, FIELD_NO_RULE), 0);
	careful_allow(getpid());
	cr_assert_geq(walk_from(forged_bare, stack, 0, FIELD_WHOLE), 1);
}

Test(callers, random_stacks_end, .timeout = 60)
{
	static const char *const places[] = { forged_bare, forged_framed, forged_below };
	uint64_t *stack = stack_new();

	begin();
	srand(1);
	for (int round = 0; round < 20000; round++) {
		const struct writer_stack own = { (uintptr_t)stack, round % 2 ? PAGE_BYTES : 0 };
		struct hit_registers registers = { .pc = (uintptr_t)places[rand() % 3],
						   .sp = (uintptr_t)&stack[rand() % 600],
						   .bp = (uintptr_t)&stack[rand() % 600] };

		for (int i = 0; i < PAGE_BYTES / 8; i++)
			stack[i] = rand() % 2 ? (uintptr_t)places[rand() % 3] + (size_t)rand() % 4
					      : (uintptr_t)&stack[rand() % 600];
		find(&registers, own, 1 + (unsigned int)rand() % 64);
	}
}
