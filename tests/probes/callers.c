/* SPDX-License-Identifier: MIT */
/*
 * Calls leaf() on stacks of many kinds, and prints before each call its number and the callers, as
 * libc finds them, from the caller of leaf()'s caller on.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <waymark/marker.h>

#define APART __attribute__((noinline, noclone))
#define FRAMES 256
#define DEEP 10000
#define PAGE_BYTES 4096

static volatile int sink;

APART int leaf(int number)
{
	__asm__ volatile("" : : : "memory");
	return number;
}

APART static void look(int number)
{
	void *frames[FRAMES];
	int count = backtrace(frames, FRAMES);

	printf("%d", number);
	for (int i = 2; i < count; i++)
		printf(" %p", frames[i]);
	printf("\n");
	fflush(stdout);
}

/* The function that it is in has work left, so that it is no tail call. */
#define CALL(number)                                                                               \
	do {                                                                                       \
		int value = number;                                                                \
                                                                                                   \
		look(value);                                                                       \
		WAYMARK(callers, here, value);                                                     \
		sink += leaf(value);                                                               \
	} while (0)

APART static void middle(int number)
{
	CALL(number);
}

APART static void outer(int number)
{
	middle(number);
	sink++;
}

APART int deep(int depth, int number)
{
	if (!depth) {
		CALL(number);
		return 0;
	}
	depth = deep(depth - 1, number);
	__asm__ volatile("" : : : "memory"); /* no loop */
	return depth;
}

static void handle(int signal)
{
	middle(signal == SIGUSR1 ? 3 : 4);
	sink++;
}

static ucontext_t back, there;

static void coroutine(void)
{
	outer(5);
}

static void *thread(void *data)
{
	outer(6);
	return data;
}

static int compare(const void *a, const void *b)
{
	CALL(7);
	return *(const char *)a - *(const char *)b;
}

/* With arguments on the stack and room that varies: its CFA is in memory. */
APART static int aligned(int a, int b, int c, int d, int e, int f, int g, int bytes)
{
	char room[64] __attribute__((aligned(64)));
	char *more = alloca((size_t)bytes);

	__asm__ volatile("" : : "r"(room), "r"(more) : "memory");
	CALL(8);
	return a + b + c + d + e + f + g + more[0] + room[0];
}

__attribute__((noinline, noclone, optimize("no-omit-frame-pointer"))) static void smashed(void)
{
	void **slot = (void **)__builtin_frame_address(0) + 1, *kept = *slot;

	*(void *volatile *)slot = (void *)0x1234;
	sink += leaf(9);
	*(void *volatile *)slot = kept;
}

/* leaf(10) with a stack that ends right there. */
APART static void at_end(char *end)
{
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %0, %%rsp\n\t"
			 "movl $10, %%edi\n\t"
			 "call leaf\n\t"
			 "movq %%rbx, %%rsp"
			 :
			 : "r"(end)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "memory", "cc");
	sink++;
}

/* Code of no module: sub $8, %rsp; mov $11, %edi; call *%rax; add $8, %rsp; ret */
APART static void generated(char *code)
{
	static const char bytes[] = "\x48\x83\xec\x08\xbf\x0b\0\0\0\xff\xd0\x48\x83\xc4\x08\xc3";

	memcpy(code, bytes, sizeof(bytes));
	mprotect(code, PAGE_BYTES, PROT_READ | PROT_EXEC);
	__asm__ volatile("subq $128, %%rsp\n\tcall *%1\n\taddq $128, %%rsp"
			 :
			 : "a"(leaf), "r"(code)
			 : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
	sink++;
}

/* A frame that is found by %rbx: its rule needs more than the stack and the frame pointer. */
void by_rbx(void (*call)(int), int number);
__asm__(".pushsection .text\n"
	".globl by_rbx\n"
	".type by_rbx, @function\n"
	"by_rbx:\n"
	"	.cfi_startproc\n"
	"	pushq %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbx, 0\n"
	"	movq %rsp, %rbx\n"
	"	.cfi_def_cfa_register rbx\n"
	"	subq $160, %rsp\n"
	"	andq $-64, %rsp\n"
	"	movq %rdi, %rax\n"
	"	movl %esi, %edi\n"
	"	call *%rax\n"
	"	movq %rbx, %rsp\n"
	"	.cfi_def_cfa_register rsp\n"
	"	popq %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size by_rbx, . - by_rbx\n"
	".popsection\n");

static char *pages(void)
{
	char *at = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED || mprotect(at + PAGE_BYTES, PAGE_BYTES, PROT_NONE))
		exit(1);
	return at;
}

static void by_signals(void)
{
	static char alternate[1 << 16];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction action = { .sa_handler = handle };

	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, NULL);
	sigaltstack(&stack, NULL);
	raise(SIGUSR1);
	raise(SIGUSR2);
}

static void by_coroutine(void)
{
	static char stack[1 << 16];

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &back;
	makecontext(&there, coroutine, 0);
	swapcontext(&back, &there);
}

int main(void)
{
	char letters[] = "ba";
	pthread_t id;

	outer(1);
	deep(DEEP, 2);
	by_signals();
	by_coroutine();
	pthread_create(&id, NULL, thread, NULL);
	pthread_join(id, NULL);
	qsort(letters, 2, 1, compare);
	sink += aligned(1, 2, 3, 4, 5, 6, 7, sink % 64 + 64);
	smashed();
#ifdef __OPTIMIZE__ /* else the frame pointer leads back to its own stack */
	at_end(pages() + PAGE_BYTES);
#endif
	generated(pages());
	by_rbx(outer, 12);
	return 0;
}
