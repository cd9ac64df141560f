/* SPDX-License-Identifier: MIT */
/*
 * Children of every kind that clone(2), clone3(2), fork(2) and vfork(2) make, and what each finds:
 * one line for each.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
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

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif

static char stack[1 << 16] __attribute__((aligned(64)));
static char altstack[1 << 16];
static volatile int seen, tid_word;
static volatile long shared;

static void note(int number)
{
	seen = seen * 100 + number;
}

static int work(void *data)
{
	long sum = 0;

	for (long i = 0; i < 100000; i++)
		sum += i ^ (sum >> 3);
	shared = sum + (long)data;
	return (int)(sum & 0x3f);
}

/* What a child finds, reported by its exit status: handlers, mask, stack for signals, gs. */
static int look(void)
{
	struct sigaction action;
	unsigned long gs = 1;
	stack_t stack_now;
	sigset_t mask;
	int found = 0;

	sigaction(SIGUSR1, NULL, &action);
	found |= action.sa_handler == note ? 1 : 0;
	sigaction(SIGSEGV, NULL, &action);
	found |= action.sa_handler == SIG_IGN ? 2 : 0;
	sigaction(SIGTRAP, NULL, &action);
	found |= action.sa_handler == SIG_DFL ? 4 : 0;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	found |= sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1) &&
				 !sigismember(&mask, SIGSEGV)
			 ? 8
			 : 0;
	sigaltstack(NULL, &stack_now);
	found |= stack_now.ss_sp == altstack && stack_now.ss_flags == 0 ? 16 : 0;
	found |= stack_now.ss_flags == SS_DISABLE ? 32 : 0;
	syscall(SYS_arch_prctl, 0x1004 /* ARCH_GET_GS */, &gs);
	found |= !gs ? 64 : 0;
	return found;
}

static int look_and_signal(void *data)
{
	int found;

	seen = 0;
	found = look();
	if (found & 1)
		raise(SIGUSR1);
	found |= seen == SIGUSR1 ? 128 : 0;
	(void)data;
	return found;
}

static void status_of(const char *what, pid_t pid)
{
	int status = 0;

	if (pid < 0) {
		printf("%s: %s\n", what, strerror(errno));
		return;
	}
	if (waitpid(pid, &status, __WALL) != pid)
		printf("%s: no child: %s\n", what, strerror(errno));
	else if (WIFSIGNALED(status))
		printf("%s: killed %d\n", what, WTERMSIG(status));
	else
		printf("%s: %d\n", what, WEXITSTATUS(status));
	fflush(stdout);
}

static void cloned(const char *what, int flags, int (*run)(void *))
{
	shared = 0;
	status_of(what, clone(run, stack + sizeof(stack), flags, (void *)7L, NULL, NULL, NULL));
	printf("  shared %d seen %d\n", shared != 0, seen != 0);
	seen = 0;
}

static int runs_date(void *data)
{
	char *const arguments[] = { "sh", "-c", "exit 5", NULL };

	(void)data;
	execv("/nonexistent/sh", arguments);
	execv("/bin/sh", arguments);
	return 1;
}

static int kills_itself(void *data)
{
	(void)data;
	kill(getpid(), SIGTERM);
	return 0;
}

/* The handler is the child's, not the parent's. */
static int sets_handlers(void *data)
{
	signal(SIGUSR1, SIG_DFL);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGSEGV, SIG_DFL);
	(void)data;
	return 3;
}

/* ---- clone3 ---- */

static long clone3_as(struct clone_args *args, size_t bytes)
{
	long pid = syscall(SYS_clone3, args, bytes);

	if (!pid)
		_exit(look_and_signal(NULL));
	return pid;
}

static void sizes(void)
{
	static const size_t bytes[] = { 0, 8, 63, 64, 72, 80, 88, 96, 128, 4096, 4097, 1 << 20 };
	static struct {
		struct clone_args args;
		char more[8192];
	} asked;

	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		char what[64];

		memset(&asked, 0, sizeof(asked));
		asked.args.exit_signal = SIGCHLD;
		snprintf(what, sizeof(what), "clone3 of %zu bytes", bytes[i]);
		status_of(what, (pid_t)clone3_as(&asked.args, bytes[i]));
	}
	asked.more[100] = 1;
	status_of("clone3 with more", (pid_t)clone3_as(&asked.args, 4096));
	status_of("clone3 of nothing", (pid_t)clone3_as((void *)8, 64));
	asked.more[100] = 0;
	asked.args.flags = CLONE_CLEAR_SIGHAND;
	status_of("clone3 with no handlers", (pid_t)clone3_as(&asked.args, 88));
	asked.args.flags = CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM;
	status_of("clone3 of both", (pid_t)clone3_as(&asked.args, 88));
	asked.args.flags = CLONE_VFORK;
	status_of("clone3, waited for", (pid_t)clone3_as(&asked.args, 88));
	asked.args.flags = CLONE_THREAD;
	status_of("clone3 of half a thread", (pid_t)clone3_as(&asked.args, 88));
}

/* ---- a thread with nothing of libc's ---- */

static void bare_thread(void)
{
	pid_t parent_word = 0;
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		    CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	pid_t tid;

	tid_word = 1;
	shared = 0;
	tid = clone(work, stack + sizeof(stack), flags, (void *)7L, &parent_word, NULL,
		    (void *)&tid_word);
	while (tid_word)
		syscall(SYS_futex, &tid_word, FUTEX_WAIT, 1, NULL, NULL, 0);
	printf("bare thread: %d %d\n", tid == parent_word, shared != 0);
}

static void spawned(void)
{
	char *const arguments[] = { "sh", "-c", "kill -USR1 $$; exit 9", NULL };
	posix_spawnattr_t attributes;
	extern char **environ;
	sigset_t all;
	pid_t pid;

	posix_spawnattr_init(&attributes);
	sigfillset(&all);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	if (posix_spawn(&pid, "/bin/sh", NULL, &attributes, arguments, environ))
		puts("no spawn");
	else
		status_of("spawned", pid);
	printf("spawn of nothing: %d\n",
	       posix_spawn(&pid, "/nonexistent", NULL, NULL, arguments, environ));
}

/* Code on a page that is written: who borrows our memory, or has a copy, writes it too. */
static unsigned char *code_make(void)
{
	static const unsigned char code[] = { 0xb8, 1, 0, 0, 0, 0xc3 }; /* mov $1, %eax; ret */
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, sizeof(code));
	return page;
}

static void borrowed_code(void)
{
	unsigned char *page = code_make(), *other = code_make();
	int (*run)(void) = (int (*)(void))page, (*run_other)(void) = (int (*)(void))other;
	int before = run(), before_other = run_other(), status = 0;
	pid_t pid = fork();

	if (!pid) {
		other[1] = 3;
		_exit(run_other());
	}
	status_of("code of a copy", pid);
	printf("code: %d %d\n", before_other, run_other());
	fflush(stdout);
	pid = vfork();
	if (!pid) {
		page[1] = 2;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("code: %d %d, %x\n", before, run(), status);
}

int main(void)
{
	stack_t mine = { .ss_sp = altstack, .ss_size = sizeof(altstack) };
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_ONSTACK };
	sigset_t set;
	pid_t pid;

	sigaction(SIGUSR1, &action, NULL);
	signal(SIGSEGV, SIG_IGN);
	sigaltstack(&mine, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);

	borrowed_code(); /* before one borrows our memory until the end */
	cloned("copy", SIGCHLD, look_and_signal);
	cloned("copy, no signal at its end", 0, look_and_signal);
	cloned("shares memory", CLONE_VM | SIGCHLD, look_and_signal);
	cloned("shares memory and handlers", CLONE_VM | CLONE_SIGHAND | SIGCHLD, look_and_signal);
	cloned("shares memory, handlers, files", CLONE_VM | CLONE_SIGHAND | CLONE_FILES | CLONE_FS,
	       work);
	cloned("borrows", CLONE_VM | CLONE_VFORK | SIGCHLD, look_and_signal);
	cloned("borrows with handlers", CLONE_VM | CLONE_VFORK | CLONE_SIGHAND | SIGCHLD,
	       look_and_signal);
	cloned("handlers alone", CLONE_SIGHAND | SIGCHLD, work);
	cloned("executes", SIGCHLD, runs_date);
	cloned("borrows and executes", CLONE_VM | CLONE_VFORK | SIGCHLD, runs_date);
	cloned("shares all and executes", CLONE_VM | CLONE_SIGHAND | SIGCHLD, runs_date);
	cloned("borrows and dies", CLONE_VM | CLONE_VFORK | SIGCHLD, kills_itself);
	cloned("shares all and dies", CLONE_VM | CLONE_SIGHAND | SIGCHLD, kills_itself);
	cloned("borrows, sets handlers", CLONE_VM | CLONE_VFORK | SIGCHLD, sets_handlers);
	printf("handlers afterwards: %d\n", look() & 7);
	pid = fork();
	if (!pid)
		_exit(look_and_signal(NULL));
	status_of("fork", pid);
	pid = vfork();
	if (!pid)
		_exit(look_and_signal(NULL) & 0x3f);
	status_of("vfork", pid);
	bare_thread();
	sizes();
	spawned();
	printf("in the end: %d\n", look());
	fflush(stdout);
	runs_date(NULL);
	return 1;
}
