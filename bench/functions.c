/* SPDX-License-Identifier: MIT */
/* See functions.h. functions FILE */
#include "bench/functions.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/measure.h"

#define POLL_NS 100000

static struct watched *watched;

static int is_over(void)
{
	return __atomic_load_n(&watched->stop, __ATOMIC_RELAXED);
}

/* A few calls, then a rest: there are more threads than CPUs. */
static void *work(void *data)
{
	uint64_t at = (uint64_t)(uintptr_t)data * 37;

	while (!is_over()) {
		for (int i = 0; i < 50; i++, at++) {
			uint64_t which = at % MANY_COUNT;

			if (many[which](at, 5) != at * (which + 3) + (5 ^ which))
				__atomic_fetch_add(&watched->wrong, 1, __ATOMIC_RELAXED);
		}
		usleep(20000);
	}
	return NULL;
}

/*
 * In front of all others where that is allowed, so that what keeps it waiting is the one that stops
 * it.
 */
static void *watch(void *data)
{
	struct sched_param first = { .sched_priority = 1 };
	struct timespec poll_wait = { .tv_nsec = POLL_NS };

	(void)data;
	sched_setscheduler(0, SCHED_FIFO, &first);
	while (!is_over()) {
		uint64_t start = measure_ns(), late;

		nanosleep(&poll_wait, NULL);
		late = measure_ns() - start - POLL_NS;
		if (late > __atomic_load_n(&watched->longest_ns, __ATOMIC_RELAXED))
			__atomic_store_n(&watched->longest_ns, late, __ATOMIC_RELAXED);
		__atomic_fetch_add(&watched->wakeups, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS - 1];
	int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return 2;
	watched = mmap(NULL, sizeof(*watched), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (watched == MAP_FAILED)
		return 2;
	for (long i = 0; i < THREADS - 1; i++)
		if (pthread_create(&threads[i], NULL, i ? work : watch, (void *)i))
			return 2;
	__atomic_store_n(&watched->ready, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS - 1; i++)
		pthread_join(threads[i], NULL);
	return watched->wrong != 0;
}
