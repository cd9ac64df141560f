/* SPDX-License-Identifier: MIT */
/*
 * Three threads that end, a signal that it raises, one that
 * breaks off a system call, a child that breaks off another, and then the same once more as another
 * program.
 */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define SUMS 200
#define PAUSE_US 100000

static volatile int sum;

static void *work(void *unused)
{
	for (int i = 0; i < SUMS; i++)
		sum += i;
	return unused;
}

static void on_alarm(int number)
{
	sum += number;
}

int main(int argc, char **argv)
{
	struct itimerval soon = { .it_value.tv_usec = 300000 };
	pthread_t threads[THREADS];

	signal(SIGALRM, on_alarm);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	raise(SIGALRM);
	setitimer(ITIMER_REAL, &soon, NULL);
	pause();
	if (argc < 2)
		return 5;
	if (!fork()) {
		usleep(PAUSE_US);
		kill(getppid(), SIGURG); /* ignored: the wait is taken up again */
		usleep(PAUSE_US);
		_exit(3);
	}
	wait(NULL);
	execl(argv[0], argv[0], (char *)NULL);
	return 2;
}
