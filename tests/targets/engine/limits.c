/* SPDX-License-Identifier: MIT */
/* What a program sees of memory and of limits, and what it can't have: limits SCENE. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <unistd.h>

#define MIB (1ul << 20)

static const char *can_have(unsigned long bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return "no";
	at[0] = at[bytes - 1] = 1;
	munmap(at, bytes);
	return "yes";
}

static void report(int which)
{
	struct rlimit got = { 1, 1 }, other = { 2, 2 };

	getrlimit((__rlimit_resource_t)which, &got);
	prlimit(0, (__rlimit_resource_t)which, NULL, &other);
	printf("%d: %ld %ld, %s\n", which, (long)got.rlim_cur, (long)got.rlim_max,
	       memcmp(&got, &other, sizeof(got)) ? "twice" : "once");
	fflush(stdout);
}

/* In a child, and in what the child executes. */
static void children(int which)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		report(which);
		printf("child: %s %s\n", can_have(100 * MIB), can_have(4096 * MIB));
		fflush(stdout);
		execl("/bin/sh", "sh", "-c", which == RLIMIT_AS ? "ulimit -Sv" : "ulimit -Sd",
		      NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	printf("status %d\n", status);
}

static void limited(int which)
{
	struct rlimit asked = { 2048 * MIB, 8192 * MIB }, was;

	printf("set: %d\n", setrlimit((__rlimit_resource_t)which, &asked));
	report(which);
	printf("%s %s %s\n", can_have(100 * MIB), can_have(1024 * MIB), can_have(4096 * MIB));
	children(which);
	asked.rlim_cur = 6144 * MIB;
	printf("more: %d", prlimit(0, (__rlimit_resource_t)which, &asked, &was));
	printf(", before %ld\n", (long)was.rlim_cur);
	printf("%s %s\n", can_have(4096 * MIB), can_have(7000 * MIB));
	asked.rlim_cur = asked.rlim_max + 1;
	printf("bad: %d\n", setrlimit((__rlimit_resource_t)which, &asked) ? errno : 0);
	printf("nowhere: %d\n",
	       prlimit(0, (__rlimit_resource_t)which, (void *)8, NULL) ? errno : 0);
	report(which);
	execl("/nonexistent", "nothing", NULL);
	printf("%s %s\n", can_have(4096 * MIB), can_have(7000 * MIB));
	report(which);
	execl("/bin/sh", "sh", "-c", which == RLIMIT_AS ? "ulimit -Sv" : "ulimit -Sd", NULL);
}

static void address_space(void)
{
	limited(RLIMIT_AS);
}

static void data(void)
{
	limited(RLIMIT_DATA);
}

static void *thread_run(void *data)
{
	return data;
}

static void *memory_limit(void *data)
{
	struct rlimit asked = { 2048 * MIB, RLIM_INFINITY };
	int error = setrlimit(RLIMIT_AS, &asked);

	printf("thread: %d %s %s\n", error, can_have(100 * MIB), can_have(4096 * MIB));
	return data;
}

static volatile int is_over;

static void *thread_spin(void *data)
{
	while (!is_over)
		;
	return data;
}

static void *thread_read(void *data)
{
	char byte;

	while (read(*(int *)data, &byte, 1) < 0 && errno == EINTR)
		;
	return data;
}

/* A thread limits the memory of all, while others run, wait in a call, and limit it as well. */
static void threads(void)
{
	pthread_t others[4];
	int ends[2];

	if (pipe(ends))
		return;
	pthread_create(&others[0], NULL, thread_spin, NULL);
	pthread_create(&others[1], NULL, thread_read, &ends[0]);
	pthread_create(&others[2], NULL, memory_limit, NULL);
	pthread_create(&others[3], NULL, memory_limit, NULL);
	for (int i = 2; i < 4; i++)
		pthread_join(others[i], NULL);
	is_over = write(ends[1], "", 1) == 1;
	for (int i = 0; i < 2; i++)
		pthread_join(others[i], NULL);
	printf("%s %s\n", can_have(100 * MIB), can_have(4096 * MIB));
}

/* Another process limits it: it is met at the next mmap(2), mremap(2) or brk(2). */
static void outside(void)
{
	const struct rlimit asked = { 2048 * MIB, RLIM_INFINITY };
	pid_t pid = getpid();
	char *at;

	if (!fork())
		_exit(prlimit(pid, RLIMIT_DATA, &asked, NULL) ||
		      prlimit(pid, RLIMIT_AS, &asked, NULL));
	wait(NULL);
	at = sbrk(0);
	printf("%d %d\n", brk(at + MIB), sbrk(0) == at + MIB);
	printf("%s %s\n", can_have(100 * MIB), can_have(4096 * MIB));
}

/* All memory locked, and what comes. */
static void locked(void)
{
	unsigned char there[4];
	pthread_t thread;
	char *at;

	printf("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE) ? errno : 0);
	at = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at[0] = at[8192] = 1;
	printf("%d %d\n", mincore(at, 4 * 4096, there), there[0] & there[2] & 1);
	pthread_create(&thread, NULL, thread_run, NULL);
	pthread_join(thread, NULL);
	printf("%d %d\n", mlockall(0) ? errno : 0, mlockall(64) ? errno : 0);
	printf("%d\n", munlockall());
}

/* Descriptors: none but the program's; and all of them can be closed. */
static void descriptors(void)
{
	struct rlimit none = { 0, 0 };
	void *library;

	for (int fd = 0; fd < 100; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	puts("");
	fflush(stdout);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	printf("%d\n", library != NULL);
	if (library) {
		double (*root)(double) = (double (*)(double))dlsym(library, "cbrt");

		printf("%.1f\n", root(27));
	}
	setrlimit(RLIMIT_NOFILE, &none);
	printf("%d\n", open("/", O_RDONLY) < 0 ? errno : 0);
}

/* The first thread is gone when code is mapped. */
static void *maps_late(void *data)
{
	void *library;

	usleep(20000);
	library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	if (library) {
		double (*root)(double) = (double (*)(double))dlsym(library, "cbrt");

		printf("%.1f\n", root(27));
	}
	exit(0);
	return data;
}

static void late(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, maps_late, NULL);
	pthread_exit(NULL);
}

/* A filter that refuses everything but what is needed from here on. */
static void filtered(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(rules) / sizeof(*rules), rules };

	puts("filters");
	fflush(stdout);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		puts("no filter");
	for (int i = 0; i < 1000; i++)
		(void)!write(1, i % 100 ? "." : "\n", 1);
	_exit(4);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenes[] = {
	{ "address_space", address_space },
	{ "data", data },
	{ "locked", locked },
	{ "threads", threads },
	{ "outside", outside },
	{ "descriptors", descriptors },
	{ "late", late },
	{ "filtered", filtered },
};

int main(int count, char **words)
{
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (count > 1 && !strcmp(words[1], scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	return 2;
}
