/* SPDX-License-Identifier: MIT */
/* Signals, the program's own handlers, and ways out of them, while markers are being hit. */
#include "inside.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static sigjmp_buf way_out;
static volatile sig_atomic_t seen, wrong;

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	want(!sigaction(signal, &action, NULL), "sigaction");
}

static void use_alternate_stack(void)
{
	static char memory[262144];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };

	want(!sigaltstack(&stack, NULL), "sigaltstack");
}

/* ---- handlers see what they would see ---- */

static void *trap_at;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	hits(1);
	if (signal == SIGSEGV) {
		wrong += info->si_addr != (void *)0x5678 || info->si_code != SEGV_MAPERR;
		siglongjmp(way_out, 1);
	}
	wrong += (void *)at->uc_mcontext.gregs[REG_RIP] != trap_at;
	seen++;
}

static void on_child(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	hits(1);
	wrong += info->si_code != CLD_EXITED || info->si_status != 3;
	seen++;
}

static int run_handlers(void)
{
	install(SIGSEGV, on_fault, 0);
	install(SIGTRAP, on_fault, 0);
	install(SIGCHLD, on_child, SA_RESTART);
	for (int i = 0; i < 100; i++) {
		hits(3);
		if (!sigsetjmp(way_out, 1))
			*(volatile int *)0x5678 = 1;
		__asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %0\n\tint3\n1:"
				 : "=m"(trap_at)
				 :
				 : "rax");
	}
	want(seen == 100, "a trap each time");
	for (int i = 0; i < 5; i++) {
		pid_t child = fork();
		int status;

		if (!child)
			_exit(3);
		while (waitpid(child, &status, 0) < 0)
			;
	}
	want(seen == 105, "a SIGCHLD for each child and no other");
	return wrong;
}

/* ---- storms ---- */

static void on_tick(int signal, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	hits(1);
	if (signal != SIGUSR1 && seen % 4 == 0)
		raise(SIGUSR1);
	seen++;
}

static int storm(int flags)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	uint64_t end_ns = now_ns() + 300000000u;

	install(SIGALRM, on_tick, flags);
	install(SIGPROF, on_tick, flags);
	install(SIGUSR1, on_tick, flags | SA_NODEFER);
	setitimer(ITIMER_REAL, &often, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	/* the machine may have stood still for most of that */
	while (now_ns() < end_ns || seen <= 20)
		hits(1000);
	setitimer(ITIMER_REAL, &never, NULL);
	setitimer(ITIMER_PROF, &never, NULL);
	hits(10);
	return seen > 20 ? 4 : 1;
}

static int run_storm(void)
{
	return storm(0);
}

static int run_storm_on_stack(void)
{
	use_alternate_stack();
	return storm(SA_ONSTACK);
}

/* ---- ways out ---- */

static void on_tick_jump(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	hits(1);
	siglongjmp(way_out, 1);
}

static int jumps(int flags)
{
	struct itimerval once = { { 0, 0 }, { 0, 100 } };
	volatile int jumped = 0;

	install(SIGALRM, on_tick_jump, flags);
	while (jumped < 300) {
		if (sigsetjmp(way_out, 1)) {
			jumped++;
			hits(5);
			continue;
		}
		setitimer(ITIMER_REAL, &once, NULL);
		for (;;)
			hits(10);
	}
	hits(1000);
	return jumped == 300 ? 5 : 1;
}

static int run_jump(void)
{
	return jumps(0);
}

static int run_jump_on_stack(void)
{
	use_alternate_stack();
	return jumps(SA_ONSTACK);
}

static void on_overflow(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	hits(2);
	siglongjmp(way_out, 1);
}

static int __attribute__((noinline)) fall(volatile char *above, int step)
{
	char here[64 + step];

	here[0] = *above;
	WAYMARK(in, fall, count_one(), here[0], "deeper");
	return step ? fall(here, step) + here[0] : 0;
}

static int run_overflow(void)
{
	volatile int rounds = 0;

	use_alternate_stack();
	install(SIGSEGV, on_overflow, SA_ONSTACK);
	for (int i = 0; i < 40; i++) {
		char zero = 0;

		if (!sigsetjmp(way_out, 1))
			fall(&zero, 4000 + i * 40);
		rounds++;
		hits(20);
	}
	return rounds;
}

/* Markers in a handler that left by longjmp from the alternate stack, four deep and more. */
static int depth;

static void on_deep(int signal, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	WAYMARK(in, deep, count_one(), depth);
	if (++depth < 10)
		raise(signal);
	WAYMARK(in, deep, count_one(), depth);
}

/* The signal comes between a marker's arguments: nested, though not in a hit. */
static int raised(void)
{
	raise(SIGUSR2);
	return 1;
}

static int run_deep(void)
{
	install(SIGUSR2, on_deep, SA_NODEFER);
	for (int i = 0; i < 50; i++) {
		depth = 0;
		WAYMARK(in, outer, count_one(), raised());
		raise(SIGUSR2);
	}
	return 5;
}

static const struct inside_case cases[] = {
	{ "handlers", run_handlers },
	{ "storm", run_storm },
	{ "storm_on_stack", run_storm_on_stack },
	{ "jump", run_jump },
	{ "jump_on_stack", run_jump_on_stack },
	{ "overflow", run_overflow },
	{ "deep", run_deep },
	{ 0 },
};

int main(int argc, char **argv)
{
	return inside_main(argc, argv, cases);
}
