/* SPDX-License-Identifier: MIT */
/*
 * A program whose variables are watched: watched MODE [COUNT [THREADS]]. It must behave as without
 * a watch: it says "right" at the end, or what was wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 64

struct order {
	int64_t id;
	double price;
	char tag[4];
} order;

volatile uint64_t in_turn, raced, counted;
volatile int32_t small;
volatile double rate;
volatile uint8_t narrow;
const int constant = 5;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int count = 100, threads = 8;
static volatile sig_atomic_t stopped, seen;
extern char **environ;

static void wrong(const char *what)
{
	printf("wrong: %s\n", what);
	exit(1);
}

static void run(void *(*body)(void *))
{
	pthread_t all[THREADS_MAX];

	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, body, (void *)i))
			wrong("pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

static __attribute__((noinline)) void write_one(void)
{
	in_turn = in_turn + 1;
}

static void *body_turn(void *unused)
{
	for (int i = 0; i < count; i++) {
		pthread_mutex_lock(&lock);
		write_one();
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static void mode_turn(void)
{
	run(body_turn);
	if (in_turn != (uint64_t)count * (uint64_t)threads)
		wrong("not as many as were written");
}

static void *body_race(void *number)
{
	for (int i = 1; i <= count; i++)
		raced = (uint64_t)(uintptr_t)number << 32 | (uint32_t)i;
	return NULL;
}

static void mode_race(void)
{
	run(body_race);
}

static void *body_add(void *unused)
{
	for (int i = 0; i < count; i++)
		__atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST);
	return unused;
}

static void mode_add(void)
{
	run(body_add);
	if (counted != (uint64_t)count * (uint64_t)threads)
		wrong("not as many as were added");
}

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
}

static void *body_forever(void *unused)
{
	while (!stopped) {
		__atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST);
		pthread_mutex_lock(&lock);
		write_one();
		pthread_mutex_unlock(&lock);
		usleep(1000);
	}
	return unused;
}

/* Until SIGTERM. */
static void mode_forever(void)
{
	signal(SIGTERM, on_stop);
	run(body_forever);
	if (counted != in_turn)
		wrong("lost some");
}

static void *body_hot(void *number)
{
	while (!stopped)
		raced = (uint64_t)(uintptr_t)number;
	return NULL;
}

/* Until SIGTERM, without a pause. */
static void mode_hot(void)
{
	signal(SIGTERM, on_stop);
	run(body_hot);
}

/* The store is the function's first instruction: where a probe's jump goes. */
void store_first(volatile uint64_t *to, uint64_t value);
__asm__(".text\n"
	".globl store_first\n"
	".type store_first, @function\n"
	"store_first:\n\t.cfi_startproc\n\tmov %rsi, (%rdi)\n\tmov %rsi, %rax\n\tret\n\t.cfi_endproc\n"
	".size store_first, . - store_first\n");

static void mode_moved(void)
{
	for (int i = 1; i <= count; i++)
		store_first(&in_turn, (uint64_t)i);
}

static void mode_types(void)
{
	for (int i = 0; i < 3; i++) {
		small = -i;
		rate = i / 2.0;
		narrow = (uint8_t)(250 + i);
		order = (struct order){ i, i * 1.5, "ab" };
		__asm__ volatile("" ::: "memory");
	}
}

static int is_blocked(void)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	return sigismember(&now, SIGTRAP);
}

/* By libc's calls. */
static void mode_masks(void)
{
	sigset_t all, before;

	sigfillset(&all);
	for (int i = 0; i < count; i++) {
		pthread_sigmask(SIG_SETMASK, &all, &before);
		if (!is_blocked())
			wrong("SIGTRAP is not blocked");
		write_one();
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (is_blocked())
			wrong("SIGTRAP is blocked");
	}
}

/* Past libc: what is hit meanwhile can't be reported one by one. */
static void mode_raw_masks(void)
{
	uint64_t trap = 1u << (SIGTRAP - 1);

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof trap);
	for (int i = 0; i < count; i++)
		write_one();
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, NULL, sizeof trap);
	if (in_turn != (uint64_t)count)
		wrong("not as many as were written");
}

static void on_signal(int number)
{
	(void)number;
	write_one();
	seen++;
}

static void mode_handlers(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < count; i++) {
		raise(SIGUSR1);
		errno = EXDEV;
		write_one();
		if (errno != EXDEV)
			wrong("errno");
	}
	if (seen != count || in_turn != 2u * (unsigned int)count)
		wrong("handlers");
	sigaction(SIGUSR1, NULL, &action);
	if (!sigismember(&action.sa_mask, SIGTRAP))
		wrong("the handler's mask");
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	if (info->si_code != SI_TKILL)
		wrong("a SIGTRAP that is not the program's");
	seen++;
}

/* Its own SIGTRAP. */
static void mode_traps(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, now;

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < count; i++) {
		write_one();
		raise(SIGTRAP);
		write_one();
	}
	sigaction(SIGTRAP, NULL, &now);
	if (seen != count || now.sa_sigaction != on_trap)
		wrong("its own handler");
}

static void on_counted(int number)
{
	(void)number;
	seen = 1;
}

/*
 * Another process sends SIGTRAP as fast as it can, while writes are made on a small signal stack.
 */
static void mode_storm(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = 16384, .ss_sp = malloc(16384) };
	pid_t parent = getpid(), child;

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_handler = on_counted;
	sigaction(SIGTRAP, &action, NULL);
	child = fork();
	if (!child) {
		while (getppid() == parent && !kill(parent, SIGTRAP))
			;
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		raise(SIGUSR1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (in_turn != (uint64_t)count)
		wrong("not as many as were written");
}

/* A handler past libc: the watch is taken away, and its signals come no more. */
static void mode_replaces(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} action;

	write_one();
	syscall(SYS_rt_sigaction, SIGTRAP, NULL, &action, sizeof action.mask);
	action.handler = on_signal;
	syscall(SYS_rt_sigaction, SIGTRAP, &action, NULL, sizeof action.mask);
	usleep(1500000);
	in_turn = 1;
	in_turn = 1;
	if (seen)
		wrong("a signal of a watch that can't stay");
}

/* Started with SIGTRAP ignored. */
static void mode_ignored(void)
{
	struct sigaction now;

	write_one();
	sigaction(SIGTRAP, NULL, &now);
	if (now.sa_handler != SIG_IGN)
		wrong("SIGTRAP is not ignored");
}

/* Under a seccomp filter that allows next to nothing. */
static void mode_strict(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	for (long i = 0; i < 1500000000; i++)
		if (i % 1000000 == 0)
			write_one();
	syscall(SYS_exit, 0);
}

static void mode_raise(void)
{
	write_one();
	raise(SIGTRAP);
	wrong("SIGTRAP ends a program");
}

static void mode_fork(void)
{
	for (int i = 0; i < count; i++) {
		pid_t child;
		int status;

		write_one();
		child = fork();
		if (!child) {
			write_one();
			_exit(in_turn == (uint64_t)i + 2 ? 0 : 1);
		}
		if (waitpid(child, &status, 0) != child || status)
			wrong("a child");
		in_turn = (uint64_t)i + 1;
	}
}

static void mode_spawn(const char *self)
{
	char *arguments[] = { (char *)self, (char *)"turn", (char *)"3", (char *)"1", NULL };

	for (int i = 0; i < count; i++) {
		pid_t child;
		int status;

		write_one();
		if (posix_spawn(&child, self, NULL, NULL, arguments, environ) ||
		    waitpid(child, &status, 0) != child || status)
			wrong("a child");
		child = vfork();
		if (!child) {
			in_turn = in_turn + 1; /* it has our memory */
			_exit(0);
		}
		waitpid(child, &status, 0);
	}
	if (in_turn != 2u * (unsigned int)count)
		wrong("not as many as were written");
}

/* Itself, or with "stays" a program that sleeps. */
static void mode_exec(const char *self, int stays)
{
	write_one();
	fflush(stdout);
	if (stays) {
		usleep(100000);
		execl("/bin/sleep", "sleep", "1", (char *)NULL);
	}
	execl(self, self, "turn", "10", "1", (char *)NULL);
	wrong("exec");
}

/* The kernel's own writes. */
static void mode_read(void)
{
	int pipes[2];
	uint64_t value = 77;

	if (pipe(pipes))
		wrong("pipe");
	for (int i = 0; i < count; i++)
		if (write(pipes[1], &value, sizeof value) != sizeof value ||
		    read(pipes[0], (void *)(uintptr_t)&in_turn, sizeof value) != sizeof value)
			wrong("read");
	write_one();
	if (in_turn != 78)
		wrong("value");
}

/*
 * A library with the variable goes at SIGUSR1, and other memory comes to its place; to the next
 * SIGUSR1.
 */
static void mode_closes(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW);
	volatile uint64_t *variable = handle ? dlsym(handle, "in_library") : NULL;
	void *page = (void *)((uintptr_t)variable & ~(uintptr_t)4095);
	uint64_t *mapped;

	if (!variable)
		wrong("dlopen");
	signal(SIGUSR1, on_signal);
	puts("opened");
	fflush(stdout);
	while (!seen)
		*variable = *variable + 1, counted++, usleep(1000);
	dlclose(handle);
	mapped = mmap(page, 4096, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	for (int i = 0; i < count && mapped != MAP_FAILED; i++)
		*(volatile uint64_t *)(uintptr_t)variable = (uint64_t)i;
	if (mapped != MAP_FAILED)
		munmap(mapped, 4096);
	puts("closed");
	fflush(stdout);
	while (seen < 2)
		usleep(1000);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "turn", mode_turn },	       { "race", mode_race },
		{ "add", mode_add },	       { "forever", mode_forever },
		{ "types", mode_types },       { "masks", mode_masks },
		{ "handlers", mode_handlers }, { "traps", mode_traps },
		{ "raise", mode_raise },       { "fork", mode_fork },
		{ "read", mode_read },	       { "moved", mode_moved },
		{ "replaces", mode_replaces }, { "raw_masks", mode_raw_masks },
		{ "storm", mode_storm },       { "hot", mode_hot },
		{ "ignored", mode_ignored },   { "strict", mode_strict },
	};
	const char *mode = argc > 1 ? argv[1] : "turn";
	size_t i = 0;

	if (argc > 2 && strcmp(mode, "closes"))
		count = atoi(argv[2]);
	if (argc > 3)
		threads = atoi(argv[3]);
	while (i < sizeof modes / sizeof modes[0] && strcmp(modes[i].name, mode))
		i++;
	if (i < sizeof modes / sizeof modes[0])
		modes[i].run();
	else if (!strcmp(mode, "exec"))
		mode_exec(argv[0], argc > 2 && !strcmp(argv[2], "stays"));
	else if (!strcmp(mode, "spawn"))
		mode_spawn(argv[0]);
	else if (!strcmp(mode, "closes"))
		mode_closes(argv[2]);
	else
		wrong("mode");
	puts("right");
	return 0;
}
