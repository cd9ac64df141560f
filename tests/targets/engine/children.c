/* SPDX-License-Identifier: MIT */
/*
 * Processes that start and end in every way (tests/engine_children.sh). The output does not depend
 * on their order.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static volatile int turns = 100;

#define LEVEL(n)                                                                                   \
	static __attribute__((noinline)) int level_##n(int from)                                   \
	{                                                                                          \
		for (int i = 0; i < turns; i++)                                                    \
			from += i * (n);                                                           \
		return from;                                                                       \
	}

LEVEL(0)
LEVEL(1)
LEVEL(2)
LEVEL(3)

static int (*const levels[])(int) = { level_0, level_1, level_2, level_3 };

static int end_of(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int branch(int level);

static int grow(int level)
{
	int sum = levels[level](level) & 7;

	return level == 3 ? sum : sum + branch(level) + branch(level);
}

static int branch(int level)
{
	pid_t pid = fork();

	if (!pid)
		_exit(grow(level + 1) & 63);
	return end_of(pid);
}

static void tree(long unused)
{
	(void)unused;
	printf("%d\n", grow(0));
}

/* So many, at most 8 at a time. */
static void storm(long count)
{
	int sum = 0, status;

	for (long i = 0; i < count + 8; i++) {
		pid_t pid = i < count ? fork() : -1;

		if (!pid)
			_exit(level_1((int)i) & 7);
		if (i >= 8 && wait(&status) > 0)
			sum += WEXITSTATUS(status);
	}
	printf("%d\n", sum);
}

/* All at once. */
static void crowd(long count)
{
	int gate[2], status, sum = 0;
	char byte;

	if (pipe(gate))
		exit(1);
	for (long i = 0; i < count; i++)
		if (!fork()) {
			close(gate[1]);
			_exit(read(gate[0], &byte, 1) ? 9 : (int)i & 3);
		}
	close(gate[1]);
	while (wait(&status) > 0)
		sum += WEXITSTATUS(status);
	printf("%d\n", sum);
}

static volatile sig_atomic_t handled;

static void on_signal(int signal)
{
	int was = errno;
	pid_t pid = fork();

	(void)signal;
	if (!pid)
		_exit(level_1(3) & 15);
	handled += end_of(pid) == (level_1(3) & 15);
	errno = was;
}

static void handler(long count)
{
	signal(SIGUSR1, on_signal);
	for (long i = 0; i < count; i++)
		raise(SIGUSR1);
	printf("%d\n", (int)handled);
}

/* By what its parent counts the calling process, as its own memory shows; 0: it is not recorded. */
static uint32_t counted_by_parent(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int parent, count = 0;
	char line[512], *at;

	while (maps && fgets(line, sizeof(line), maps)) {
		at = strstr(line, "memfd:waymark-trail-");
		if (at && sscanf(at, "memfd:waymark-trail-%u-%u", &parent, &count) == 2)
			break;
	}
	if (maps)
		fclose(maps);
	return count;
}

/* A child does not count on from where its parent is: others may get the number that one had. */
static void counts(long generations)
{
	uint32_t before = 0, continued = 0;

	for (long i = 0; i < generations; i++) {
		pid_t pid = fork();
		uint32_t count;

		if (pid)
			_exit(end_of(pid));
		count = counted_by_parent();
		continued += before && count == before + 1;
		before = count;
	}
	printf("%u\n", continued);
}

static volatile int is_over;

static void *works(void *unused)
{
	unsigned int sum = 0;

	(void)unused;
	while (!is_over) {
		free(malloc(100 + sum % 1000));
		sum += (unsigned int)level_2((int)sum & 3);
	}
	return NULL;
}

static void *forks(void *count)
{
	long sum = 0;

	for (long i = 0; i < (long)count; i++) {
		pid_t pid = fork();

		if (!pid) {
			free(malloc(50));
			_exit(level_3((int)i) & 31);
		}
		sum += end_of(pid);
	}
	return (void *)sum;
}

static void threads(long count)
{
	pthread_t working[2], forking[3];
	long sum = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&working[i], NULL, works, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&forking[i], NULL, forks, (void *)count);
	for (int i = 0; i < 3; i++) {
		void *got;

		pthread_join(forking[i], &got);
		sum += (long)got;
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(working[i], NULL);
	printf("%ld\n", sum);
}

static void spawn(long count)
{
	char *argv[] = { (char *)"/bin/echo", (char *)"spawned", NULL };
	char *none[] = { (char *)"/nonexistent/program", NULL };
	pid_t pid;

	for (long i = 0; i < count; i++)
		if (!posix_spawn(&pid, argv[0], NULL, NULL, argv, environ))
			printf("%d\n", end_of(pid));
	printf("%d\n", posix_spawn(&pid, none[0], NULL, NULL, none, environ));
	pid = vfork();
	if (!pid) {
		execl("/nonexistent/program", "program", (char *)NULL);
		execl("/bin/false", "false", (char *)NULL);
		_exit(5);
	}
	printf("%d\n", end_of(pid));
	pid = vfork();
	if (!pid)
		_exit(6);
	printf("%d\n", end_of(pid));
}

static pid_t vfork_ending(int status)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(status);
	return pid;
}

/* Each ends at once: the tool, which traces it, may find it alive and then ended in one look. */
/* A child of vfork(2) makes others before it executes a program. */
static void vforks_that_fork(long count)
{
	char *argv[] = { "true", NULL };
	volatile long n, sum = 0;
	pid_t pid = vfork();

	if (!pid) {
		for (n = 0; n < count; n++) {
			pid_t inner = (pid_t)syscall(SYS_fork);

			if (!inner)
				_exit(3);
			sum += end_of(inner);
		}
		execv("/bin/true", argv);
		_exit(1);
	}
	printf("%d %ld\n", end_of(pid), sum);
}

static void vforks(long count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += end_of(vfork_ending(i & 7));
	printf("%d\n", sum);
}

static void chain(long count)
{
	char left[24];

	printf("%ld\n", count);
	fflush(stdout);
	if (execl("/nonexistent/program", "program", (char *)NULL) != -1 || errno != ENOENT)
		printf("executed\n");
	snprintf(left, sizeof(left), "%ld", count - 1);
	if (count)
		execl("/proc/self/exe", "children", "chain", left, (char *)NULL);
	exit(11);
}

static void *executes(void *unused)
{
	(void)unused;
	execl("/bin/echo", "echo", "by a thread", (char *)NULL);
	return NULL;
}

static void thread_executes(long unused)
{
	pthread_t thread;

	(void)unused;
	pthread_create(&thread, NULL, executes, NULL);
	pthread_join(thread, NULL);
}

static void killed(long unused)
{
	pid_t pid = fork();

	(void)unused;
	if (!pid)
		for (;;)
			level_1(1);
	usleep(100000);
	kill(pid, SIGKILL);
	printf("%d\n", end_of(pid));
	pid = fork();
	if (!pid)
		abort();
	printf("%d\n", end_of(pid));
}

static void daemon_made(long unused)
{
	int line[2];
	char said[8] = "";
	pid_t pid;

	(void)unused;
	if (pipe(line))
		exit(1);
	pid = fork();
	if (!pid) {
		setsid();
		if (fork())
			_exit(0);
		usleep(100000);
		_exit(write(line[1], "daemon", 7) != 7 || level_3(0) < 0);
	}
	close(line[1]);
	printf("%d\n", end_of(pid));
	printf("%zd %s\n", read(line[0], said, sizeof(said)), said);
}

static int borrows(void *at)
{
	*(volatile int *)at = level_2(5);
	return 6;
}

/* Its maker continues meanwhile, in the same memory. */
static void sharing(long unused)
{
	static char stack[65536] __attribute__((aligned(16)));
	int wrote = 0;
	pid_t pid = clone(borrows, stack + sizeof(stack), CLONE_VM | SIGCHLD, &wrote);
	int want = level_2(5);

	(void)unused;
	printf("%d\n", end_of(pid));
	printf("%d\n", wrote == want);
}

/* Long enough for somebody to be killed meanwhile. */
static void lasting(long count)
{
	pid_t pids[3];

	for (int i = 0; i < 3; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			unsigned int sum = 0;
			char text[24];

			for (long k = 0; k < count; k++)
				sum += (unsigned int)level_1((int)k);
			snprintf(text, sizeof(text), "%u", sum);
			execl("/bin/echo", "echo", text, (char *)NULL);
		}
	}
	for (int i = 0; i < 3; i++)
		printf("%d\n", end_of(pids[i]));
}

/* Arguments that can't be read: nothing is executed. */
static void executes_badly(long unused)
{
	char *const unreadable = (char *)0xdeadbeef;
	char *const one_bad[] = { unreadable, NULL }, *const good[] = { "none", NULL };

	(void)unused;
	execve("/proc/self/exe", (char *const *)unreadable, environ);
	printf("arguments: %d\n", errno);
	execve("/proc/self/exe", one_bad, environ);
	printf("an argument: %d\n", errno);
	execve("/proc/self/exe", good, (char *const *)unreadable);
	printf("environment: %d\n", errno);
}

#define STOPS_MAX 20

/* A tracee's stops, and its end. */
static void trace(const char *what, pid_t pid)
{
	int status, stops = 0;

	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		printf("%s: stops by %d\n", what, WSTOPSIG(status));
		if (++stops == STOPS_MAX)
			kill(pid, SIGKILL);
		ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status) == SIGUSR1 ? SIGUSR1 : 0);
	}
	printf("%s: %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void asks_to_be_traced(int is_to_execute)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		_exit(9);
	if (is_to_execute) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(8);
	}
	getppid();
	raise(SIGUSR1);
	_exit(7);
}

static void *reads(void *fd)
{
	char byte;

	return read(*(int *)fd, &byte, 1) == 1 ? fd : NULL;
}

/* It computes, with another thread that waits, until it may end. */
static void lets_itself_be_traced(int out, int in)
{
	pthread_t thread;
	void *was_read = NULL;

	pthread_create(&thread, NULL, reads, &in);
	if (out >= 0 && write(out, "", 1) != 1)
		_exit(9);
	while (pthread_tryjoin_np(thread, &was_read))
		level_1(1);
	_exit(was_read ? 5 : 6);
}

static void attach_to(const char *what, long request, int is_new)
{
	int ready[2], end[2];
	char byte;
	pid_t pid;

	if (pipe(ready) || pipe(end))
		return;
	pid = fork();
	if (!pid)
		lets_itself_be_traced(is_new ? -1 : ready[1], end[0]);
	if (!is_new && read(ready[0], &byte, 1) != 1)
		return;
	printf("%s: %ld\n", what, ptrace((enum __ptrace_request)request, pid, 0, 0));
	if (request == PTRACE_SEIZE)
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	if (write(end[1], "", 1) == 1)
		trace(what, pid);
}

/* Those whom their maker traces. */
static void traced(long unused)
{
	pid_t pid;

	(void)unused;
	signal(SIGUSR1, SIG_IGN);
	for (int executes = 0; executes < 2; executes++) {
		pid = fork();
		if (!pid)
			asks_to_be_traced(executes);
		trace(executes ? "executes" : "asks", pid);
	}
	pid = vfork();
	if (!pid)
		asks_to_be_traced(1);
	trace("vfork", pid);
	attach_to("attached", PTRACE_ATTACH, 0);
	attach_to("seized", PTRACE_SEIZE, 0);
	attach_to("attached at once", PTRACE_ATTACH, 1);
}

static char state_of(int stat)
{
	char text[512];
	ssize_t bytes = pread(stat, text, sizeof(text) - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	return bytes > 0 ? strrchr(text, ')')[2] : '?';
}

/* The parent of each never sleeps until it says so. */
static void awake(long count)
{
	volatile int *is_done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				     -1, 0);
	int asleep = 0, stat = open("/proc/self/stat", O_RDONLY);

	for (long i = 0; i < count; i++) {
		volatile long turn = 0;
		pid_t pid;

		*is_done = 0;
		pid = fork();
		if (!pid) {
			int is = 0;

			while (!*is_done)
				is |= state_of(stat) == 'S' && !*is_done;
			_exit(is);
		}
		while (turn < 3000000)
			turn++;
		*is_done = 1;
		asleep += end_of(pid);
	}
	printf("asleep %d\n", asleep);
}

static int deep(int depth)
{
	volatile char room[1024];

	memset((char *)room, depth, sizeof(room));
	return depth ? deep(depth - 1) + room[5] : 0;
}

static void *deepens(void *unused)
{
	deep(40);
	return unused;
}

/* A stack that grows into free addresses. */
static void grown(long count)
{
	const size_t page = 4096, room = 256 + 16;

	while (count-- > 0) {
		pid_t pid = fork();
		pthread_attr_t how;
		pthread_t thread;
		char *at;

		if (pid) {
			printf("%d\n", end_of(pid));
			continue;
		}
		at = mmap(NULL, room * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(at, room * page);
		at += 256 * page;
		if (mmap(at + 8 * page, 8 * page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1,
			 0) == MAP_FAILED)
			_exit(9);
		pthread_attr_init(&how);
		pthread_attr_setstack(&how, at, 16 * page);
		if (pthread_create(&thread, &how, deepens, NULL))
			_exit(8);
		pthread_join(thread, NULL);
		_exit(0);
	}
}

/* Copies that their maker waits for. None is held up: the engine gives up after 5 s. */
static void waited(long count)
{
	while (count-- > 0) {
		time_t began = time(NULL);
		pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

		if (!pid)
			_exit(time(NULL) - began > 3);
		printf("%d\n", end_of(pid));
	}
}

static int forks_once(void *unused)
{
	pid_t pid = fork();

	(void)unused;
	if (!pid)
		_exit(5);
	return end_of(pid);
}

/* Of processes that share our memory and our handlers. */
static void guests(long count)
{
	static char stack[65536] __attribute__((aligned(16)));

	while (count-- > 0)
		printf("%d\n", end_of(clone(forks_once, stack + sizeof(stack),
					    CLONE_VM | CLONE_SIGHAND | SIGCHLD, NULL)));
}

static const struct {
	const char *name;
	void (*run)(long count);
} scenes[] = {
	{ "tree", tree },	{ "storm", storm },
	{ "crowd", crowd },	{ "handler", handler },
	{ "threads", threads }, { "spawn", spawn },
	{ "chain", chain },	{ "thread_executes", thread_executes },
	{ "killed", killed },	{ "daemon", daemon_made },
	{ "lasting", lasting }, { "sharing", sharing },
	{ "traced", traced },	{ "executes_badly", executes_badly },
	{ "awake", awake },	{ "grown", grown },
	{ "vforks", vforks },	{ "vforks_that_fork", vforks_that_fork },
	{ "waited", waited },	{ "guests", guests },
	{ "counts", counts },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(argv[1], scenes[i].name)) {
			scenes[i].run(argc > 2 ? atol(argv[2]) : 0);
			return 0;
		}
	return 2;
}
