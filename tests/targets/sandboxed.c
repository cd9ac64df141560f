/* SPDX-License-Identifier: MIT */
/*
 * A program that filters its own system calls while its variable is watched: sandboxed MODE. What
 * its filter does not know kills it; it does not know the return from a signal. It says "right" at
 * the end, or what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

volatile uint64_t written;
static volatile int shut_in;
static pthread_barrier_t barrier;

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* A filter by its name, with what it allows; all else kills. */
#define FILTER(name, ...)                                                                          \
	static struct sock_filter name##_words[] = {                                               \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),             \
		__VA_ARGS__,                                                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),                               \
	};                                                                                         \
	static struct sock_fprog name = { sizeof name##_words / sizeof name##_words[0],            \
					  name##_words }

FILTER(narrow, ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_munmap),
       ALLOW(SYS_madvise), ALLOW(SYS_futex));

/* Sleep, but not restart_syscall(2), by which an interrupted sleep resumes. */
#define SLEEP                                                                                      \
	ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_nanosleep), ALLOW(SYS_clock_nanosleep)
FILTER(sleeping, SLEEP);

/* That, too, and the return from a signal. */
FILTER(bearing, SLEEP, ALLOW(SYS_restart_syscall), ALLOW(SYS_rt_sigreturn));

static void wrong(const char *what)
{
	printf("wrong: %s\n", what);
	exit(1);
}

/* No call of libc's that its filter might not know. */
static void end(void)
{
	static const char right[] = "right\n";
	ssize_t got = write(1, right, sizeof right - 1);

	syscall(SYS_exit_group, got == sizeof right - 1 ? 0 : 1);
}

__attribute__((noinline)) static void write_one(void)
{
	written = written + 1;
}

static void write_some(void)
{
	for (int i = 0; i < 10; i++)
		write_one();
}

/* With room for a probe's jump. */
__attribute__((noinline)) void called(void)
{
	__asm__ volatile("nopl 0(%rax, %rax)");
}

static void by_prctl(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &narrow, 0, 0))
		wrong("prctl");
}

static void by_syscall(void)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &narrow))
		wrong("seccomp");
}

static void by_both(void)
{
	if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &narrow, 0, 0))
		wrong("prctl by syscall");
}

static void to_all(void)
{
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &narrow))
		wrong("seccomp for all");
}

static void strictly(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
		wrong("strict");
}

/* Past libc: that is seen late, and until then it must be able to bear a signal. */
static void past_libc(void)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"((long)SYS_seccomp), "D"((long)SECCOMP_SET_MODE_FILTER), "S"(0L),
			   "d"(&bearing)
			 : "rcx", "r11", "memory");
	if (result)
		wrong("seccomp past libc");
	write_some();
	for (int i = 0; i < 10; i++)
		usleep(100000);
}

/* When a file says so, and with nothing written after it. */
static void late(void)
{
	puts("ready");
	fflush(stdout);
	while (access("go", F_OK))
		usleep(10000);
	by_prctl();
	end();
}

/* It sleeps on, and is let go meanwhile. */
static void sleepily(void)
{
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &sleeping, 0, 0))
		wrong("prctl");
	(void)!write(1, "ready\n", 6);
	usleep(1500000);
	end();
}

static void *body(void *unused)
{
	pthread_barrier_wait(&barrier);
	while (!shut_in)
		write_one();
	write_some();
	for (;;) /* the end of a thread makes calls that the filter does not know */
		__asm__ volatile("pause");
	return unused;
}

static void with_threads(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, body, NULL))
			wrong("pthread_create");
	pthread_barrier_wait(&barrier);
	to_all();
	write_some();
	shut_in = 1;
	end();
}

static volatile sig_atomic_t seen;

static void on_signal(int number)
{
	(void)number;
	seen++;
}

/* What libc's two functions are for, besides. */
static void otherwise(void)
{
	char name[16] = "";
	uint64_t trap = 1u << (SIGUSR1 - 1);
	void *page;
	int status;
	long child;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != -1 || errno != EFAULT)
		wrong("whether there is seccomp");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1 || errno != EFAULT)
		wrong("whether there is seccomp, by syscall");
	if (prctl(PR_SET_NAME, "other", 0, 0, 0) || prctl(PR_GET_NAME, name, 0, 0, 0) ||
	    strcmp(name, "other"))
		wrong("name");
	errno = 0;
	if (prctl(-1, 0, 0, 0, 0) != -1 || errno != EINVAL)
		wrong("errno of prctl");
	errno = 0;
	if (syscall(-1) != -1 || errno != ENOSYS)
		wrong("errno of syscall");
	page = (void *)syscall(SYS_mmap, NULL, 8192L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       4096L);
	if (page == MAP_FAILED || munmap(page, 8192))
		wrong("six arguments");
	signal(SIGUSR1, on_signal);
	if (syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) || seen != 1)
		wrong("a signal");
	if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof trap))
		wrong("mask");
	child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!child)
		syscall(SYS_exit_group, 7);
	if (waitpid((pid_t)child, &status, 0) != child || WEXITSTATUS(status) != 7)
		wrong("clone");
	/* its own filter, in our memory */
	child = vfork();
	if (!child) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &narrow, 0, 0);
		_exit(8);
	}
	if (waitpid((pid_t)child, &status, 0) != child || WEXITSTATUS(status) != 8)
		wrong("a child with a filter");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "prctl", by_prctl },	     { "syscall", by_syscall },
		{ "both", by_both },	     { "all", to_all },
		{ "threads", with_threads }, { "strict", strictly },
		{ "past", past_libc },	     { "late", late },
		{ "sleepily", sleepily },    { "otherwise", otherwise },
	};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	write_some();
	called();
	for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(modes[i].name, argv[1]))
			modes[i].run();
	write_some();
	if (argc > 1 && !strcmp(argv[1], "strict")) {
		(void)!write(1, "right\n", 6);
		syscall(SYS_exit, 0);
	}
	end();
	return 0;
}
