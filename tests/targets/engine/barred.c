/* SPDX-License-Identifier: MIT */
/* Processes that keep out what records them: barred SCENE (tests/engine_children.sh). */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 10

static int end_of(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* One after the other. */
static void have_children(void)
{
	int sum = 0;

	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(i);
		sum += end_of(pid);
	}
	printf("%d\n", sum);
}

/* It takes from itself what others have mapped for it. */
static void swept(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		/* the recorder's, wherever this program is */
		if ((strstr(line, "memfd:waymark-") || strstr(line, "/libwaymark-trail.so")) &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2) {
			madvise((void *)start, end - start, MADV_DONTFORK);
			mprotect((void *)start, end - start, PROT_NONE);
			munmap((void *)start, end - start);
		}
	have_children();
}

/* A child of vfork(2) that dies of calls which the program that it executes does not make. */
static void filtered(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 5, .filter = code };
	pid_t pid;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	pid = vfork();
	if (!pid) {
		if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			execl("/bin/sh", "sh", "-c", "(exit 3)", NULL);
		_exit(9);
	}
	printf("%d\n", end_of(pid));
}

/* A child of vfork(2) limits the memory of what it executes, which lives until it is looked at. */
static void cramped(void)
{
	struct rlimit limit = { 38000000ul << 10, 38000000ul << 10 };
	pid_t pid = vfork();

	if (!pid) {
		if (!prlimit(0, RLIMIT_AS, &limit, NULL))
			execl("/bin/sh", "sh", "-c", "ulimit -v; sleep 1; exit 3", NULL);
		_exit(9);
	}
	printf("%d\n", end_of(pid));
}

/* Its children have no room for one more descriptor. */
static void full(void)
{
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
	have_children();
}

static void undumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	alarm(15); /* of each child, 1.5 s */
	have_children();
}

static const struct {
	const char *name;
	void (*run)(void);
} scenes[] = {
	{ "swept", swept }, { "filtered", filtered },	  { "cramped", cramped },
	{ "full", full },   { "undumpable", undumpable },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(argv[1], scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	return 2;
}
