/* SPDX-License-Identifier: MIT */
/* Signals and threads: begun, ended, cancelled, forked and replaced under fire. */
#include "seen.h"

#include <semaphore.h>
#include <sys/wait.h>

static volatile int got;
static sem_t ready;

static void count(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
	__atomic_add_fetch(&got, 1, __ATOMIC_RELAXED);
}

static void *brief(void *data)
{
	return data;
}

static void *forever(void *data)
{
	(void)data;
	sem_post(&ready);
	for (;;)
		pause();
	return NULL;
}

static void *spin(void *data)
{
	volatile unsigned long *at = data;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	sem_post(&ready);
	for (;;)
		++*at;
	return NULL;
}

static void *masked(void *data)
{
	sigset_t set = seen_set(SIGUSR1, SIGILL, SIGTRAP);
	siginfo_t info;

	(void)data;
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sem_post(&ready);
	set = seen_set(SIGUSR1, 0, 0);
	for (int i = 0; i < 3; i++) {
		int number = sigwaitinfo(&set, &info);

		printf("waited: %d, mask %lx\n", number, seen_mask());
		sem_post(&ready);
	}
	return NULL;
}

static void thread_wait(void)
{
	while (sem_wait(&ready))
		;
}

/* Process-directed signals, all counted however threads come and go. */
static void coming_and_going(void)
{
	pid_t pid = fork();
	int status = 0, made = 0, is_over = 0;

	if (!pid) {
		for (int i = 0; i < 500; i++) {
			while (sigqueue(getppid(), SIGRTMIN + 4, (union sigval){ .sival_int = i }))
				usleep(100);
			usleep(200);
		}
		_exit(0);
	}
	/* a busy machine may give the child all of its time at once */
	while (!is_over || made <= 10) {
		pthread_t threads[4];

		if (!is_over)
			is_over = waitpid(pid, &status, WNOHANG) != 0;
		for (int i = 0; i < 4; i++)
			made += !pthread_create(&threads[i], NULL, brief, NULL);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	}
	while (got < 500)
		usleep(1000);
	printf("got %d of 500, status %d\n", got, status);
}

static void forking(void)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	static volatile int sum;

	seen_ask(SIGALRM, SA_RESTART, count, 0);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 50; i++) {
		pid_t pid = i % 2 ? fork() : vfork();
		int status = 0;

		if (!pid)
			_exit(i);
		while (waitpid(pid, &status, 0) < 0)
			;
		sum = sum + WEXITSTATUS(status);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("forked: %d\n", sum);
}

/* What a new program finds blocked and ignored. */
static void executing(void)
{
	sigset_t set = seen_set(SIGSEGV, SIGUSR2, SIGILL);

	fflush(stdout);
	if (!fork()) {
		signal(SIGTRAP, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		sigprocmask(SIG_BLOCK, &set, NULL);
		execlp("grep", "grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL);
	}
	while (wait(NULL) < 0)
		;
}

int main(int words, char **word)
{
	unsigned long spun = 0;
	pthread_t thread;
	void *result;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (words > 1) { /* replaced itself: by whom it was made, and not a child of it */
		sigset_t set = seen_set(SIGSEGV, SIGUSR2, SIGILL);

		signal(SIGTRAP, SIG_IGN);
		signal(SIGBUS, SIG_IGN);
		sigprocmask(SIG_BLOCK, &set, NULL);
		execl("/nonexistent", word[0], NULL);
		printf("mask %lx\n", seen_mask());
		execlp("grep", "grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL);
	}
	sem_init(&ready, 0, 0);
	seen_ask(SIGRTMIN + 4, SA_RESTART, count, 0);
	coming_and_going();
	pthread_create(&thread, NULL, forever, NULL);
	thread_wait();
	for (int i = 0; i < 10; i++)
		pthread_kill(thread, SIGRTMIN + 4);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("cancelled %d\n", result == PTHREAD_CANCELED);
	pthread_create(&thread, NULL, spin, &spun);
	thread_wait();
	usleep(20000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("cancelled spinning %d %d\n", result == PTHREAD_CANCELED, spun > 0);
	pthread_create(&thread, NULL, masked, NULL);
	thread_wait();
	for (int i = 0; i < 3; i++) {
		pthread_kill(thread, SIGUSR1);
		thread_wait();
	}
	pthread_join(thread, NULL);
	forking();
	executing();
	return 0;
}
