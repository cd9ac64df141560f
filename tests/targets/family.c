/* SPDX-License-Identifier: MIT */
/*
 * A program with children, all of which write `word`: family MODE [COUNT]. Each has values of its
 * own: a child continues from its parent's. It says "right" if everything happened as without a
 * tracer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN_MAX 1000

volatile unsigned long word, other, third, fourth;
static __thread volatile int mine;
static int count;
extern char **environ;

static __attribute__((noinline)) void write_one(void)
{
	word = word + 1;
}

static void await(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		printf("wrong: child %d: %x\n", (int)pid, status);
		exit(1);
	}
}

/* One after another: two writes each. */
static void *mode_many(void *data)
{
	for (int i = 0; i < count; i++) {
		unsigned long before = word;
		pid_t pid = fork();

		if (!pid) {
			write_one();
			write_one();
			_exit(word != before + 2);
		}
		write_one();
		await(pid);
	}
	return data;
}

/* All at once. */
static void *mode_crowd(void *data)
{
	static pid_t all[CHILDREN_MAX];

	for (int i = 0; i < count && i < CHILDREN_MAX; i++) {
		all[i] = fork();
		if (!all[i]) {
			write_one();
			write_one();
			_exit(0);
		}
	}
	for (int i = 0; i < count && i < CHILDREN_MAX; i++)
		await(all[i]);
	return data;
}

static void *body_add(void *data)
{
	for (int i = 0; i < 10; i++)
		__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
	return data;
}

static void run(void *(*body)(void *), int threads)
{
	pthread_t all[8];

	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, body, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
}

/* Each forks the next; in the last, three threads write ten times each. */
static void *mode_chain(void *data)
{
	pid_t pid;

	if (!count) {
		run(body_add, 3);
		return data;
	}
	write_one();
	count--;
	pid = fork();
	if (!pid) {
		mode_chain(data);
		_exit(0);
	}
	await(pid);
	return data;
}

/* A thread forks, and its copy of it is the child's first. */
static void *mode_thread(void *data)
{
	run(mode_many, 1);
	return data;
}

/* A child writes, and executes this program, whose child writes. */
static void *mode_execs(void *self)
{
	pid_t pid = fork();

	if (!pid) {
		write_one();
		execl(self, self, "many", "1", NULL);
		_exit(9);
	}
	await(pid);
	return self;
}

/*
 * Children that share memory, to the end or until they execute; the write of one that does is not
 * its own.
 */
static void *mode_spawns(void *self)
{
	char *arguments[] = { self, (char *)"many", (char *)"1", NULL };
	pid_t pid;

	for (int i = 0; i < count; i++) {
		if (posix_spawn(&pid, self, NULL, NULL, arguments, environ))
			exit(3);
		write_one();
		await(pid);
		pid = vfork();
		if (!pid) {
			word = word + 1; /* NOLINT */
			_exit(0);
		}
		await(pid);
	}
	return self;
}

/* The child's parent goes at once: a daemon. */
static void *mode_daemon(void *data)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		exit(3);
	if (!fork()) {
		if (fork())
			_exit(0);
		for (int i = 0; i < 5; i++)
			write_one();
		_exit(0);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) || wait(NULL) < 0)
		exit(4);
	return data;
}

/* Children that are killed as they begin. */
static void *mode_killed(void *data)
{
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		int status;

		if (!pid)
			for (;;) {
				write_one();
				usleep(100);
			}
		usleep((useconds_t)(i * 37 % 20000));
		kill(pid, SIGKILL);
		if (waitpid(pid, &status, 0) != pid || status != SIGKILL) {
			printf("wrong: a killed child: %x\n", status);
			exit(1);
		}
	}
	return data;
}

/* Children that live on. */
static void *mode_forever(void *data)
{
	pid_t parent = getpid();

	for (int i = 0; i < count; i++)
		if (!fork())
			break;
	puts("ready");
	while (getppid() != 1 || getpid() == parent) {
		write_one();
		usleep(2000);
	}
	return data;
}

/* Four of its words are written before it forks, and by its child. */
static void *mode_four(void *data)
{
	pid_t pid = fork();

	word = other = third = fourth = 1;
	if (!pid)
		_exit(0);
	await(pid);
	return data;
}

/* Each of both has a variable of its thread's; the child executes a program without these. */
static void *mode_runs(void *data)
{
	pid_t pid;

	mine = 1;
	pid = fork();
	if (!pid) {
		write_one();
		mine = 2;
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	await(pid);
	write_one();
	mine = 3;
	return data;
}

static __attribute__((noinline)) void store(volatile int *to, int value)
{
	*to = value;
}

static __attribute__((noinline)) int inner(int value)
{
	volatile int local = value;

	store(&local, value + 1);
	word = (unsigned long)value;
	return local;
}

static void *mode_locals(void *data)
{
	int wrong = inner(1) != 2;
	pid_t pid = fork();

	if (!pid)
		_exit(inner(5) != 6);
	await(pid);
	if (wrong || inner(2) != 3)
		exit(3);
	return data;
}

static void drop(void)
{
	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		_exit(1);
}

/* As another user, as its children are. */
static void *mode_dropped(void *data)
{
	drop();
	return mode_crowd(data);
}

/* The child is another user's; until it is killed. */
static void *mode_drops(void *data)
{
	if (!fork()) {
		drop();
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	for (;;) {
		write_one();
		usleep(1000);
	}
	return data;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void *(*run)(void *);
	} modes[] = {
		{ "many", mode_many },	     { "crowd", mode_crowd },	  { "chain", mode_chain },
		{ "thread", mode_thread },   { "execs", mode_execs },	  { "spawns", mode_spawns },
		{ "daemon", mode_daemon },   { "forever", mode_forever }, { "four", mode_four },
		{ "killed", mode_killed },   { "runs", mode_runs },	  { "locals", mode_locals },
		{ "dropped", mode_dropped }, { "drops", mode_drops },
	};
	const char *mode = argc > 1 ? argv[1] : "";

	count = argc > 2 ? atoi(argv[2]) : 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	write_one();
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(mode, modes[i].name))
			modes[i].run(argv[0]);
	puts("right");
	return 0;
}
