/* SPDX-License-Identifier: MIT */
/* Which signals come when: masks of threads, actions and calls, and what waits. */
#include "seen.h"

#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static void report(int number, siginfo_t *info, void *data)
{
	uint64_t mask;

	memcpy(&mask, &((ucontext_t *)data)->uc_sigmask, 8);
	printf("  %d code %d value %d, mask %lx, back to %lx\n", number, info->si_code,
	       info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, seen_mask(), mask);
}

static void queue(int number, int value)
{
	sigqueue(getpid(), number, (union sigval){ .sival_int = value });
}

static void waits(void)
{
	sigset_t none = seen_set(0, 0, 0), both = seen_set(SIGUSR1, SIGUSR2, 0), pending;
	sigset_t first = seen_set(SIGUSR2, SIGHUP, 0);
	struct timespec second = { 1, 0 };
	struct epoll_event event;
	int fd = epoll_create1(0), got;

	sigprocmask(SIG_BLOCK, &both, NULL);
	for (int which = 0; which < 7; which++) {
		raise(SIGUSR1);
		raise(SIGUSR2);
		errno = 0;
		got = which == 0   ? sigsuspend(&none)
		      : which == 1 ? sigsuspend(&first)
		      : which == 2 ? ppoll(NULL, 0, &second, &none)
		      : which == 3 ? pselect(0, NULL, NULL, NULL, &second, &first)
		      : which == 4 ? epoll_pwait(fd, &event, 1, 1000, &none)
		      : which == 5
			      ? (int)syscall(SYS_epoll_pwait2, fd, &event, 1, &second, &first, 8)
			      : sigsuspend(&none);
		sigpending(&pending);
		printf("wait %d: %d %d, mask %lx, pending %d %d\n", which, got, errno, seen_mask(),
		       sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
	}
	close(fd);
	sigprocmask(SIG_UNBLOCK, &both, NULL);
}

static void wait_calls(void)
{
	sigset_t set = seen_set(SIGUSR1, SIGRTMIN, SIGSEGV);
	struct signalfd_siginfo read_info;
	struct timespec no = { 0, 0 };
	siginfo_t info;
	int fd, got;

	sigprocmask(SIG_BLOCK, &set, NULL);
	queue(SIGRTMIN, 1);
	queue(SIGRTMIN, 2);
	queue(SIGUSR1, 3);
	queue(SIGUSR1, 4);
	while ((got = sigtimedwait(&set, &info, &no)) > 0)
		printf("waited for %d: value %d\n", got, info.si_value.sival_int);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	queue(SIGRTMIN, 5);
	while (read(fd, &read_info, sizeof(read_info)) > 0)
		printf("read %d: value %d\n", read_info.ssi_signo, read_info.ssi_int);
	close(fd);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Those that the engine needs itself, sent by somebody. */
static void own(int number)
{
	sigset_t set = seen_set(number, 0, 0), pending;

	seen_ask(number, 0, report, 0);
	raise(number);
	sigprocmask(SIG_BLOCK, &set, NULL);
	queue(number, 6);
	queue(number, 7);
	sigpending(&pending);
	printf("%d blocked: pending %d\n", number, sigismember(&pending, number));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(number, SIG_IGN);
	raise(number);
	signal(number, SIG_DFL);
	printf("%d over\n", number);
}

static int depth;
static void again(int number, siginfo_t *info, void *data)
{
	int at = ++depth;

	(void)info, (void)data;
	printf("  in %d mask %lx\n", at, seen_mask());
	if (at < 3)
		raise(number);
	printf("  out %d mask %lx\n", at, seen_mask());
}

static void flags(void)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} odd = { 0, 0x7fffffff, 0, ~0ul };
	struct sigaction was;
	int pipes[2], got;
	char byte;

	seen_ask(SIGUSR1, SA_NODEFER, again, 0);
	raise(SIGUSR1);
	depth = 0;
	seen_ask(SIGUSR1, 0, again, SIGTERM);
	raise(SIGUSR1);
	seen_ask(SIGCHLD, SA_RESETHAND, report, 0);
	raise(SIGCHLD);
	raise(SIGCHLD);
	sigaction(SIGCHLD, NULL, &was);
	printf("after SA_RESETHAND %d flags %x\n", was.sa_handler == SIG_DFL, was.sa_flags);
	syscall(SYS_rt_sigaction, SIGUSR1, &odd, NULL, 8);
	syscall(SYS_rt_sigaction, SIGUSR1, NULL, &odd, 8);
	printf("odd flags %lx mask %lx\n", odd.flags, odd.mask);
	got = (int)syscall(SYS_rt_sigaction, SIGKILL, &odd, NULL, 8);
	printf("bad %d %d\n", got, errno);
	got = (int)syscall(SYS_rt_sigaction, 65, NULL, NULL, 8);
	printf("bad %d %d\n", got, errno);
	got = (int)syscall(SYS_rt_sigaction, 1, 8, NULL, 8);
	printf("bad %d %d\n", got, errno);
	got = (int)syscall(SYS_rt_sigprocmask, 7, NULL, NULL, 8);
	printf("bad %d %d\n", got, errno);
	got = (int)syscall(SYS_rt_sigprocmask, 7, &was, NULL, 8);
	printf("bad %d %d\n", got, errno);
	got = (int)syscall(SYS_rt_sigprocmask, 0, 8, NULL, 8);
	printf("bad %d %d\n", got, errno);
	/* SA_RESTART or not, by a timer. */
	for (int restart = 0; restart < 2; restart++) {
		struct itimerval soon = { .it_value = { 0, 50000 } };

		got = pipe(pipes);
		if (!fork()) {
			usleep(200000);
			got = (int)write(pipes[1], "x", 1);
			_exit(got != 1);
		}
		seen_ask(SIGALRM, restart ? SA_RESTART : 0, report, 0);
		setitimer(ITIMER_REAL, &soon, NULL);
		errno = 0;
		got = (int)read(pipes[0], &byte, 1);
		printf("read %d %d\n", got, errno);
		while (wait(NULL) < 0)
			;
		close(pipes[0]);
		close(pipes[1]);
	}
}

static void naps(void)
{
	struct timespec nap = { 0, 300000000 }, left = { 9, 9 };
	struct itimerval soon = { .it_value = { 0, 50000 } };

	setitimer(ITIMER_REAL, &soon, NULL);
	errno = 0;
	printf("nap %d", nanosleep(&nap, &left));
	printf(" %d, some left %d\n", errno, left.tv_sec == 0 && left.tv_nsec < 260000000);
	/* Stopped and continued, a call resumes by restart_syscall(2). */
	if (!fork()) {
		usleep(50000);
		kill(getppid(), SIGSTOP);
		usleep(50000);
		kill(getppid(), SIGCONT);
		usleep(50000);
		kill(getppid(), SIGUSR2);
		_exit(0);
	}
	seen_ask(SIGUSR2, 0, report, 0);
	nap.tv_sec = 1;
	printf("nap %d", nanosleep(&nap, &left));
	printf(" %d, some left %d\n", errno, left.tv_sec == 1 || left.tv_nsec > 700000000);
	while (wait(NULL) < 0)
		;
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	seen_ask(SIGUSR1, 0, report, SIGTERM);
	seen_ask(SIGUSR2, 0, report, 0);
	seen_ask(SIGRTMIN, 0, report, 0);
	waits();
	wait_calls();
	own(SIGSEGV);
	own(SIGTRAP);
	own(SIGILL);
	own(SIGBUS);
	flags();
	naps();
	return 0;
}
