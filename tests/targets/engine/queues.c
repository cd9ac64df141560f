/* SPDX-License-Identifier: MIT */
/* Queued signals: all, in their order, with what they carry; of other senders' and timers', too. */
#include "seen.h"

#include <sys/wait.h>

#define COUNT 2000

static volatile int got[COUNT * 2], count, others, ticks, overruns;

static void take(int number, siginfo_t *info, void *data)
{
	(void)data;
	if (count < COUNT * 2)
		got[count++] = (number - SIGRTMIN) * 100000 + info->si_value.sival_int;
}

static void other(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
	others++;
}

static void tick(int number, siginfo_t *info, void *data)
{
	(void)number, (void)data;
	if (info->si_code != SI_TIMER || info->si_value.sival_int != 4711)
		printf("a tick with code %d\n", info->si_code);
	ticks++;
	overruns += info->si_overrun;
}

static void child(int number, siginfo_t *info, void *data)
{
	(void)number, (void)data;
	printf("child: code %d status %d, its uid %d\n", info->si_code, info->si_status,
	       info->si_uid == getuid());
}

static unsigned int work(unsigned int rounds)
{
	unsigned int sum = 1;

	for (unsigned int i = 0; i < rounds; i++)
		sum = sum * 31 + (i ^ sum >> 3);
	return sum;
}

/* A child sends while we compute. */
static void ordered(void)
{
	pid_t pid = fork();
	int is_ordered = 1;

	if (!pid) {
		for (int i = 0; i < COUNT; i++) {
			while (sigqueue(getppid(), SIGRTMIN, (union sigval){ .sival_int = i }) < 0)
				usleep(100);
			if (i % 7 == 0)
				kill(getppid(), SIGUSR1);
		}
		_exit(0);
	}
	while (count < COUNT)
		work(1000);
	for (int i = 0; i < COUNT; i++)
		is_ordered &= got[i] == i;
	while (waitpid(pid, NULL, 0) < 0)
		;
	printf("%d in order %d, others %d\n", count, is_ordered, others > 0);
}

/*
 * Blocked, then let at once: the lowest first, each number's in order; then with no room in the
 * queue.
 */
static void limited(void)
{
	struct rlimit limit, few;
	sigset_t set = seen_set(SIGRTMIN, SIGRTMIN + 1, SIGUSR1);
	int sent = 0;

	getrlimit(RLIMIT_SIGPENDING, &limit);
	few = limit;
	count = 0;
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 20; i++)
		sent += !sigqueue(getpid(), SIGRTMIN + i % 2, (union sigval){ .sival_int = i });
	printf("sent %d, legacy %d\n", sent, raise(SIGUSR1));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	for (int i = 0; i < count; i++)
		printf(" %d", got[i]);
	printf("\n");
	/* Under a storm with no room in the queue at all. */
	few.rlim_cur = 0;
	setrlimit(RLIMIT_SIGPENDING, &few);
	others = 0;
	for (int i = 0; i < 1000; i++)
		raise(SIGUSR1);
	printf("%d of 1000 raised\n", others);
	setrlimit(RLIMIT_SIGPENDING, &limit);
}

static void timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGRTMIN + 3,
				  .sigev_value = { .sival_int = 4711 } };
	struct itimerspec often = { { 0, 100000 }, { 0, 100000 } };
	sigset_t set = seen_set(SIGRTMIN + 3, 0, 0);
	timer_t timer;

	seen_ask(SIGRTMIN + 3, SA_RESTART, tick, 0);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	while (ticks < 500)
		work(1000);
	sigprocmask(SIG_BLOCK, &set, NULL);
	overruns = 0;
	usleep(50000);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("timer: overruns counted %d\n", overruns >= 100);
	timer_delete(timer);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	seen_ask(SIGRTMIN, 0, take, 0);
	seen_ask(SIGRTMIN + 1, 0, take, SIGRTMIN);
	seen_ask(SIGUSR1, 0, other, 0);
	ordered();
	limited();
	timers();
	seen_ask(SIGCHLD, SA_RESTART, child, 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid) {
			if (i == 1)
				raise(SIGKILL);
			_exit(i + 40);
		}
		while (waitpid(pid, NULL, 0) < 0)
			;
	}
	printf("work %u\n", work(100000));
	return 0;
}
