/* SPDX-License-Identifier: MIT */
/*
 * Faults whose handler continues elsewhere, as for null pointers in Java: there, registers count
 * that the path without a fault writes again. Only after a long while, so that the code has become
 * worth every optimisation. Exit status 7 if everything is unchanged.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <ucontext.h>

#define TURNS 20000000l
#define FAULTS 8

static void on_fault(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number;
	(void)info;
	context->uc_mcontext.gregs[REG_RIP] = context->uc_mcontext.gregs[REG_R15];
}

__attribute__((always_inline)) static inline unsigned long sum_at(const int *place, long turn)
{
	unsigned long sum;

	__asm__ volatile(
		"mov $0x1111, %%eax\n\tmov $0x2222, %%ecx\n\tmov $0x3333, %%edx\n\t"
		"mov $0x4444, %%esi\n\tmov $0x5555, %%edi\n\tlea 3f(%%rip), %%r15\n\t"
		"jmp 1f\n"
		"1:	test %%ebx, %%ebx\n\tjz 2f\n\tnop\n"
		"2:	mov (%1), %%r8d\n\t"
		"mov $1, %%eax\n\tmov $2, %%ecx\n\tmov $3, %%edx\n\tmov $4, %%esi\n\t"
		"mov $5, %%edi\n\txor %%r8d, %%r8d\n"
		"3:	add %%rcx, %%rax\n\tadd %%rdx, %%rax\n\tadd %%rsi, %%rax\n\tadd %%rdi, %%rax"
		: "=&a"(sum)
		: "r"(place), "b"(turn & 1)
		: "rcx", "rdx", "rsi", "rdi", "r8", "r15", "memory");
	return sum;
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	static int good;
	unsigned long sum = 0;

	sigaction(SIGSEGV, &action, 0);
	for (long turn = 0; turn < TURNS; turn++) {
		const int *place = turn >= TURNS - FAULTS ? (const int *)8 : &good;

		sum = sum_at(place, turn);
		if (turn >= TURNS - FAULTS && sum != 0xffff)
			return 1;
	}
	return 7;
}
