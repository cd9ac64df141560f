/* SPDX-License-Identifier: MIT */
/*
 * A program where here and there only a breakpoint can stand, and whose signals matter: traps MODE [ROUNDS [THREADS]]. It
 * calls short functions all the while, and ends with 0 when all was as it is without Waymark. ROUNDS 0:
 * until SIGTERM. Nothing of it knows of Waymark.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS_MAX 64
#define TINY_BYTES 4096

static long rounds;
static volatile sig_atomic_t ended, seen, seen_code, seen_value, seen_blocked, raises;
static volatile uintptr_t seen_pc, seen_stack;

/* Its argument + 3; what jumps back to behind its first instruction leaves no room for a jump. */
long looped(long value);
/* Adds 1 and returns what it is then; its first instruction is entered behind its prefix too: no jump fits. */
long overlapped(long *value);
/* Its argument; a single return, another function right behind it. */
long lone(long value);
/* 1 if each register and flag was as before it, over a call of a function that changes none. */
int keeps(void);
void changes_none(void);
/* Its argument + 1, by way of what it keeps below the stack pointer. */
long red_zone(long value);
/* A breakpoint of the program's own. */
void own_trap(void);
extern const char own_trap_end[];

__asm__(".text\n"
	".globl looped, overlapped, lone, changes_none, keeps, red_zone, own_trap, own_trap_end\n"
	".type overlapped, @function\n.balign 16\n"
	"overlapped:\n\t.cfi_startproc\n\tlock addq $1, (%rdi)\n\tmov (%rdi), %rax\n\tret\n"
	"\tjmp overlapped + 1\n\t.cfi_endproc\n.size overlapped, . - overlapped\n"
	".type looped, @function\n.type lone, @function\n.type changes_none, @function\n"
	".type keeps, @function\n.type red_zone, @function\n.type own_trap, @function\n"
	".balign 16\n"
	"looped:\n\t.cfi_startproc\n\tpush %rbx\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset rbx, -16\n"
	"1:\tinc %rdi\n\tadd $1, %eax\n\ttest $3, %dil\n\tmov %rdi, %rax\n\tjmp 3f\n2:\tjmp 1b\n"
	"3:\ttest $1, %ah\n\tpop %rbx\n\t.cfi_adjust_cfa_offset -8\n\tadd $2, %rax\n\tret\n\t.cfi_endproc\n"
	".size looped, . - looped\n"
	"lone:\n\t.cfi_startproc\n\tret\n\t.cfi_endproc\n.size lone, . - lone\n"
	"changes_none:\n\t.cfi_startproc\n4:\tnop\n\tjmp 6f\n5:\tjmp 4b\n6:\tret\n\t.cfi_endproc\n"
	".size changes_none, . - changes_none\n"
	"red_zone:\n\t.cfi_startproc\n\tmov %rdi, -8(%rsp)\n\tmov $0, %eax\n\tmov %rdi, -128(%rsp)\n"
	".globl red_zone_middle\nred_zone_middle:\n\tnop\n7:\tinc %rax\n\tcmp $1, %rax\n\tjl 7b\n"
	"\tadd -8(%rsp), %rax\n\tcmp %rdi, -128(%rsp)\n\tje 8f\n\tmov $-1, %rax\n8:\tret\n\t.cfi_endproc\n"
	".size red_zone, . - red_zone\n"
	"own_trap:\n\t.cfi_startproc\n\tint3\nown_trap_end:\n\tret\n\t.cfi_endproc\n"
	".size own_trap, . - own_trap\n");

/* Everything that a call could spoil is filled, a function called, and all compared. */
__asm__(".text\n.balign 16\n"
	"keeps:\n\t.cfi_startproc\n\t"
	"push %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"mov $1, %eax\n\tmov $2, %ebx\n\tmov $3, %ecx\n\tmov $4, %edx\n\tmov $5, %esi\n\tmov $6, %edi\n\t"
	"mov $7, %ebp\n\tmov $8, %r8d\n\tmov $9, %r9d\n\tmov $10, %r10d\n\tmov $11, %r11d\n\t"
	"mov $12, %r12d\n\tmov $13, %r13d\n\tmov $14, %r14d\n\tmov $15, %r15d\n\t"
	"pcmpeqd %xmm0, %xmm0\n\tmovq %rbp, %xmm7\n\tmovq %r15, %xmm15\n\t"
	"stc\n.globl keeps_middle\nkeeps_middle:\n\tnop\n\tjnc 9f\n\tcall changes_none\n\t"
	"cmp $1, %rax\n\tjne 9f\n\tcmp $2, %rbx\n\tjne 9f\n\tcmp $3, %rcx\n\tjne 9f\n\t"
	"cmp $4, %rdx\n\tjne 9f\n\tcmp $5, %rsi\n\tjne 9f\n\tcmp $6, %rdi\n\tjne 9f\n\t"
	"cmp $7, %rbp\n\tjne 9f\n\tcmp $8, %r8\n\tjne 9f\n\tcmp $9, %r9\n\tjne 9f\n\t"
	"cmp $10, %r10\n\tjne 9f\n\tcmp $11, %r11\n\tjne 9f\n\tcmp $12, %r12\n\tjne 9f\n\t"
	"cmp $13, %r13\n\tjne 9f\n\tcmp $14, %r14\n\tjne 9f\n\tcmp $15, %r15\n\tjne 9f\n\t"
	"movq %xmm7, %rax\n\tcmp $7, %rax\n\tjne 9f\n\tmovq %xmm15, %rax\n\tcmp $15, %rax\n\tjne 9f\n\t"
	"pmovmskb %xmm0, %eax\n\tcmp $0xffff, %eax\n\tjne 9f\n\t"
	"mov $1, %eax\n\tjmp 10f\n9:\txor %eax, %eax\n"
	"10:\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\tret\n\t.cfi_endproc\n"
	".size keeps, . - keeps\n");

__attribute__((target("avx"))) static int keeps_wide(void)
{
	unsigned char before[32], after[32];

	if (!__builtin_cpu_supports("avx"))
		return 1;
	for (int i = 0; i < 32; i++)
		before[i] = (unsigned char)(i * 7 + 1);
	__asm__ volatile("vmovdqu %1, %%ymm5\n\tlea -128(%%rsp), %%rsp\n\tcall changes_none\n\t"
			 "lea 128(%%rsp), %%rsp\n\tvmovdqu %%ymm5, %0"
			 : "=m"(after)
			 : "m"(before)
			 : "xmm5", "memory");
	return !memcmp(before, after, sizeof before);
}

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "traps: line %d: %s\n", __LINE__, #what);                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void round_of(long i)
{
	long value = i;

	CHECK(overlapped(&value) == i + 1 && value == i + 1);
	CHECK(looped(i) == i + 3);
	CHECK(lone(0) || 1);
	CHECK(red_zone(i) == i + 1);
	CHECK(keeps());
	CHECK(keeps_wide());
}

static void *run(void *unused)
{
	for (long i = 0; rounds ? i < rounds : !ended; i++)
		round_of(i);
	return unused;
}

static void on_term(int number)
{
	(void)number;
	ended = 1;
}

/* ---- signals ---- */

static void on_trap(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	sigset_t mask;
	int was = ++seen;
	char here;

	(void)number;
	seen_code = info->si_code;
	seen_value = info->si_value.sival_int;
	seen_pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	seen_stack = (uintptr_t)&here;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	seen_blocked = sigismember(&mask, SIGTRAP) | sigismember(&mask, SIGUSR1) << 1 |
		       sigismember(&mask, SIGUSR2) << 2;
	round_of(1000); /* in a handler, too */
	if (raises) {
		raises--;
		raise(SIGTRAP);
		CHECK(seen == was);
	}
}

static void on_user(int number)
{
	(void)number;
	round_of(77);
	seen++;
}

static void set_trap(int flags)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | flags };

	sigaddset(&action.sa_mask, SIGUSR1);
	CHECK(!sigaction(SIGTRAP, &action, NULL));
}

/* On the signal stack already: what it has there stays as it was. */
static void on_stack(int number)
{
	volatile char here[256];

	(void)number;
	for (size_t i = 0; i < sizeof here; i++)
		here[i] = (char)i;
	own_trap();
	CHECK(seen_stack < (uintptr_t)here);
	for (size_t i = 0; i < sizeof here; i++)
		CHECK(here[i] == (char)i);
}

static int is_blocked(void)
{
	sigset_t mask;

	CHECK(!sigprocmask(SIG_BLOCK, NULL, &mask));
	return sigismember(&mask, SIGTRAP);
}

/* One that comes while its handler runs waits for its end; what the thread blocks is blocked in there too. */
static void raised_in_handler(void)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, &old));
	seen = 0;
	raises = 1;
	raise(SIGTRAP);
	CHECK(seen == 2 && !raises && seen_blocked == 7);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
}

/* The program's own handler: for what it raises, for its own breakpoints; with each of sigaction's flags. */
static void handlers(void)
{
	static char stack[64 * 1024];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction was, on_stack_too = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };

	CHECK(!sigaction(SIGTRAP, NULL, &was) && was.sa_handler == SIG_DFL);
	set_trap(0);
	CHECK(!sigaction(SIGTRAP, NULL, &was) && was.sa_sigaction == on_trap);
	CHECK(was.sa_flags & SA_SIGINFO && sigismember(&was.sa_mask, SIGUSR1) &&
	      !sigismember(&was.sa_mask, SIGTRAP));
	raise(SIGTRAP);
	CHECK(seen == 1 && seen_code == SI_TKILL && seen_blocked == 3);
	kill(getpid(), SIGTRAP);
	CHECK(seen == 2 && seen_code == SI_USER);
	raised_in_handler();
	seen = 2;
	own_trap();
	CHECK(seen == 3 && seen_code == SI_KERNEL && seen_pc == (uintptr_t)own_trap_end);
	CHECK(!is_blocked());
	set_trap(SA_NODEFER);
	own_trap();
	CHECK(seen == 4 && seen_blocked == 2);
	CHECK(!sigaltstack(&alternate, NULL));
	set_trap(SA_ONSTACK);
	own_trap();
	CHECK(seen == 5 && seen_stack - (uintptr_t)stack < sizeof stack);
	CHECK(!sigaction(SIGUSR2, &on_stack_too, NULL));
	raise(SIGUSR2);
	CHECK(seen == 6 && seen_stack - (uintptr_t)stack < sizeof stack);
	set_trap(0);
	own_trap();
	CHECK(seen == 7 && seen_stack - (uintptr_t)stack >= sizeof stack);
	set_trap(SA_RESETHAND);
	own_trap();
	CHECK(seen == 8 && !sigaction(SIGTRAP, NULL, &was) && was.sa_handler == SIG_DFL);
	CHECK(signal(SIGTRAP, SIG_IGN) == SIG_DFL);
	raise(SIGTRAP);
	CHECK(signal(SIGTRAP, SIG_DFL) == SIG_IGN);
	CHECK(sigaction(SIGKILL, &was, NULL) == -1 && errno == EINVAL);
	CHECK(sigaction(0, NULL, &was) == -1 && errno == EINVAL);
}

/* Threads cancelled for the first time, and a change of ids for all threads: by signals of libc's own. */
static void *go_on(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	while (lone(0) || 1)
		;
	return unused;
}

static void cancels(void)
{
	pthread_t thread;
	void *result;

	for (int i = 0; i < 20; i++) {
		CHECK(!pthread_create(&thread, NULL, go_on, NULL));
		CHECK(!setuid(getuid()));
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
		CHECK(result == PTHREAD_CANCELED);
		round_of(i);
	}
	for (int number = 32; number < SIGRTMIN; number++)
		CHECK(signal(number, on_user) == SIG_ERR && errno == EINVAL);
}

/* A child sends SIGTRAP so often, then a byte; -1: until it is killed. */
static pid_t start_sender(int times, const int pipes[2])
{
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	for (int i = 0; times < 0 || i < times; i++) {
		kill(parent, SIGTRAP);
		usleep(10000);
	}
	_exit(write(pipes[1], "x", 1) != 1);
}

/* SIGTRAP interrupts a system call if the program has it so, and else it does not. */
static void restarts(void)
{
	int pipes[2], status;
	pid_t sender;
	char byte;

	CHECK(!pipe(pipes));
	for (int i = 0; i < 2; i++) {
		if (i)
			CHECK(signal(SIGTRAP, SIG_IGN) != SIG_ERR);
		else
			set_trap(SA_RESTART);
		sender = start_sender(10, pipes);
		CHECK(read(pipes[0], &byte, 1) == 1);
		CHECK(waitpid(sender, &status, 0) == sender && status == 0);
		CHECK(i || seen);
	}
	set_trap(0);
	sender = start_sender(-1, pipes);
	CHECK(read(pipes[0], &byte, 1) == -1 && errno == EINTR);
	kill(sender, SIGKILL);
	while (waitpid(sender, &status, 0) == -1 && errno == EINTR)
		;
	signal(SIGTRAP, SIG_DFL);
}

/* SIGTRAP blocked: its breakpoints don't kill, what is raised waits. */
static void masks(void)
{
	sigset_t set, old;
	uint64_t now;

	set_trap(0);
	sigfillset(&set);
	CHECK(!pthread_sigmask(SIG_SETMASK, &set, &old) && !sigismember(&old, SIGTRAP));
	CHECK(is_blocked());
	round_of(5);
	raise(SIGTRAP);
	raise(SIGTRAP);
	CHECK(!seen);
	CHECK(!sigprocmask(SIG_SETMASK, &old, NULL));
	CHECK(seen == 1 && seen_code == SI_TKILL && !is_blocked());
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL) && is_blocked());
	round_of(6);
	/* of several that wait the first one comes */
	for (int i = 7; i < 10; i++)
		CHECK(!pthread_sigqueue(pthread_self(), SIGTRAP, (union sigval){ .sival_int = i }));
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &set, &old) && !is_blocked() &&
	      sigismember(&old, SIGTRAP));
	CHECK(seen == 2 && seen_code == SI_QUEUE && seen_value == 7);
	CHECK(pthread_sigmask(99, &set, NULL) == EINVAL);
	/* libc never blocks what is its own, whatever it is asked for */
	memset(&set, 0xff, sizeof set);
	CHECK(!pthread_sigmask(SIG_SETMASK, &set, &old));
	CHECK(!syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &now, 8));
	CHECK(!(now >> 31 & 3) && now >> (SIGUSR1 - 1) & 1);
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
}

/* Handlers that have all blocked, and such as have not. */
static void handlers_masks(void)
{
	struct sigaction action = { .sa_handler = on_user }, was;
	const int numbers[] = { SIGUSR1, SIGUSR2, SIGRTMAX };

	sigfillset(&action.sa_mask);
	for (int i = 0; i < 3; i++)
		CHECK(!sigaction(numbers[i], &action, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(!sigaction(numbers[i], NULL, &was) && sigismember(&was.sa_mask, SIGTRAP) &&
		      was.sa_handler == on_user);
	seen = 0;
	raise(SIGUSR2);
	CHECK(seen == 1);
	CHECK(!sigdelset(&action.sa_mask, SIGTRAP) && !sigaction(SIGUSR2, &action, &was));
	CHECK(sigismember(&was.sa_mask, SIGTRAP));
	CHECK(!sigaction(SIGUSR2, NULL, &was) && !sigismember(&was.sa_mask, SIGTRAP));
	CHECK(sigismember(&was.sa_mask, SIGUSR1));
}

/* Handlers on a signal stack with room for little more than a frame. */
static void tiny(void)
{
	static char stack[THREADS_MAX * 1024];
	struct sigaction action = { .sa_handler = on_term, .sa_flags = SA_ONSTACK };
	stack_t alternate = { .ss_sp = stack,
			      .ss_size = TINY_BYTES > (size_t)MINSIGSTKSZ ? TINY_BYTES
									  : (size_t)MINSIGSTKSZ };

	CHECK(!sigaltstack(&alternate, NULL) && !sigaction(SIGUSR1, &action, NULL));
	for (int i = 0; i < 100; i++) {
		round_of(i);
		raise(SIGUSR1);
	}
}

static int waited(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

/* Children: of fork, of vfork; those that set all signals to their defaults before they run something else. */
static void children(const char *self)
{
	struct sigaction was;

	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			for (long j = 0; j < 200; j++)
				round_of(j);
			/* an action of its own */
			set_trap(0);
			own_trap();
			CHECK(seen == 1 && seen_code == SI_KERNEL);
			signal(SIGTRAP, SIG_DFL);
			if (i % 2)
				execl(self, self, "plain", "50", (char *)NULL);
			_exit(0);
		}
		CHECK(waited(child) == 0);
		round_of(i);
		set_trap(0);
		child = vfork();
		if (!child) {
			struct sigaction action = { .sa_handler = SIG_DFL };

			for (int number = 1; number < 32; number++)
				sigaction(number, &action, NULL);
			lone(1);
			execl("/bin/true", "true", (char *)NULL);
			_exit(9);
		}
		CHECK(waited(child) == 0);
		round_of(i);
		/* what that one set was its own */
		seen = 0;
		own_trap();
		CHECK(seen == 1 && !sigaction(SIGTRAP, NULL, &was) && was.sa_sigaction == on_trap);
		seen = 0;
		signal(SIGTRAP, SIG_DFL);
		CHECK(!system("true"));
	}
}

/* What the kernel does with a breakpoint where SIGTRAP is blocked: it kills. */
static void trap_blocked(void)
{
	sigset_t set;

	set_trap(0);
	sigfillset(&set);
	CHECK(!pthread_sigmask(SIG_SETMASK, &set, NULL));
	own_trap();
}

/* Past libc, and some time after the start: in threads that call nothing else meanwhile. */
static void *block_by_call(void *unused)
{
	uint64_t mask = UINT64_C(1) << (SIGTRAP - 1);

	usleep(500000);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, 8);
	while (!ended)
		usleep(10000);
	return unused;
}

static void ignore_by_call(void)
{
	uint64_t action[4] = { (uintptr_t)SIG_IGN };

	usleep(500000);
	syscall(SYS_rt_sigaction, SIGTRAP, action, NULL, 8);
	sleep(1);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";
	unsigned int count = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	pthread_t threads[THREADS_MAX], blocker;

	rounds = argc > 2 ? atol(argv[2]) : 100;
	signal(SIGTERM, on_term);
	round_of(0);
	if (!strcmp(mode, "handlers"))
		handlers();
	else if (!strcmp(mode, "masks"))
		masks(), handlers_masks();
	else if (!strcmp(mode, "cancels"))
		cancels();
	else if (!strcmp(mode, "restarts"))
		restarts();
	else if (!strcmp(mode, "tiny"))
		tiny();
	else if (!strcmp(mode, "children"))
		children(argv[0]);
	else if (!strcmp(mode, "raise"))
		raise(SIGTRAP);
	else if (!strcmp(mode, "trap"))
		own_trap();
	else if (!strcmp(mode, "long_trap"))
		__asm__ volatile(".byte 0xcd, 3"); /* int $3 */
	else if (!strcmp(mode, "trap_blocked"))
		trap_blocked();
	else if (!strcmp(mode, "trap_ignored") && signal(SIGTRAP, SIG_IGN) != SIG_ERR)
		own_trap();
	else if (!strcmp(mode, "ignored"))
		signal(SIGTRAP, SIG_IGN);
	else if (!strcmp(mode, "replaced"))
		ignore_by_call();
	else if (!strcmp(mode, "blocked"))
		pthread_create(&blocker, NULL, block_by_call, NULL);
	else if (!strcmp(mode, "forked") && fork() < 0)
		return 1;
	ended = 0;
	for (unsigned int i = 0; i < count; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, NULL));
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	puts("right");
	return 0;
}
