/* SPDX-License-Identifier: MIT */
/*
 * Threads in numbers, and their ends: crowds SCENE [COUNT]. The output does not depend on their
 * order.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long total;
static atomic_int ready, taken;
static pthread_barrier_t barrier;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread long own;

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(3);
}

static long spin(long rounds)
{
	long sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += (i * 7) ^ (sum >> 2);
	return sum;
}

static void *little(void *data)
{
	own = (long)data;
	atomic_fetch_add(&total, own + (spin(100) & 1));
	return (void *)own;
}

/* One after the other, every second one detached. */
static void sequence(long count)
{
	pthread_attr_t detached;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&detached, 1 << 16);
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		void *result = NULL;

		while (pthread_create(&thread, i & 1 ? &detached : NULL, little, (void *)i) ==
		       EAGAIN)
			usleep(1000);
		if (i & 1)
			continue;
		must(pthread_join(thread, &result), "join");
		if (result != (void *)i)
			printf("%ld came back as %ld\n", i, (long)result);
	}
	while (atomic_load(&total) < count * (count - 1) / 2)
		usleep(1000);
	printf("%d\n", atomic_load(&total) - count * (count - 1) / 2 <= count);
}

static void *waits(void *data)
{
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&mutex);
		own++;
		atomic_fetch_add(&total, 1);
		pthread_mutex_unlock(&mutex);
		spin(50);
	}
	return data;
}

/* All at once. */
static void crowd(long count)
{
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 15);
	pthread_barrier_init(&barrier, NULL, (unsigned int)count);
	for (long i = 0; i < count; i++)
		must(pthread_create(&threads[i], &small, waits, (void *)i), "create");
	for (long i = 0; i < count; i++)
		must(pthread_join(threads[i], NULL), "join");
	printf("%ld\n", atomic_load(&total));
	free(threads);
}

/* ---- cancelled ---- */

static void cleanup(void *data)
{
	atomic_fetch_add(&total, (long)data);
}

static void *cancelled_at_once(void *data)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(cleanup, data);
	atomic_fetch_add(&ready, 1);
	for (;;)
		spin(1000);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_waiting(void *data)
{
	pthread_cleanup_push(cleanup, data);
	atomic_fetch_add(&ready, 1);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancelled_reading(void *data)
{
	char byte;

	pthread_cleanup_push(cleanup, data);
	atomic_fetch_add(&ready, 1);
	while (read(((int *)data)[0], &byte, 1) >= 0)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel(long count)
{
	int pipes[2];

	must(pipe(pipes), "pipe");
	for (long i = 0; i < count; i++) {
		void *(*const kinds[])(void *) = { cancelled_at_once, cancelled_waiting };
		pthread_t thread;
		void *result;
		int before = atomic_load(&ready);

		must(pthread_create(&thread, NULL, kinds[i % 2], (void *)1), "create");
		while (atomic_load(&ready) == before)
			sched_yield();
		if (i % 3)
			usleep(100);
		must(pthread_cancel(thread), "cancel");
		must(pthread_join(thread, &result), "join");
		if (result != PTHREAD_CANCELED)
			printf("%ld was not cancelled\n", i);
	}
	printf("%ld\n", atomic_load(&total));
	{
		pthread_t thread;

		must(pthread_create(&thread, NULL, cancelled_reading, pipes), "create");
		usleep(1000);
		must(pthread_cancel(thread), "cancel");
		must(pthread_join(thread, NULL), "join");
		puts("reader");
	}
}

/* ---- ends ---- */

static void *outlives(void *data)
{
	usleep(50000);
	spin(100000);
	printf("still here %ld\n", (long)data);
	fflush(stdout);
	if (data)
		exit((int)(long)data);
	return NULL;
}

/*
 * The first thread goes; another ends the process, or all do. Code comes that was never seen
 * before.
 */
static void main_goes(long status)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, outlives, (void *)status), "create");
	pthread_exit(NULL);
}

static void *busy(void *data)
{
	char path[64];

	atomic_fetch_add(&ready, 1);
	for (;;) { /* system calls, new code, memory */
		snprintf(path, sizeof(path), "/proc/%ld", spin(100) & 1023);
		access(path, R_OK);
		free(malloc(100 + (size_t)(spin(10) & 4095)));
	}
	return data;
}

static void group_ends(long count)
{
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		must(pthread_create(&thread, NULL, busy, NULL), "create");
	}
	while (atomic_load(&ready) < count / 2)
		sched_yield();
	puts("ends");
	fflush(stdout);
	_exit(7);
}

static void *executes(void *data)
{
	char *const arguments[] = { "sh", "-c", "echo executed; exit 6", NULL };

	while (atomic_load(&ready) < (long)data)
		sched_yield();
	execv("/nonexistent", arguments);
	execv("/bin/sh", arguments);
	return data;
}

static void another_executes(long count)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, executes, (void *)count), "create");
	for (long i = 0; i < count; i++)
		must(pthread_create(&(pthread_t){ 0 }, NULL, busy, NULL), "create");
	for (;;)
		pause();
}

/* ---- signals among them ---- */

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&taken, 1);
}

static void *signalled(void *data)
{
	atomic_fetch_add(&ready, 1);
	while (!atomic_load(&total))
		spin(100);
	return data;
}

/* Directed at each from its first moment on, while they begin and end. */
static void signals(long count)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	int sent = 0;

	sigaction(SIGUSR1, &action, NULL);
	for (long round = 0; round < 10; round++) {
		pthread_t *threads = calloc((size_t)count, sizeof(*threads));

		atomic_store(&total, 0);
		for (long i = 0; i < count; i++) {
			must(pthread_create(&threads[i], NULL, signalled, NULL), "create");
			must(pthread_kill(threads[i], SIGUSR1), "kill");
			sent++;
		}
		atomic_store(&total, 1);
		for (long i = 0; i < count; i++)
			must(pthread_join(threads[i], NULL), "join");
		free(threads);
	}
	printf("%d\n", atomic_load(&taken) == sent);
}

/* Until somebody ends it. */
static void endless(long count)
{
	for (long i = 1; i < count; i++)
		must(pthread_create(&(pthread_t){ 0 }, NULL, busy, NULL), "create");
	while (atomic_load(&ready) < count - 1)
		sched_yield();
	puts("runs");
	fflush(stdout);
	busy(NULL);
}

/* A core is dumped while others run. */
static void dies(long count)
{
	for (long i = 0; i < count; i++)
		must(pthread_create(&(pthread_t){ 0 }, NULL, busy, NULL), "create");
	while (atomic_load(&ready) < count / 2)
		sched_yield();
	abort();
}

static const struct {
	const char *name;
	void (*run)(long);
	long count;
} scenes[] = {
	{ "sequence", sequence, 10000 },
	{ "crowd", crowd, 200 },
	{ "cancel", cancel, 200 },
	{ "main_goes", main_goes, 0 },
	{ "group_ends", group_ends, 20 },
	{ "another_executes", another_executes, 8 },
	{ "signals", signals, 20 },
	{ "endless", endless, 64 },
	{ "dies", dies, 4 },
};

int main(int count, char **words)
{
	for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
		if (count > 1 && !strcmp(words[1], scenes[i].name)) {
			scenes[i].run(count > 2 ? atol(words[2]) : scenes[i].count);
			return 0;
		}
	return 2;
}
