/* SPDX-License-Identifier: MIT */
/*
 * Does one thing as often as it can, the one named by its argument:
 *
 *	malloc     eight threads allocate, fill, check and free; `malloc1` does it without threads
 *	libraries1 a library is loaded and unloaded, without threads
 *	threads    threads start and end
 *	signals    a timer's signal at 1 kHz, another by kill(2), on a stack of its own, counted
 *	forks      children are forked, and execute something
 *	sleepers   two hundred threads that sleep
 *	setuid     setuid(2) to what it is, which glibc has every thread do
 *	blocked    all signals blocked, two pending
 *	leaderless the first thread has ended, another continues
 *	relay      the first thread has ended, each other starts one and ends
 *	execs      executes itself over and over
 *	exits      starts threads and exits at once
 *	vforked    one of its threads waits in vfork(2)
 *	seccomp    under a filter that allows everything
 *	zombie     ends at once
 *	faults     two threads raise faults and handle them, thousands of times a second
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

static atomic_int over;

static void *malloc_storm(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	unsigned char *held[64] = { 0 };
	size_t bytes[64] = { 0 };

	while (!over) {
		int i = rand_r(&seed) % 64;

		for (size_t at = 0; held[i] && at < bytes[i]; at += 61)
			target_want(held[i][at] == (unsigned char)i, "the heap");
		free(held[i]);
		bytes[i] = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 16 ? 512 : 200000);
		held[i] = malloc(bytes[i]);
		target_want(held[i] != NULL, "malloc");
		memset(held[i], i, bytes[i]);
		if (!arg && target_over())
			over = 1;
	}
	for (int i = 0; i < 64; i++)
		free(held[i]);
	return NULL;
}

static void *thread_once(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
	return NULL;
}

static void *thread_storm(void *arg)
{
	(void)arg;
	while (!over) {
		pthread_t thread;
		atomic_int ran = 0;
		int err = pthread_create(&thread, NULL, thread_once, &ran);

		target_want(!err, "pthread_create");
		pthread_join(thread, NULL);
		target_want(ran == 1, "the thread ran");
	}
	return NULL;
}

static void run_threads(void *(*fn)(void *), int count)
{
	pthread_t threads[256];

	for (int i = 0; i < count; i++)
		target_want(!pthread_create(&threads[i], NULL, fn, (void *)(uintptr_t)(i + 1)),
			    "pthread_create");
	target_ready();
	while (!target_over())
		usleep(1000);
	over = 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void storm_malloc(void)
{
	run_threads(malloc_storm, 8);
}

static void storm_malloc1(void)
{
	target_ready();
	malloc_storm(NULL);
}

static void storm_libraries1(void)
{
	target_ready();
	while (!target_over()) {
		void *library = dlopen("libutil.so.1", RTLD_NOW);

		target_want(library && !dlclose(library), "dlopen and dlclose");
	}
}

static void storm_threads(void)
{
	run_threads(thread_storm, 4);
}

static volatile sig_atomic_t sent_seen, alarms, off_stack;
static char *alt_stack;

static void on_signal(int signal)
{
	char here;

	if (&here < alt_stack || &here > alt_stack + 65536)
		off_stack = 1;
	if (signal == SIGALRM)
		alarms++;
	else
		sent_seen++;
}

/* Every signal that we send ourselves is handled before kill() returns: none may be lost. */
static void storm_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct itimerspec beat = { { .tv_nsec = 1000000 }, { .tv_nsec = 1000000 } };
	int sent = 0, overrun = 0;
	stack_t stack = { .ss_size = 65536 };
	timer_t timer;

	target_has_signals = 1;
	alt_stack = stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	target_want(!timer_create(CLOCK_MONOTONIC, NULL, &timer), "timer_create");
	timer_settime(timer, 0, &beat, NULL);
	target_ready();
	while (!target_over()) {
		target_want(!kill(getpid(), SIGUSR1), "kill");
		sent++;
		target_want(sent_seen == sent, "a signal was lost");
		overrun += timer_getoverrun(timer);
	}
	target_want(!off_stack, "a handler off its stack");
	target_want(alarms > 0, "no alarm came");
	(void)overrun;
}

static void storm_forks(void)
{
	char *const args[] = { "true", NULL };
	char *const none[] = { NULL };
	int status;

	target_ready();
	while (!target_over()) {
		pid_t child = fork();

		if (!child)
			_exit(5);
		target_want(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5,
			    "fork");
		target_want(!posix_spawn(&child, "/bin/true", NULL, NULL, args, none), "spawn");
		target_want(waitpid(child, &status, 0) == child && !status, "the spawned child");
	}
}

static void *sleeper(void *arg)
{
	(void)arg;
	while (!over) {
		uint64_t start = target_now_ns();

		target_want(!usleep(20000), "usleep");
		target_want(target_now_ns() - start >= 20000000, "a sleep was cut short");
	}
	return NULL;
}

static void storm_sleepers(void)
{
	run_threads(sleeper, 200);
}

/* Under setuid(2) the broadcast itself cuts sleeps short. */
static void *spinner(void *arg)
{
	while (!over)
		usleep(100);
	return arg;
}

static void storm_setuid(void)
{
	pthread_t thread;

	target_has_signals = 1;
	pthread_create(&thread, NULL, spinner, NULL);
	target_ready();
	while (!target_over()) {
		target_want(!setuid(getuid()), "setuid");
		usleep(500);
	}
	over = 1;
	pthread_join(thread, NULL);
}

/* All signals blocked; what was pending stays so, and no other comes. */
static void storm_blocked(void)
{
	sigset_t all, now, pending;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &all); /* less those that can't be */
	kill(getpid(), SIGTERM);
	raise(SIGUSR2);
	target_ready();
	while (!target_over()) {
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		target_want(!memcmp(&all, &now, 8), "the signal mask");
		sigpending(&pending);
		target_want(sigismember(&pending, SIGTERM) && sigismember(&pending, SIGUSR2),
			    "pending signals");
	}
}

/* The leader has ended; its other threads continue. */
static void *without_leader(void *arg)
{
	(void)arg;
	usleep(20000);
	target_ready();
	while (!target_over())
		usleep(1000);
	_exit(0);
}

static void storm_leaderless(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, without_leader, NULL);
	pthread_exit(NULL);
}

static void *relay(void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (!arg)
		usleep(20000);
	if (!arg)
		target_ready();
	if (target_over())
		_exit(0);
	usleep(500);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	target_want(!pthread_create(&thread, &attr, relay, "on"), "pthread_create");
	return NULL;
}

static void storm_relay(void)
{
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		pthread_create(&thread, NULL, relay, i ? "on" : NULL);
	pthread_exit(NULL);
}

static void storm_execs(void)
{
	char *const args[] = { "storms", "execs-on", NULL };

	target_ready();
	execv("/proc/self/exe", args);
}

static void storm_execs_on(void)
{
	char *const args[] = { "storms", "execs-on", NULL };

	for (int i = 0; i < 20 && !target_over(); i++)
		usleep(100);
	if (!target_over())
		execv("/proc/self/exe", args);
}

static void storm_exits(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, spinner, NULL);
	target_ready();
	usleep(3000);
	exit(0);
}

static void *vforker(void *arg)
{
	pid_t child = vfork();
	int status;

	if (!child) {
		target_ready();
		while (!target_over())
			usleep(1000);
		_exit(7);
	}
	target_want(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7,
		    "vfork");
	return arg;
}

static void storm_vforked(void)
{
	pthread_t thread;

	target_want(!pthread_create(&thread, NULL, vforker, NULL), "pthread_create");
	pthread_join(thread, NULL);
}

static void storm_seccomp(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	target_want(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	target_want(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
	target_ready();
	while (!target_over())
		usleep(1000);
}

/* Two bytes each, and registers that say which: what a handler finds must be theirs. */
static void on_fault(int number, siginfo_t *info, void *data)
{
	greg_t *regs = ((ucontext_t *)data)->uc_mcontext.gregs;

	target_want(regs[REG_RIP] == regs[REG_RDX] && regs[REG_RCX] == number,
		    "where a fault came from");
	target_want(info->si_addr == (void *)(number == SIGSEGV ? 16 : regs[REG_RIP]),
		    "what a fault is about");
	regs[REG_RIP] += 2;
	regs[REG_RAX] = 5;
}

static void *faulter(void *arg)
{
	while (!over) {
		long got = 0, other = 0, third = 0;

		__asm__ volatile("lea 1f(%%rip), %%rdx\n 1: mov (%%rbx), %%eax"
				 : "+a"(got)
				 : "b"(16l), "c"((long)SIGSEGV)
				 : "rdx", "memory");
		__asm__ volatile("lea 1f(%%rip), %%rdx\n 1: ud2"
				 : "+a"(other)
				 : "c"((long)SIGILL)
				 : "rdx", "memory");
		__asm__ volatile("xor %%esi, %%esi\n lea 1f(%%rip), %%rdx\n 1: div %%esi"
				 : "+a"(third)
				 : "c"((long)SIGFPE)
				 : "rdx", "rsi", "memory");
		target_want(got == 5 && other == 5 && third == 5, "a fault was not handled");
	}
	return arg;
}

static void storm_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	run_threads(faulter, 2);
}

static void storm_zombie(void)
{
	target_ready();
}

static const struct {
	const char *name;
	void (*storm)(void);
} storms[] = {
	{ "malloc", storm_malloc },	    { "malloc1", storm_malloc1 },
	{ "libraries1", storm_libraries1 }, { "threads", storm_threads },
	{ "signals", storm_signals },	    { "forks", storm_forks },
	{ "sleepers", storm_sleepers },	    { "setuid", storm_setuid },
	{ "blocked", storm_blocked },	    { "leaderless", storm_leaderless },
	{ "execs", storm_execs },	    { "execs-on", storm_execs_on },
	{ "exits", storm_exits },	    { "vforked", storm_vforked },
	{ "seccomp", storm_seccomp },	    { "zombie", storm_zombie },
	{ "relay", storm_relay },	    { "faults", storm_faults },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(storms) / sizeof(storms[0]); i++) {
		if (argc < 2 || strcmp(argv[1], storms[i].name))
			continue;
		storms[i].storm();
		return 0;
	}
	return 2;
}
