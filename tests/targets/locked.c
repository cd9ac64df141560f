/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for mutexes of known holders: `keeper` holds `kept` until both waiters wait for
 * it, eight times; a wait for a condition gives `signalled` up meanwhile; trylock and timedlock of
 * what another holds. It prints "WHAT TID" of its threads, and "held NS" of the keeper.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 2
#define ROUNDS 8

pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *heaped, signalled = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int rung;
	pthread_cond_t condition;
} bells[2] = { { 0, PTHREAD_COND_INITIALIZER }, { 0, PTHREAD_COND_INITIALIZER } };
static pthread_barrier_t barrier;
static _Atomic pid_t tids[WAITERS], listening;
static int is_set;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Until that thread sleeps in futex(2). */
static void await_futex(pid_t tid)
{
	char path[64], line[16] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	do {
		FILE *file = fopen(path, "r");

		if (!file || !fgets(line, sizeof(line), file))
			line[0] = '\0';
		if (file)
			fclose(file);
	} while (atoi(line) != SYS_futex);
}

__attribute__((noinline)) uint64_t keep(pthread_mutex_t *mutex)
{
	uint64_t from_ns;

	pthread_mutex_lock(mutex);
	from_ns = now_ns();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < WAITERS; i++)
		await_futex(tids[i]);
	usleep(2000); /* time is the subject: the waits have a length that can be measured */
	from_ns = now_ns() - from_ns;
	pthread_mutex_unlock(mutex);
	return from_ns;
}

static void *keeper(void *data)
{
	uint64_t held_ns = 0;

	pthread_setname_np(pthread_self(), "keeper");
	for (int i = 0; i < ROUNDS; i++) {
		held_ns += keep(&kept);
		pthread_barrier_wait(&barrier);
	}
	printf("keeper %d\nheld %lu\n", gettid(), held_ns);
	return data;
}

static void *waiter(void *data)
{
	_Atomic pid_t *tid = data;

	pthread_setname_np(pthread_self(), "waiter");
	*tid = gettid();
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		pthread_mutex_lock(&kept);
		pthread_mutex_unlock(&kept);
		pthread_barrier_wait(&barrier);
	}
	printf("waiter %d\n", *tid);
	return NULL;
}

/* It has the mutex, and gives it up until it is signalled: no one waits for this thread. */
static void *listener(void *data)
{
	pthread_setname_np(pthread_self(), "listener");
	pthread_mutex_lock(&signalled);
	listening = gettid();
	while (!is_set)
		pthread_cond_wait(&bells[1].condition, &signalled);
	pthread_mutex_unlock(&signalled);
	printf("listener %d\n", gettid());
	return data;
}

/* Main holds the lock: a trylock fails at once, a timedlock after 10 ms. */
static void *impatient(void *data)
{
	struct timespec until;

	pthread_setname_np(pthread_self(), "impatient");
	if (pthread_mutex_trylock(heaped) != EBUSY)
		abort();
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (until.tv_nsec + 10000000) / 1000000000;
	until.tv_nsec = (until.tv_nsec + 10000000) % 1000000000;
	if (pthread_mutex_timedlock(heaped, &until) != ETIMEDOUT)
		abort();
	printf("impatient %d\n", gettid());
	return data;
}

int main(void)
{
	pthread_t threads[1 + WAITERS], one;

	pthread_barrier_init(&barrier, NULL, 1 + WAITERS);
	pthread_create(&threads[0], NULL, keeper, NULL);
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&threads[1 + i], NULL, waiter, (void *)&tids[i]);
	for (int i = 0; i <= WAITERS; i++)
		pthread_join(threads[i], NULL);

	pthread_create(&one, NULL, listener, NULL);
	while (!listening)
		usleep(100); /* until it listens */
	await_futex(listening);
	pthread_mutex_lock(&signalled);
	is_set = 1;
	pthread_cond_signal(&bells[1].condition);
	pthread_mutex_unlock(&signalled);
	pthread_join(one, NULL);

	heaped = malloc(sizeof(*heaped));
	pthread_mutex_init(heaped, NULL);
	pthread_mutex_lock(heaped);
	pthread_create(&one, NULL, impatient, NULL);
	pthread_join(one, NULL);
	pthread_mutex_unlock(heaped);
	free(heaped);
	printf("main %d\n", getpid());
	return 0;
}
