/* SPDX-License-Identifier: MIT */
/* Waits for blocked signals, also those of faults: waits SCENE. */
#include "seen.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const int numbers[] = {
	SIGHUP,	 SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,  SIGFPE,	SIGUSR1, SIGSEGV,
	SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGURG,  SIGXCPU, SIGPROF, SIGIO,	 SIGSYS,
};
#define COUNT (sizeof(numbers) / sizeof(numbers[0]))

static volatile int handled;

static void report(int number, siginfo_t *info, void *data)
{
	uint64_t mask;

	memcpy(&mask, &((ucontext_t *)data)->uc_sigmask, 8);
	printf("  %d code %d value %d from us %d, mask %lx, back to %lx\n", number, info->si_code,
	       info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, info->si_pid == getpid(),
	       seen_mask(), mask);
	handled++;
}

static void give(int number, int how)
{
	if (how == 0)
		kill(getpid(), number);
	else if (how == 1)
		raise(number);
	else
		sigqueue(getpid(), number, (union sigval){ .sival_int = number * 10 });
}

static void block_all(int is_block)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(is_block ? SIG_BLOCK : SIG_UNBLOCK, &all, NULL);
}

static void read_all(int fd)
{
	struct signalfd_siginfo info[8];
	ssize_t got;

	while ((got = read(fd, info, sizeof(info))) > 0)
		for (size_t i = 0; i < (size_t)got / sizeof(*info); i++)
			printf("  read %u code %d value %d from us %d\n", info[i].ssi_signo,
			       info[i].ssi_code, info[i].ssi_code == SI_QUEUE ? info[i].ssi_int : 0,
			       info[i].ssi_pid == (uint32_t)getpid());
	printf("  and then %zd %d\n", got, errno);
}

/* By poll, epoll, select and read; in a thread that is asleep in it when it comes, too. */
static void *sleeper(void *data)
{
	struct signalfd_siginfo info;
	ssize_t got = read(*(int *)data, &info, sizeof(info));

	printf("  sleeper read %zd: %u\n", got, info.ssi_signo);
	return NULL;
}

static void descriptors(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0), fd, waiting;
	sigset_t all, pending;
	pthread_t thread;

	sigfillset(&all);
	block_all(1);
	fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	for (int how = 0; how < 3; how++) {
		for (unsigned int i = 0; i < COUNT; i++) {
			struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
			fd_set set;

			give(numbers[i], how);
			FD_ZERO(&set);
			FD_SET(fd, &set);
			sigpending(&pending);
			printf("%d sent: poll %d epoll %d select %d pending %d\n", numbers[i],
			       poll(&poll_fd, 1, 0), epoll_wait(epoll, &event, 1, 0),
			       select(fd + 1, &set, NULL, NULL, &(struct timeval){ 0, 0 }),
			       sigismember(&pending, numbers[i]));
			if (how == 2 && i % 3)
				continue;
			read_all(fd);
		}
		read_all(fd);
	}
	waiting = signalfd(-1, &all, 0);
	for (unsigned int i = 0; i < COUNT; i += 3) {
		pthread_create(&thread, NULL, sleeper, &waiting);
		usleep(20000);
		kill(getpid(), numbers[i]);
		pthread_join(thread, NULL);
	}
	close(fd);
	close(waiting);
	printf("left: %d\n", sigpending(&pending));
	for (unsigned int i = 0; i < COUNT; i++)
		seen_ask(numbers[i], 0, report, 0);
	for (unsigned int i = 0; i < COUNT; i++)
		give(numbers[i], 1);
	for (unsigned int i = 0; i < COUNT; i++) {
		sigset_t one = seen_set(numbers[i], 0, 0);

		sigprocmask(SIG_UNBLOCK, &one, NULL);
	}
}

/* Masks of calls, with each signal waiting before the call. */
static void masks(void)
{
	struct timespec second = { 1, 0 };
	struct epoll_event event;
	int epoll = epoll_create1(0), got;

	for (unsigned int i = 0; i < COUNT; i++)
		seen_ask(numbers[i], i % 2 ? SA_RESTART : 0, report, 0);
	block_all(1);
	for (unsigned int i = 0; i < COUNT; i++) {
		for (int which = 0; which < 4; which++) {
			sigset_t mask;

			sigfillset(&mask);
			sigdelset(&mask, numbers[i]);
			give(numbers[i], which % 3);
			errno = 0;
			got = which == 0   ? sigsuspend(&mask)
			      : which == 1 ? ppoll(NULL, 0, &second, &mask)
			      : which == 2 ? pselect(0, NULL, NULL, NULL, &second, &mask)
					   : epoll_pwait(epoll, &event, 1, 1000, &mask);
			printf("wait %d for %d: %d %d, handled %d, mask %lx\n", which, numbers[i],
			       got, errno, handled, seen_mask());
		}
	}
}

/* And by sigtimedwait(2): each queued by three. */
static void waited(void)
{
	struct timespec none = { 0, 0 };
	siginfo_t info;
	sigset_t all;
	int got;

	sigfillset(&all);
	block_all(1);
	for (int round = 0; round < 3; round++)
		for (unsigned int i = 0; i < COUNT; i++)
			give(numbers[i], round == 2 ? 1 : 2);
	for (int i = 0; i < 5; i++)
		for (int n = SIGRTMIN; n < SIGRTMIN + 4; n++)
			sigqueue(getpid(), n, (union sigval){ .sival_int = i * 100 + n });
	while ((got = sigtimedwait(&all, &info, &none)) > 0)
		printf("%d: code %d value %d from us %d\n", got, info.si_code,
		       info.si_code == SI_QUEUE ? info.si_value.sival_int : 0,
		       info.si_pid == getpid());
	printf("and then %d %d\n", got, errno);
}

/* Another thread waits for them by sigwait(3), and all have them blocked. */
static void *waiter(void *data)
{
	sigset_t all;
	int number;

	(void)data;
	sigfillset(&all);
	for (;;) {
		sigwait(&all, &number);
		printf("waited: %d\n", number);
		__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
		if (number == SIGTERM)
			return NULL;
	}
}

static void crowd(void)
{
	pthread_t thread;

	block_all(1);
	pthread_create(&thread, NULL, waiter, NULL);
	for (unsigned int i = 0; i < COUNT; i++) {
		int was = handled;

		if (numbers[i] == SIGTERM)
			continue;
		kill(getpid(), numbers[i]);
		while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == was)
			usleep(1000);
	}
	kill(getpid(), SIGTERM);
	pthread_join(thread, NULL);
}

static void io(int number, siginfo_t *info, void *data)
{
	(void)data;
	printf("  %d code %d band %ld descriptor known %d\n", number, info->si_code, info->si_band,
	       info->si_fd > 2);
	handled++;
}

static void timed(int number, siginfo_t *info, void *data)
{
	(void)number, (void)data;
	handled += info->si_code == SI_TIMER && info->si_value.sival_int == 77;
}

static long spin(long rounds)
{
	volatile long sum = 0;

	for (long i = 0; i < rounds; i++)
		sum = sum * 3 + i;
	return sum;
}

static void profiled(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
	handled++;
}

static void sources(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 2 };
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	struct itimerval prof = { { 0, 100 }, { 0, 100 } }, none = { { 0, 0 }, { 0, 0 } };
	int pair[2], status;
	timer_t timer;
	long sum;

	seen_ask(SIGIO, 0, io, 0);
	seen_ask(SIGRTMIN + 1, 0, io, 0);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	fcntl(pair[0], F_SETOWN, getpid());
	fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK);
	if (write(pair[1], "x", 1) != 1)
		printf("no write\n");
	fcntl(pair[0], F_SETSIG, SIGRTMIN + 1);
	if (write(pair[1], "x", 1) != 1)
		printf("no write\n");
	printf("io %d\n", handled);
	handled = 0;
	seen_ask(SIGRTMIN + 2, SA_RESTART, timed, 0);
	event.sigev_value.sival_int = 77;
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	while (handled < 50)
		spin(1000);
	timer_delete(timer);
	printf("timer ticked, deleted again: %d\n", timer_delete(timer));
	handled = 0;
	seen_ask(SIGPROF, SA_RESTART, profiled, 0);
	setitimer(ITIMER_PROF, &prof, NULL);
	sum = 0;
	for (int i = 0; i < 2000 && (i < 100 || handled < 3); i++)
		spin(100000);
	for (int i = 0; i < 100; i++)
		sum += spin(100000);
	setitimer(ITIMER_PROF, &none, NULL);
	printf("profiled %d, sum %ld\n", handled > 2, sum);
	signal(SIGCHLD, SIG_DFL);
	seen_ask(SIGCHLD, SA_NOCLDWAIT, profiled, 0);
	handled = 0;
	if (!fork())
		_exit(3);
	status = wait(NULL);
	printf("no child to wait for: %d %d, handled %d\n", status, errno, handled);
}

#define INTERRUPTED 3000

static void *takes(void *taken)
{
	long wrong = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	for (int i = 1; i <= INTERRUPTED; i++) {
		siginfo_t info = { 0 };
		int got;

		while ((got = sigwaitinfo(&set, &info)) < 0 && errno == EINTR)
			;
		wrong += got != SIGUSR2 || info.si_signo != SIGUSR2 || info.si_value.sival_int != i;
		__atomic_store_n((int *)taken, i, __ATOMIC_RELEASE);
	}
	return (void *)wrong;
}

static void counted(int number)
{
	(void)number;
}

/* A wait returns the signal that it has taken, though another signal is handled right after it. */
static void interrupted(void)
{
	pthread_t thread;
	int taken = 0;
	sigset_t set;
	void *wrong;

	signal(SIGUSR1, counted);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, takes, &taken);
	for (int i = 1; i <= INTERRUPTED; i++) {
		pthread_sigqueue(thread, SIGUSR2, (union sigval){ .sival_int = i });
		pthread_kill(thread, SIGUSR1);
		while (__atomic_load_n(&taken, __ATOMIC_ACQUIRE) < i)
			sched_yield();
	}
	pthread_join(thread, &wrong);
	printf("of %d that were waited for, %ld returned something else\n", INTERRUPTED,
	       (long)wrong);
}

/* The first thread has ended, all have the signals blocked, and they come to the process. */
static void *orphan(void *leader)
{
	static const int own[] = { SIGTRAP, SIGILL, SIGBUS, SIGSEGV };
	const struct timespec soon = { .tv_sec = 2 };

	pthread_join(*(pthread_t *)leader, NULL);
	for (int i = 0; i < 4; i++) {
		sigset_t set = seen_set(own[i], 0, 0);
		siginfo_t info = { 0 };
		int got;

		kill(getpid(), own[i]);
		got = sigtimedwait(&set, &info, &soon);
		printf("orphan: %d code %d from us %d\n", got, info.si_code,
		       info.si_pid == getpid());
	}
	exit(0);
}

static void orphaned(void)
{
	static pthread_t self;
	pthread_t thread;

	self = pthread_self();
	block_all(1);
	pthread_create(&thread, NULL, orphan, &self);
	pthread_exit(NULL);
}

int main(int count, char **words)
{
	const char *scene = count > 1 ? words[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(scene, "descriptors"))
		descriptors();
	else if (!strcmp(scene, "masks"))
		masks();
	else if (!strcmp(scene, "waited"))
		waited();
	else if (!strcmp(scene, "crowd"))
		crowd();
	else if (!strcmp(scene, "sources"))
		sources();
	else if (!strcmp(scene, "interrupted"))
		interrupted();
	else if (!strcmp(scene, "orphaned"))
		orphaned();
	else
		return 2;
	return 0;
}
