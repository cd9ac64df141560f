/* SPDX-License-Identifier: MIT */
/*
 * A tracer thread holds the stop: it seizes, waits, and detaches when told to; ptrace(2) wants all
 * that from one thread. When it ends, the kernel detaches the rest.
 *
 * A pass goes over all threads and seizes those that are not seized yet; passes are repeated until
 * one has seen all threads, and found no such one. Then every thread except keep_tid is stopped, so
 * no other can start one.
 */
#include "arch/remote_syscall.h"
#include "base/array.h"
#include "target/process/stop_threads.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <waymark/error.h>

#define STOP_WAIT_MS 2000
#define TURN_MS 5

struct stopped {
	pid_t tid;
	int gone;
	int settled; /* it is stopped, or gone */
};

struct stop {
	pid_t pid, keep_tid;
	pthread_t thread;
	sem_t held, resume;
	int result;
	uint64_t deadline_ns;
	struct stopped *all; /* sorted by tid */
	size_t count, room;
};

static int by_tid(const void *a, const void *b)
{
	const struct stopped *left = a, *right = b;

	return (left->tid > right->tid) - (left->tid < right->tid);
}

static int is_seized(const struct stop *stop, pid_t tid, size_t sorted)
{
	struct stopped key = { .tid = tid };

	return sorted && bsearch(&key, stop->all, sorted, sizeof(key), by_tid);
}

static int stop_add(struct stop *stop, pid_t tid)
{
	if (array_grow(&stop->all, &stop->room, stop->count + 1, sizeof(*stop->all)))
		return -ENOMEM;
	stop->all[stop->count++] = (struct stopped){ .tid = tid };
	return 0;
}

/* Some calls would return for the stop alone; the others restart by themselves. */
static void call_keep(pid_t tid)
{
	struct remote_regs regs;

	if (!remote_regs_get(tid, &regs) && remote_regs_restart(&regs))
		remote_regs_set(tid, &regs);
}

static int settle_one(struct stop *stop, struct stopped *one)
{
	uint64_t turn_ns = tracee_deadline(TURN_MS);
	int err = tracee_stop(one->tid, turn_ns < stop->deadline_ns ? turn_ns : stop->deadline_ns);

	one->gone = err != 0;
	if (err == -ETIMEDOUT && !tracee_late(stop->deadline_ns))
		return 0;
	one->settled = 1;
	if (!err)
		call_keep(one->tid);
	if (err == -ETIMEDOUT)
		return -WM_E_STRICT;
	return err == -ESRCH ? 0 : err;
}

/*
 * Fetch the ends of threads that had stopped and were killed since: the kernel reports the first
 * thread's end only then.
 */
static void fetch_ends(struct stop *stop)
{
	int signal;

	for (size_t i = 0; i < stop->count; i++)
		if (stop->all[i].settled && !stop->all[i].gone)
			stop->all[i].gone = tracee_look(stop->all[i].tid, &signal) == -ESRCH;
}

/*
 * In turns: of a killed process the kernel reports the first thread's end only once those of all
 * others were fetched, so waiting for one after the other would block.
 */
static int settle(struct stop *stop, size_t from)
{
	size_t left;
	int err = 0;

	do {
		left = 0;
		for (size_t i = from; i < stop->count && !err; i++) {
			if (stop->all[i].settled)
				continue;
			err = settle_one(stop, &stop->all[i]);
			left += !stop->all[i].settled;
		}
		if (left)
			fetch_ends(stop);
	} while (left && !err);
	return err;
}

/*
 * Seize all that are not yet, then wait for them: so they come to a stop side by side.
 * *has_more: others may be running.
 */
static int pass(struct stop *stop, int *has_more)
{
	size_t sorted = stop->count;
	pid_t *tids;
	int count = target_threads(stop->pid, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		if (tids[i] == stop->keep_tid || is_seized(stop, tids[i], sorted))
			continue;
		err = tracee_seize(tids[i]);
		if (!err)
			err = stop_add(stop, tids[i]);
		else if (err == -ESRCH || !target_thread_state(stop->pid, tids[i]) ||
			 target_thread_state(stop->pid, tids[i]) == 'Z')
			err = 0; /* it ended meanwhile */
		else if (target_status_number(tids[i], "TracerPid") > 0)
			err = -WM_E_TRACED;
	}
	if (!err)
		err = settle(stop, sorted);
	*has_more = stop->count > sorted || !target_threads_are(stop->pid, tids, count);
	free(tids);
	if (stop->count)
		qsort(stop->all, stop->count, sizeof(*stop->all), by_tid);
	return err;
}

static void *stop_thread(void *arg)
{
	struct stop *stop = arg;
	int has_more = 1, err = 0;

	stop->deadline_ns = tracee_deadline(STOP_WAIT_MS);
	while (!err && has_more) {
		err = pass(stop, &has_more);
		if (!err && has_more && tracee_late(stop->deadline_ns))
			err = -WM_E_STRICT;
	}
	stop->result = err;
	sem_post(&stop->held);
	while (!err && sem_wait(&stop->resume) && errno == EINTR)
		;
	/* Those that are still on their way to a stop are let go by this thread's end. */
	for (size_t i = 0; i < stop->count; i++)
		if (!stop->all[i].gone)
			tracee_detach(stop->all[i].tid);
	return NULL;
}

static void stop_free(struct stop *stop)
{
	pthread_join(stop->thread, NULL);
	sem_destroy(&stop->held);
	sem_destroy(&stop->resume);
	free(stop->all);
	free(stop);
}

int stop_threads(pid_t pid, pid_t keep_tid, struct stop **stop)
{
	struct stop *new = calloc(1, sizeof(*new));
	int err;

	*stop = NULL;
	if (!new)
		return -ENOMEM;
	new->pid = pid;
	new->keep_tid = keep_tid;
	sem_init(&new->held, 0, 0);
	sem_init(&new->resume, 0, 0);
	err = -pthread_create(&new->thread, NULL, stop_thread, new);
	if (err) {
		free(new);
		return err;
	}
	while (sem_wait(&new->held) && errno == EINTR)
		;
	err = new->result;
	if (err)
		stop_free(new);
	else
		*stop = new;
	return err;
}

void stop_resume(struct stop *stop)
{
	if (!stop)
		return;
	sem_post(&stop->resume);
	stop_free(stop);
}
