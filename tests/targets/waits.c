/* SPDX-License-Identifier: MIT */
/* Sits in a system call, the one named by its argument; none may end early or with EINTR. */
#include "target.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define WAIT_NS 60000000

static const struct timespec wait_time = { .tv_nsec = WAIT_NS };
static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void alarm_in(long us)
{
	struct itimerval once = { .it_value = { .tv_usec = us } };
	struct sigaction action = { .sa_handler = count_alarm };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &once, NULL);
}

static void wait_nanosleep(void)
{
	target_want(!nanosleep(&wait_time, NULL), "nanosleep");
}

static void wait_clock(void)
{
	target_want(!clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_time, NULL), "clock_nanosleep");
}

static void wait_poll(void)
{
	target_want(poll(NULL, 0, WAIT_NS / 1000000) == 0, "poll");
}

static void wait_ppoll(void)
{
	sigset_t none;

	sigemptyset(&none);
	target_want(ppoll(NULL, 0, &wait_time, &none) == 0, "ppoll");
}

static void wait_select(void)
{
	struct timeval time = { .tv_usec = WAIT_NS / 1000 };

	target_want(select(0, NULL, NULL, NULL, &time) == 0, "select");
}

static void wait_epoll(void)
{
	static int fd = -1;
	struct epoll_event event;

	if (fd < 0)
		fd = epoll_create1(0);
	target_want(epoll_wait(fd, &event, 1, WAIT_NS / 1000000) == 0, "epoll_wait");
}

static void wait_futex(void)
{
	int word = 0;

	target_want(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &wait_time, NULL, 0) == -1 &&
			    errno == ETIMEDOUT,
		    "futex");
}

static void wait_cond(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_NS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&lock);
	target_want(pthread_cond_timedwait(&cond, &lock, &until) == ETIMEDOUT, "cond_timedwait");
	pthread_mutex_unlock(&lock);
}

static void wait_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	target_want(sigtimedwait(&set, NULL, &wait_time) == -1 && errno == EAGAIN, "sigtimedwait");
}

static void wait_recv(void)
{
	static int fds[2] = { -1, -1 };
	struct timeval time = { .tv_usec = WAIT_NS / 1000 };
	char byte;

	if (fds[0] < 0) {
		target_want(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
		setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	}
	target_want(recv(fds[0], &byte, 1, 0) == -1 && errno == EAGAIN, "recv");
}

/* A pause that loses its signal never ends; the test then gives up on us. */
static void wait_pause(void)
{
	int before = alarms;

	alarm_in(3000);
	while (alarms == before) {
		/* between the test and pause() the alarm may come: block it there */
		sigset_t block, old;

		sigemptyset(&block);
		sigaddset(&block, SIGALRM);
		sigprocmask(SIG_BLOCK, &block, &old);
		if (alarms == before)
			target_want(sigsuspend(&old) == -1 && errno == EINTR, "sigsuspend");
		sigprocmask(SIG_SETMASK, &old, NULL);
	}
	target_want(alarms == before + 1, "one alarm");
}

/* As wait_pause, with the signal as the only end of a read without SA_RESTART. */
static void wait_eintr(void)
{
	static int fds[2] = { -1, -1 };
	int before = alarms;
	ssize_t got;
	char byte;

	if (fds[0] < 0)
		target_want(!pipe(fds), "pipe");
	alarm_in(20000);
	got = read(fds[0], &byte, 1);
	target_want(got == -1 && errno == EINTR, "read ends by its signal");
	target_want(alarms == before + 1, "one alarm");
}

static void wait_pipe(void)
{
	static int fds[2] = { -1, -1 };
	int status;
	char byte;
	pid_t child;

	if (fds[0] < 0)
		target_want(!pipe(fds), "pipe");
	child = fork();
	if (!child) {
		nanosleep(&wait_time, NULL);
		_exit(write(fds[1], "x", 1) != 1);
	}
	target_want(read(fds[0], &byte, 1) == 1 && byte == 'x', "read");
	target_want(waitpid(child, &status, 0) == child && !status, "waitpid");
}

/* The parent sleeps in the kernel until its child, which runs in the parent's memory, is done. */
static int vfork_child(void *arg)
{
	(void)arg;
	nanosleep(&wait_time, NULL);
	_exit(7);
}

static void wait_vfork(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	int status;
	pid_t child = clone(vfork_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			    NULL);

	target_want(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7,
		    "vfork");
}

static const struct {
	const char *name;
	void (*wait)(void);
	int times; /* it takes WAIT_NS at least */
} waits[] = {
	{ "nanosleep", wait_nanosleep, 1 },
	{ "clock_nanosleep", wait_clock, 1 },
	{ "poll", wait_poll, 1 },
	{ "ppoll", wait_ppoll, 1 },
	{ "select", wait_select, 1 },
	{ "epoll", wait_epoll, 1 },
	{ "futex", wait_futex, 1 },
	{ "cond", wait_cond, 1 },
	{ "sigtimedwait", wait_sigtimedwait, 1 },
	{ "recv", wait_recv, 1 },
	{ "pause", wait_pause, 0 },
	{ "eintr", wait_eintr, 0 },
	{ "pipe", wait_pipe, 1 },
	{ "vfork", wait_vfork, 1 },
};

int main(int argc, char **argv)
{
	sigset_t before, after;

	alarm(0);
	sigprocmask(SIG_BLOCK, NULL, &before);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		if (argc < 2 || strcmp(argv[1], waits[i].name))
			continue;
		target_ready();
		do {
			uint64_t start = target_now_ns();

			waits[i].wait();
			/* select() counts by the tick of its timer's slack */
			target_want(!waits[i].times || target_now_ns() - start >= WAIT_NS - 1000000,
				    "a wait was cut short");
		} while (!target_over());
		sigprocmask(SIG_BLOCK, NULL, &after);
		sigdelset(&after, SIGUSR2);
		target_want(!memcmp(&before, &after, 8), "the signal mask");
		return 0;
	}
	return 2;
}
