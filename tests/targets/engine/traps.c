/* SPDX-License-Identifier: MIT */
/*
 * What instructions raise: where, why, and with which state; also what programs do to detect a
 * tracer.
 */
#include "seen.h"

#include <sys/mman.h>

static sigjmp_buf back;
static volatile int steps, is_quiet, odd_traps;
static volatile uintptr_t base, stepped[64];
static char *page;

static void report(const char *what, const siginfo_t *info, const ucontext_t *context)
{
	const greg_t *regs = context->uc_mcontext.gregs;

	printf("  %s %d code %d address %lx at %lx, trap %lld error %llx flags %llx\n", what,
	       info->si_signo, info->si_code, info->si_addr ? (uintptr_t)info->si_addr - base : 0,
	       (uintptr_t)regs[REG_RIP] - base, regs[REG_TRAPNO], regs[REG_ERR],
	       regs[REG_EFL] & 0xd00);
}

static void jump_back(int number, siginfo_t *info, void *data)
{
	(void)number;
	if (!is_quiet)
		report("fault", info, data);
	siglongjmp(back, 1);
}

/* past a ud2, under an alignment check: nothing here is at an odd address */
static void skip(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number, (void)info;
	steps = context->uc_mcontext.gregs[REG_EFL] >> 18 & 1;
	context->uc_mcontext.gregs[REG_RIP] += 2;
}

static void check_alignment(void)
{
	uint64_t flags;

	seen_ask(SIGILL, 0, skip, 0);
	__asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n orl $0x40000, (%%rsp)\n popfq\n ud2\n"
			 "pushfq\n pop %0\n pushq $2\n popfq\n lea 128(%%rsp), %%rsp"
			 : "=r"(flags)
			 :
			 : "cc", "memory");
	seen_ask(SIGILL, 0, jump_back, 0);
	printf("alignment checked: in the handler's frame %d, behind it %d\n", steps,
	       (int)(flags >> 18 & 1));
	steps = 0;
}

static void note(int number, siginfo_t *info, void *data)
{
	(void)number;
	report("trap", info, data);
}

#define TRY(name, ...)                                                                             \
	do {                                                                                       \
		base = (uintptr_t) && name;                                                        \
		printf(#name "\n");                                                                \
		if (!sigsetjmp(back, 1)) {                                                         \
name:                                                                                              \
			__VA_ARGS__;                                                               \
		}                                                                                  \
	} while (0)

/* The trap flag set by ourselves: each instruction is one trap, at the next. */
static void count_step(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number;
	if (steps < 64)
		stepped[steps] = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	if (info->si_code != TRAP_TRACE ||
	    (uintptr_t)info->si_addr != (uintptr_t)context->uc_mcontext.gregs[REG_RIP])
		odd_traps++;
	steps++;
}

static void off_later(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	count_step(number, info, data);
	context->uc_mcontext.gregs[REG_EFL] |= 0x100;
	if (steps >= 6)
		context->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
}

extern char step_from[], step_back[], step_to[], own_step[];
static void step_self(void)
{
	seen_ask(SIGTRAP, 0, count_step, 0);
	steps = 0;
	__asm__ volatile("mov $3, %%ecx\n xor %%eax, %%eax\n"
			 "pushfq\n orl $0x100, (%%rsp)\n popfq\n"
			 "step_from: nop\n"
			 "step_back: add %%ecx, %%eax\n dec %%ecx\n jnz step_back\n"
			 "lea 3f(%%rip), %%rdx\n call 1f\n jmp *%%rdx\n"
			 "1: lea 5(%%rax), %%eax\n ret\n"
			 "3: pushfq\n andl $~0x100, (%%rsp)\n popfq\n"
			 "step_to: nop\n"
			 :
			 :
			 : "rax", "rcx", "rdx", "memory");
	printf("%d steps, %d others:", steps, odd_traps);
	for (int i = 0; i < steps && i < 64; i++)
		printf(" %ld", (long)(stepped[i] - (uintptr_t)step_from));
	printf("\n");
	/* Begun by a handler. */
	seen_ask(SIGTRAP, 0, off_later, 0);
	steps = 0;
	__asm__ volatile(
		"int3\n own_step: nop\n nop\n lea 1(%%rax), %%eax\n nop\n nop\n nop\n nop\n"
		:
		:
		: "rax");
	printf("%d steps, %d others:", steps, odd_traps);
	for (int i = 0; i < steps && i < 64; i++)
		printf(" %ld", (long)(stepped[i] - (uintptr_t)own_step));
	printf("\n");
}

/* Only the calls' pushes touch the stack. */
static long (*volatile deeper)(long);
static long deep(long n)
{
	return deeper(n + 1) + 1;
}

/* A fault that the handler mends, in the middle of a string instruction. */
static void mend(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number;
	printf("  mended: %ld bytes left, %ld behind\n", (long)context->uc_mcontext.gregs[REG_RCX],
	       (long)((char *)context->uc_mcontext.gregs[REG_RDI] - page));
	mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

int main(void)
{
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	void (*volatile nowhere)(void) = (void (*)(void))0x1000;
	void (*volatile null)(void) = NULL;
	struct rlimit limit = { 262144, 262144 };
	volatile int zero = 0;
	char *to, *from = malloc(8192);
	size_t bytes = 8192;

	setvbuf(stdout, NULL, _IONBF, 0);
	page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&other, NULL);
	for (int number = 1; number < 32; number++)
		if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL)
			seen_ask(number, SA_ONSTACK, jump_back, 0);
	seen_ask(SIGTRAP, 0, note, 0);
	TRY(read_null, *(volatile int *)8);
	TRY(write_null, *(volatile int *)16 = 1);
	TRY(general, *(volatile int *)0x8000000000000000 = 1);
	TRY(divide, zero = 1 / zero);
	TRY(undefined, __asm__ volatile("ud2"));
	TRY(halt, __asm__ volatile("hlt"));
	TRY(breakpoint, __asm__ volatile("nop\n int3\n nop"));
	TRY(int3_long, __asm__ volatile(".byte 0xcd, 0x03\n nop"));
	TRY(int_other, __asm__ volatile("int $0x42\n nop"));
	TRY(jump_nowhere, nowhere());
	TRY(jump_null, null());
	TRY(return_nowhere, __asm__ volatile("sub $128, %rsp\n push $0x2000\n ret"));
	TRY(misaligned, __asm__ volatile("movaps 1(%rsp), %xmm0"));
	is_quiet = 1;
	deeper = deep;
	check_alignment();
	setrlimit(RLIMIT_STACK, &limit);
	if (!sigsetjmp(back, 1))
		deep(1);
	is_quiet = 0;
	printf("overflow through a pointer caught\n");
	base = (uintptr_t)page;
	seen_ask(SIGSEGV, 0, mend, 0);
	to = page;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
	printf("copied %ld\n", (long)(to - page));
	seen_ask(SIGTRAP, 0, note, 0);
	step_self();
	return 0;
}
