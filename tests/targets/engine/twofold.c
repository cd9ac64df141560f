/* SPDX-License-Identifier: MIT */
/*
 * Code in shared memory that is written at one address and run at another, as some JITs do. What it
 * computes is printed, and the same natively.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul

static uint8_t *write_at, *run_at;
static int file;
static sigjmp_buf back;
static volatile long steps;

/* xor %eax, %eax; 1: inc %eax; dec %edi; jmp; nop; jmp; jnz 1b; ret */
static const uint8_t turns[] = "\x31\xc0\xff\xc0\xff\xcf\xeb\x00\x90\xeb\x00\x75\xf5\xc3";

static void get(void)
{
	file = memfd_create("code", 0);
	if (file < 0 || ftruncate(file, PAGE))
		exit(2);
	write_at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	run_at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	if (write_at == MAP_FAILED || run_at == MAP_FAILED)
		exit(2);
}

static int call(unsigned int offset, int value)
{
	int (*volatile it)(int) = (int (*)(int))(uintptr_t)(run_at + offset);

	return it(value);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	sigaction(number, &action, NULL);
}

/* Flags and rcx live from block to block. */
static void live(void)
{
	/* cmp $5, %edi; mov %edi, %ecx; jmp; jl; lea 1(%rcx), %eax; ret; lea 2(%rcx), %eax; ret */
	static const uint8_t code[] = "\x83\xff\x05\x89\xf9\xeb\x00\x7c\x04"
				      "\x8d\x41\x01\xc3\x8d\x41\x02\xc3";
	long sum = 0;

	memcpy(write_at, code, sizeof(code));
	for (int i = 0; i < 3000; i++)
		sum += call(0, i % 11);
	memcpy(write_at + 64, turns, sizeof(turns));
	printf("live %ld, %d turns\n", sum, call(64, 1000000));
}

static void note(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	steps++;
}

static void storm(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };

	handle(SIGALRM, note);
	setitimer(ITIMER_REAL, &often, NULL);
	printf("%d turns in a storm\n", call(64, 5000000));
	setitimer(ITIMER_REAL, &never, NULL);
}

static void *answer_later(void *at)
{
	usleep(20000); /* time is the subject: by then the loop is linked to itself */
	*(volatile uint8_t *)at = 42;
	return NULL;
}

/* A loop whose own instruction another thread changes. */
static void waits(void)
{
	/* 1: mov $0, %eax; test %eax, %eax; jz 1b; ret */
	static const uint8_t code[] = "\xb8\x00\x00\x00\x00\x85\xc0\x74\xf7\xc3";
	pthread_t other;

	memcpy(write_at + 128, code, sizeof(code));
	if (pthread_create(&other, NULL, answer_later, write_at + 129))
		exit(2);
	printf("waited for %d\n", call(128, 0));
	pthread_join(other, NULL);
}

/* inc %eax, nine times, and ret; each byte of it becomes another. */
static void bytes(void)
{
	for (unsigned int at = 0; at < 20; at++) {
		memcpy(write_at + 256, "\x31\xc0", 2);
		for (unsigned int i = 2; i < 20; i += 2)
			memcpy(write_at + 256 + i, "\xff\xc0", 2);
		write_at[276] = 0xc3;
		printf("%d", call(256, 0));
		if (at >= 2)
			write_at[256 + at] = at % 2 ? 0xc8 : 0xc3; /* dec %eax; ret */
		printf(" %d, ", call(256, 0));
	}
	printf("byte by byte\n");
}

static void step_through(unsigned int offset)
{
	steps = 0;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\t"
			 "mov $3, %%edi\n\tcall *%0\n\tpushfq\n\tandl $~0x100, (%%rsp)\n\tpopfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 : "r"(run_at + offset)
			 : "rax", "rcx", "rdi", "memory", "cc");
	printf("%ld steps\n", steps);
}

/* By the trap flag: code that has run, and code on a page that no thread has come to. */
static void stepped(void)
{
	handle(SIGTRAP, note);
	step_through(64);
	munmap(run_at, PAGE);
	munmap(write_at, PAGE);
	close(file);
	get();
	memcpy(write_at + 64, turns, sizeof(turns));
	step_through(64);
}

static void report(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;

	printf("signal %d, code %d at %ld, address %ld\n", number, info->si_code,
	       (long)((uint8_t *)context->uc_mcontext.gregs[REG_RIP] - run_at),
	       (long)((uint8_t *)info->si_addr - run_at));
	siglongjmp(back, 1);
}

/* The page goes, and comes back. */
static void lost(void)
{
	handle(SIGBUS, report);
	handle(SIGSEGV, report);
	if (!sigsetjmp(back, 1) && !ftruncate(file, 0))
		call(64, 5);
	if (!ftruncate(file, PAGE))
		memcpy(write_at + 64, turns, sizeof(turns));
	printf("%d turns again\n", call(64, 12));
	if (!sigsetjmp(back, 1) && !mprotect(run_at, PAGE, PROT_NONE))
		call(64, 5);
}

int main(void)
{
	get();
	live();
	storm();
	waits();
	bytes();
	stepped();
	lost();
	return 0;
}
