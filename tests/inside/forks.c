/* SPDX-License-Identifier: MIT */
/* Every way to make another process, while markers are being hit. */
#include "inside.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static int status_of(pid_t pid)
{
	int status = 0;

	want(pid > 0, "a child");
	want(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run_leaf(void)
{
	hits(50);
	return 17;
}

static int run_fork(void)
{
	pid_t child;
	int status;

	hits(500);
	child = fork();
	if (!child) {
		pid_t grandchild;

		hits(300);
		grandchild = fork();
		if (!grandchild) {
			hits(200);
			_exit(4);
		}
		hits(100);
		exit(status_of(grandchild) + 1);
	}
	hits(500);
	status = status_of(child);
	hits(10);
	return status;
}

static int run_storm(void)
{
	int sum = 0;

	for (int round = 0; round < 20; round++) {
		pid_t children[10];

		for (int i = 0; i < 10; i++) {
			children[i] = fork();
			if (!children[i]) {
				hits(5);
				_exit(i);
			}
		}
		hits(5);
		for (int i = 0; i < 10; i++)
			sum += status_of(children[i]);
	}
	return sum == 900 ? 9 : 1;
}

static int over;

static void *hit_until_over(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		hits(20);
		sleep_ms(1);
	}
	return NULL;
}

static int run_threaded(void)
{
	pthread_t threads[4];
	int sum = 0;

	for (int i = 0; i < 4; i++)
		want(!pthread_create(&threads[i], NULL, hit_until_over, NULL), "pthread_create");
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			char *memory = malloc(10000);

			hits(10);
			free(memory);
			exit(3);
		}
		sum += status_of(child);
	}
	over = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return sum;
}

/* Not recorded, since no handler of fork reports it; but counted, as discarded. */
static int run_bare(void)
{
	pid_t child;

	hits(100);
	child = (pid_t)syscall(SYS_fork);
	if (!child) {
		for (int i = 0; i < 1000; i++)
			WAYMARK(in, lost, count_one(), i, "text");
		_exit(5);
	}
	hits(100);
	return status_of(child);
}

static int run_vfork(void)
{
	char *args[] = { inside_argv[0], "leaf", NULL };
	volatile int sum = 0;

	for (volatile int i = 0; i < 5; i++) {
		pid_t child;

		hits(10);
		child = vfork();
		if (!child) {
			WAYMARK(in, between, count_one());
			execv(args[0], args);
			_exit(1);
		}
		sum += status_of(child);
		hits(10);
	}
	return sum;
}

static int run_spawn(void)
{
	char *args[] = { inside_argv[0], "leaf", NULL };
	char command[4200];
	pid_t child;
	FILE *pipe;
	int sum = 0;

	hits(10);
	want(!posix_spawn(&child, args[0], NULL, NULL, args, environ), "posix_spawn");
	sum += status_of(child);
	snprintf(command, sizeof command, "'%s' leaf >/dev/null", inside_argv[0]);
	sum += WEXITSTATUS(system(command));
	pipe = popen(command, "r");
	want(pipe != NULL, "popen");
	sum += WEXITSTATUS(pclose(pipe));
	hits(10);
	return sum;
}

static int run_exec(void)
{
	char *args[] = { inside_argv[0], "leaf", NULL };

	hits(100);
	execv(args[0], args);
	return 1;
}

static int run_exec_other(void)
{
	char path[4200];
	char *args[] = { path, "leaf", NULL };

	snprintf(path, sizeof path, "%s", inside_argv[0]);
	strcpy(strrchr(path, '/'), "/threads");
	hits(100);
	execv(path, args);
	return 1;
}

/* From a thread that is not the first: exec ends all others, ours too. */
static void *exec_it(void *unused)
{
	run_exec();
	return unused;
}

static int run_exec_thread(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 2; i++)
		want(!pthread_create(&threads[i], NULL, hit_until_over, NULL), "pthread_create");
	sleep_ms(5);
	want(!pthread_create(&threads[2], NULL, exec_it, NULL), "pthread_create");
	pthread_join(threads[2], NULL);
	return 1;
}

static int run_exec_clean(void)
{
	char *args[] = { inside_argv[0], "leaf", NULL };

	unsetenv("LD_PRELOAD");
	hits(100);
	execv(args[0], args);
	return 1;
}

static int cloned(void *unused)
{
	(void)unused;
	hits(2000);
	syscall(SYS_exit, 0);
	return 0;
}

/* A thread that shares its maker's thread-local storage. */
static int clone_with(int flags)
{
	static char stacks[4][65536] __attribute__((aligned(16)));
	static pid_t alive[4];

	hits(10);
	for (int i = 0; i < 4; i++) {
		alive[i] = 1;
		want(clone(cloned, stacks[i] + sizeof stacks[i], flags | CLONE_CHILD_CLEARTID, NULL,
			   NULL, NULL, &alive[i]) > 0,
		     "clone");
	}
	hits(2000);
	for (int i = 0; i < 4; i++)
		while (__atomic_load_n(&alive[i], __ATOMIC_ACQUIRE))
			sched_yield();
	hits(10);
	return 6;
}

static int run_clone(void)
{
	return clone_with(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM);
}

/* Another process in the same memory. */
static int run_clone_vm(void)
{
	return clone_with(CLONE_VM | SIGCHLD);
}

static int run_daemon(void)
{
	pid_t child = fork();

	if (!child) {
		want(!daemon(0, 0), "daemon");
		for (int fd = 0; fd < 4096; fd++)
			close(fd);
		if (fork())
			_exit(0);
		setsid();
		for (int i = 0; i < 20; i++) {
			hits(50);
			sleep_ms(5);
		}
		/* the first free descriptors are the daemon's own */
		inside_words[2] = (uint64_t)open("/dev/null", O_RDONLY) + 1;
		inside_words[2] += (uint64_t)open("/dev/null", O_RDONLY) * 10;
		__atomic_store_n(&inside_words[1], 1, __ATOMIC_RELEASE);
		_exit(0);
	}
	want(status_of(child) == 0, "the daemon's parent");
	for (int i = 0; i < 5000 && !__atomic_load_n(&inside_words[1], __ATOMIC_ACQUIRE); i++)
		sleep_ms(1);
	inside_words[1] = 0;
	return (int)inside_words[2];
}

static int run_closefrom(void)
{
	int sum = 0;

	for (int round = 0; round < 10; round++) {
		hits(100);
		closefrom(3);
		for (int fd = 3; fd < 100; fd++)
			sum += dup2(0, fd) == fd;
		hits(100);
		closefrom(3);
		sum += open("/dev/null", O_RDONLY);
		sum += fcntl(4, F_GETFD) == -1;
	}
	return sum == 10 * (97 + 4) ? 8 : 1;
}

static const struct inside_case cases[] = {
	{ "leaf", run_leaf },
	{ "fork", run_fork },
	{ "storm", run_storm },
	{ "threaded", run_threaded },
	{ "bare", run_bare },
	{ "vfork", run_vfork },
	{ "spawn", run_spawn },
	{ "exec", run_exec },
	{ "exec_other", run_exec_other },
	{ "exec_thread", run_exec_thread },
	{ "exec_clean", run_exec_clean },
	{ "clone", run_clone },
	{ "clone_vm", run_clone_vm },
	{ "daemon", run_daemon },
	{ "closefrom", run_closefrom },
	{ 0 },
};

int main(int argc, char **argv)
{
	return inside_main(argc, argv, cases);
}
