/* SPDX-License-Identifier: MIT */
/*
 * Spans whose cost is known: costly MODE. It prints what the whole of its spans took by its own
 * reading, around them: so much or a little less is what they cost. Or costly under COMMAND...: the
 * command under a seccomp filter that allows everything.
 */
#define _GNU_SOURCE
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
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <waymark/marker.h>

#define ROUNDS 10
#define PAGES 100
#define SLEEPS 5
#define BURN_NS 10000000
#define THREADS 50

static struct {
	uint64_t faults, switches, cpu_ns;
} own;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void usage(uint64_t *faults, uint64_t *switches)
{
	struct rusage now;

	getrusage(RUSAGE_THREAD, &now);
	*faults = (uint64_t)(now.ru_minflt + now.ru_majflt);
	*switches = (uint64_t)(now.ru_nvcsw + now.ru_nivcsw);
}

static void touch(volatile char *pages)
{
	for (int i = 0; i < PAGES; i++)
		pages[i * 4096] = 1;
}

static volatile char *pages_new(void)
{
	void *at = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	if (at == MAP_FAILED)
		exit(2);
	madvise(at, PAGES * 4096, MADV_NOHUGEPAGE);
	return at;
}

static void fault(void)
{
	volatile char *pages = pages_new();
	uint64_t begun, ended, switches;

	usage(&begun, &switches);
	WAYMARK_BEGIN(cost, faults, (int)PAGES);
	touch(pages);
	WAYMARK_END(cost, faults);
	usage(&ended, &switches);
	own.faults += ended - begun;
	munmap((void *)pages, PAGES * 4096);
}

static void doze(void)
{
	uint64_t faults, begun, ended;

	usage(&faults, &begun);
	WAYMARK_BEGIN(cost, sleeps);
	for (int i = 0; i < SLEEPS; i++)
		usleep(1000);
	WAYMARK_END(cost, sleeps);
	usage(&faults, &ended);
	own.switches += ended - begun;
}

static void burn(void)
{
	uint64_t begun = cpu_ns();

	WAYMARK_BEGIN(cost, burns);
	while (cpu_ns() - begun < BURN_NS)
		;
	WAYMARK_END(cost, burns);
	own.cpu_ns += cpu_ns() - begun;
}

static void work(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		fault();
		doze();
		burn();
	}
	/* one within the other, and an event */
	WAYMARK_BEGIN(cost, outer);
	fault();
	WAYMARK(cost, point, "between");
	WAYMARK_END(cost, outer);
	/* no room for a count, and for one */
	WAYMARK(wide, full, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
	WAYMARK(wide, most, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static void *thread_main(void *data)
{
	fault();
	return data;
}

/* Some at a time, one after the other. */
static void threads(void)
{
	pthread_t all[THREADS];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&all[i], NULL, thread_main, NULL))
				exit(2);
		for (int i = 0; i < THREADS; i++)
			pthread_join(all[i], NULL);
	}
}

static volatile int handled;

/* Its span is within the one that it interrupts, and in another stream. */
static void handler(int number)
{
	(void)number;
	fault();
	handled++;
}

static void signals(void)
{
	signal(SIGUSR1, handler);
	for (int i = 0; i < ROUNDS; i++) {
		WAYMARK_BEGIN(cost, interrupted);
		raise(SIGUSR1);
		WAYMARK_END(cost, interrupted);
	}
	if (handled != ROUNDS)
		exit(2);
}

/* A span that begins before the fork ends in both. */
static void forks(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		int status = 0;
		pid_t child;

		WAYMARK_BEGIN(cost, forked);
		child = fork();
		if (!child)
			fault();
		WAYMARK_END(cost, forked);
		if (!child)
			_exit(0);
		if (waitpid(child, &status, 0) != child || status)
			exit(2);
	}
}

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Neither getrusage(2) nor clock_gettime(2), nor anything else that an agent's hit may want. */
static struct sock_filter words[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(SYS_write),
	ALLOW(SYS_exit),
	ALLOW(SYS_exit_group),
	ALLOW(SYS_munmap),
	ALLOW(SYS_madvise),
	ALLOW(SYS_futex),
	ALLOW(SYS_clock_nanosleep),
	ALLOW(SYS_nanosleep),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog filter = { sizeof words / sizeof words[0], words };

static void inside(int count)
{
	for (int i = 0; i < count; i++) {
		WAYMARK_BEGIN(cost, filtered);
		WAYMARK_END(cost, filtered);
	}
}

static void leave(const char *text)
{
	ssize_t got = write(1, text, strlen(text));

	syscall(SYS_exit_group, got > 0 ? 0 : 1);
}

/* By libc: the agent is notified before. */
static void filters(void)
{
	inside(ROUNDS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0))
		exit(2);
	inside(ROUNDS);
	leave("{}\n");
}

static void filters_all(void)
{
	inside(ROUNDS);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
		exit(2);
	inside(ROUNDS);
	leave("{}\n");
}

/* Until it is killed. */
static void forever(void)
{
	for (;;)
		doze();
}

/* As in a container: a filter that everything has, and that allows everything. */
static int under(char **argv)
{
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &all };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		return 2;
	execvp(argv[0], argv);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "work", work },	{ "threads", threads }, { "signals", signals },
		{ "forks", forks },	{ "filters", filters }, { "filters-all", filters_all },
		{ "forever", forever },
	};

	if (argc > 2 && !strcmp(argv[1], "under"))
		return under(argv + 2);
	touch(pages_new());
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		if (argc != 2 || strcmp(modes[i].name, argv[1]))
			continue;
		modes[i].run();
		printf("{\"faults\": %llu, \"switches\": %llu, \"cpu_ns\": %llu}\n",
		       (unsigned long long)own.faults, (unsigned long long)own.switches,
		       (unsigned long long)own.cpu_ns);
		return 0;
	}
	return 2;
}
