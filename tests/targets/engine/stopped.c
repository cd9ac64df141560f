/* SPDX-License-Identifier: MIT */
/*
 * Processes that are stopped when their parent attaches to them (tests/engine_stopped.sh). It
 * prints what the parent sees.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOPS_MAX 20
#define TRACERS 4

static volatile sig_atomic_t handled;
static volatile pid_t *tids; /* of the child's threads; then: it may end */

static void on_signal(int number)
{
	handled += number;
}

static void *waits(void *pipe)
{
	char byte;

	tids[1] = (pid_t)syscall(SYS_gettid);
	return read(((int *)pipe)[0], &byte, 1) < 0 ? pipe : NULL;
}

/* It stops itself, and its end shows whether it continued correctly. */
static void child(int has_thread)
{
	volatile int sum = 0;
	pthread_t thread;
	sigset_t all, none;
	int ends[2];

	/* signals come to the first thread */
	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGUSR1, on_signal);
	tids[0] = getpid();
	if (has_thread && (pipe(ends) || pthread_create(&thread, NULL, waits, ends)))
		_exit(9);
	while (has_thread && !tids[1])
		;
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(SIGSTOP);
	while (!tids[2])
		usleep(1000);
	for (int i = 0; i < 100000; i++)
		sum += i & 1;
	if (has_thread && (close(ends[1]) || pthread_join(thread, NULL)))
		_exit(8);
	_exit(sum == 50000 ? handled : 7);
}

static char state_of(pid_t pid)
{
	char path[64], text[512];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY);
	bytes = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	return bytes > 0 ? strrchr(text, ')')[2] : '?';
}

static void await_stop(pid_t pid)
{
	while (state_of(pid) != 'T')
		usleep(1000);
}

static void report(const char *what, pid_t pid, int flags)
{
	int status = 0;
	pid_t got = waitpid(pid, &status, flags | __WALL);

	printf("  %s: %s 0x%x\n", what, got == pid ? "status" : got ? "error" : "nothing", status);
}

static int chld(void)
{
	const struct timespec none = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return sigtimedwait(&set, NULL, &none) == SIGCHLD;
}

static pid_t make(int has_thread)
{
	pid_t pid;

	tids[0] = tids[1] = tids[2] = 0;
	fflush(stdout);
	pid = fork();
	if (!pid)
		child(has_thread);
	return pid;
}

/* Where it is, for a tracer: behind the system call by which it stopped. */
static void tell_registers(pid_t pid)
{
	struct user_regs_struct regs = { 0 };
	long code;

	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	code = ptrace(PTRACE_PEEKTEXT, pid, regs.rip - 2, 0);
	printf("  code 0x%lx rax %lld gs 0x%llx\n", code & 0xffff, (long long)regs.rax,
	       (unsigned long long)regs.gs_base);
}

static void on_to_the_end(pid_t pid)
{
	int status = 0, stops = 0;

	ptrace(PTRACE_CONT, pid, 0, 0);
	while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) && stops++ < STOPS_MAX) {
		printf("  stop 0x%x\n", status >> 8);
		ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status) == SIGUSR1 ? SIGUSR1 : 0);
	}
	printf("  end 0x%x\n", status);
}

/* A signal came while it was stopped: the signal is still pending when it continues. */
static void attach(const char *name, long request, int has_thread)
{
	pid_t pid = make(has_thread);

	printf("%s\n", name);
	report("stopped", pid, WUNTRACED);
	printf("  SIGCHLD %d\n", chld());
	kill(pid, SIGUSR1);
	report("again", pid, WUNTRACED | WNOHANG);
	printf("  attach %ld\n", ptrace((enum __ptrace_request)request, pid, 0, 0));
	report("attached", pid, 0);
	printf("  SIGCHLD %d\n", chld());
	tell_registers(pid);
	tids[2] = 1;
	kill(pid, SIGCONT);
	on_to_the_end(pid);
	chld();
}

/* It is let go where it stopped, and stays so. `is_known`: the parent knew of the stop before. */
static void detach(const char *name, int is_known, int of_thread)
{
	pid_t pid = make(1), tid;

	printf("%s\n", name);
	if (is_known)
		report("stopped", pid, WUNTRACED);
	await_stop(pid);
	tid = tids[of_thread];
	printf("  seize %ld\n", ptrace(PTRACE_SEIZE, tid, 0, 0));
	report("seized", tid, 0);
	printf("  detach %ld\n", ptrace(PTRACE_DETACH, tid, 0, 0));
	await_stop(pid);
	report("stopped", pid, WUNTRACED | WNOHANG);
	report("again", pid, WUNTRACED | WNOHANG);
	kill(pid, SIGCONT);
	report("continues", pid, WCONTINUED);
	tids[2] = 1;
	report("end", pid, 0);
	chld();
}

/* It is continued at the same time: in either order, attaching works, and it ends. */
static void race(long count)
{
	int bad = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = make((int)(i & 1)), other;
		int status = 0;

		waitpid(pid, &status, WUNTRACED);
		other = fork();
		if (!other) {
			kill(pid, SIGCONT);
			_exit(0);
		}
		bad += ptrace(PTRACE_SEIZE, pid, 0, 0) != 0;
		tids[2] = 1;
		waitpid(other, &status, 0);
		while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, pid, 0, 0);
		bad += status != 0;
	}
	printf("bad %d\n", bad);
}

/* They stop themselves at once, but are seized before, most of them: that stop is the signal's. */
static void at_once(long count)
{
	int seized = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			kill(getpid(), SIGSTOP);
			_exit(0);
		}
		ptrace(PTRACE_SEIZE, pid, 0, 0);
		waitpid(pid, &status, __WALL);
		seized += status >> 8 == SIGSTOP;
		kill(pid, SIGKILL);
		waitpid(pid, &status, __WALL);
	}
	printf("%d\n", seized);
}

/* One of the tracers: it lets go of what it got. */
static void tracer(long count)
{
	for (long i = 0; i < count; i++) {
		while (tids[0] != i + 1)
			;
		if (!ptrace(PTRACE_SEIZE, tids[1], 0, 0) &&
		    !ptrace(PTRACE_INTERRUPT, tids[1], 0, 0)) {
			waitpid(tids[1], NULL, __WALL);
			ptrace(PTRACE_DETACH, tids[1], 0, 0);
		}
		__atomic_add_fetch(&tids[2], 1, __ATOMIC_SEQ_CST);
	}
	_exit(0);
}

/* Several at once seize a child that runs. Only its parent ends it. */
static void several(long count)
{
	pid_t tracers[TRACERS];
	int died = 0;

	for (int i = 0; i < TRACERS; i++) {
		tracers[i] = fork();
		if (!tracers[i])
			tracer(count);
	}
	for (long i = 0; i < count; i++) {
		pid_t pid;
		int status;

		tids[3] = 0;
		pid = fork();
		if (!pid)
			for (;; tids[3] = 1)
				usleep(200);
		tids[1] = pid;
		while (!tids[3])
			usleep(100);
		tids[2] = 0;
		tids[0] = (pid_t)i + 1;
		while (tids[2] != TRACERS)
			usleep(100);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		died += status != SIGKILL;
	}
	for (int i = 0; i < TRACERS; i++)
		waitpid(tracers[i], NULL, 0);
	printf("died %d\n", died);
}

/* Of vfork(2): it ends when tids[2] is set. */
static void vfork_waiting(void)
{
	if (vfork())
		return;
	tids[0] = getpid();
	while (!tids[2])
		usleep(1000);
	_exit(0);
}

static pid_t make_vforking(void)
{
	pid_t pid;

	tids[0] = tids[1] = tids[2] = tids[3] = 0;
	pid = fork();
	if (!pid) {
		vfork_waiting();
		for (tids[3] = 1;;)
			pause();
	}
	while (!tids[0])
		usleep(1000);
	return pid;
}

static pid_t make_tracer(pid_t pid)
{
	pid_t tracer = fork();

	if (tracer)
		return tracer;
	tids[1] = 1;
	tids[1] = ptrace(PTRACE_SEIZE, pid, 0, 0) ? 2 : 3;
	for (;;)
		pause();
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * A process seizes one in vfork(2), which can't leave the engine yet, and is stopped while it waits
 * for that. The other continues. So does the first, later, and has seized it.
 */
static void stopped_tracer(long unused)
{
	pid_t pid = make_vforking(), tracer = make_tracer(pid);
	long began_ms, ms;

	(void)unused;
	while (!tids[1] || state_of(tracer) != 'S')
		usleep(1000);
	kill(tracer, SIGSTOP);
	await_stop(tracer);
	began_ms = now_ms();
	tids[2] = 1;
	while (!tids[3])
		usleep(1000);
	ms = now_ms() - began_ms;
	kill(tracer, SIGCONT);
	while (tids[1] == 1)
		usleep(1000);
	printf("%s, %s\n", ms < 2000 ? "continued" : "was held",
	       tids[1] == 3 ? "seized" : "not seized");
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

#define SPINNING 4
#define SPIN_BYTES 64u

static __attribute__((noinline)) void *spin(void *unused)
{
	__atomic_add_fetch(&tids[3], 1, __ATOMIC_SEQ_CST);
	for (;;)
		__asm__ volatile("pause");
	return unused;
}

static pid_t make_spinning(void)
{
	pthread_t thread;
	pid_t pid;

	tids[3] = 0;
	pid = fork();
	if (pid)
		return pid;
	for (int i = 1; i < SPINNING; i++)
		if (pthread_create(&thread, NULL, spin, NULL))
			_exit(9);
	spin(NULL);
	_exit(8);
}

static int threads_of(pid_t pid, pid_t found[SPINNING])
{
	char path[64];
	DIR *folder;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder)) && count < SPINNING;)
		if (entry->d_name[0] != '.')
			found[count++] = atoi(entry->d_name);
	closedir(folder);
	return count;
}

static int is_elsewhere(pid_t tid)
{
	struct user_regs_struct regs = { 0 };

	if (ptrace(PTRACE_SEIZE, tid, 0, 0) || ptrace(PTRACE_INTERRUPT, tid, 0, 0) ||
	    waitpid(tid, NULL, __WALL) != tid || ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return 1;
	return regs.rip - (uintptr_t)spin >= SPIN_BYTES || regs.gs_base;
}

/* All threads of a process are seized and interrupted, each where it spins. */
static void threads(long count)
{
	int elsewhere = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = make_spinning(), found[SPINNING];
		int status;

		while (tids[3] != SPINNING)
			usleep(100);
		for (int n = threads_of(pid, found); n--;)
			elsewhere += is_elsewhere(found[n]);
		kill(pid, SIGKILL);
		do
			waitpid(-1, &status, __WALL);
		while (!kill(pid, 0));
	}
	printf("%d\n", elsewhere);
}

/* A child of vfork(2) that waits in it: a tracer attaches to that child. */
static void vfork_children(long count)
{
	int attached = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = make_vforking();
		int status;

		if (!ptrace(i & 1 ? PTRACE_SEIZE : PTRACE_ATTACH, tids[0], 0, 0)) {
			if (i & 1)
				ptrace(PTRACE_INTERRUPT, tids[0], 0, 0);
			waitpid(tids[0], &status, __WALL);
			attached += !ptrace(PTRACE_DETACH, tids[0], 0, 0);
		}
		tids[2] = 1;
		while (!tids[3])
			usleep(100);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	printf("attached %d\n", attached);
}

/* It executes itself over and over, until the pipe's other end is closed. */
static void execute(char *number)
{
	char *argv[] = { (char *)"/proc/self/exe", (char *)"again", number, NULL };
	struct pollfd end = { .fd = atoi(number) };

	if (poll(&end, 1, 0) > 0)
		_exit(0);
	execv(argv[0], argv);
	_exit(9);
}

static pid_t make_executing(int *end)
{
	char number[12];
	int ends[2];
	pid_t pid;

	if (pipe(ends))
		return -1;
	*end = ends[1];
	pid = fork();
	if (pid) {
		close(ends[0]);
		return pid;
	}
	close(ends[1]);
	snprintf(number, sizeof(number), "%d", ends[0]);
	execute(number);
	_exit(8);
}

/* A tracer attaches to such a process wherever it is. */
static void executing(long count)
{
	int attached = 0, ended = 0;

	for (long i = 0; i < count; i++) {
		int end = -1, status = 0;
		pid_t pid = make_executing(&end);

		usleep(3000 + (unsigned int)(i * 7919 % 20000));
		attached += !ptrace(i & 1 ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, 0);
		close(end);
		for (int stops = 0; waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) &&
				    stops < STOPS_MAX;
		     stops++)
			ptrace(PTRACE_CONT, pid, 0, 0);
		kill(pid, SIGKILL);
		ended += !status;
	}
	printf("attached %d, ended %d\n", attached, ended);
}

static const struct {
	const char *name;
	void (*run)(long count);
} races[] = {
	{ "continued", race },	    { "once", at_once },
	{ "several", several },	    { "stopped_tracer", stopped_tracer },
	{ "threads", threads },	    { "vfork_children", vfork_children },
	{ "executing", executing },
};

int main(int argc, char **argv)
{
	sigset_t set;

	if (argc > 2 && !strcmp(argv[1], "again"))
		execute(argv[2]);
	tids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; argc > 2 && i < sizeof(races) / sizeof(races[0]); i++)
		if (!strcmp(argv[1], races[i].name))
			races[i].run(atol(argv[2]));
	if (argc > 1)
		return 0;
	attach("attached", PTRACE_ATTACH, 0);
	attach("attached with a thread", PTRACE_ATTACH, 1);
	attach("seized", PTRACE_SEIZE, 0);
	attach("seized with a thread", PTRACE_SEIZE, 1);
	detach("let go", 1, 0);
	detach("let go, and not known to be stopped", 0, 0);
	detach("its thread let go", 1, 1);
	return 0;
}
