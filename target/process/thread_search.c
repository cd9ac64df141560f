/* SPDX-License-Identifier: MIT */
#include "target/process/thread_search.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STOP_WAIT_MS 100 /* for one thread to stop */
/*
 * One that sleeps stops as soon as it gets a processor. Given up before, it would come out of a
 * call that no stop leaves alone with EINTR (remote_thread.h), so it is waited for.
 */
#define SLEEPER_WAIT_MS 2000
#define LATE 5		/* times the usual wait */
#define TRIES_DENIED 20 /* a thread that ends refuses for a moment; so does one that is traced */
#define PAUSE_US_MIN 100
#define PAUSE_US_SPREAD 1900

/*
 * The order to try threads in: those that sleep, those that run, never those that can't be stopped.
 */
static int rank(char state)
{
	switch (state) {
	case 'S':
	case 'I':
		return 0;
	case 'R':
		return 1;
	case 'D': /* for a moment, or as a parent in vfork(2) */
		return 2;
	default:
		return 3;
	}
}

static int one(struct thread_search *search, pid_t tid, unsigned int wait_ms)
{
	struct remote_thread remote;
	int err = remote_thread_stop(&remote, tid, tracee_deadline(wait_ms));

	if (err)
		return err;
	err = search->fn(search, &remote);
	if (remote_thread_end(&remote))
		search->astray = 1;
	return err;
}

int thread_search_failed(const struct thread_search *search, int err)
{
	if (search->committed)
		return 0;
	return err == -EAGAIN || err == -ESRCH || err == -ETIMEDOUT || err == -EOPNOTSUPP ||
	       err == -EPERM || err == -EBUSY;
}

/*
 * Another thread may do. Not so while another tool has the lock: each would be stopped for nothing.
 */
static int try_next(const struct thread_search *search, int err)
{
	return thread_search_failed(search, err) && err != -EBUSY;
}

static int traced_by_others(pid_t tid)
{
	long tracer = target_status_number(tid, "TracerPid");

	return tracer && tracer != gettid();
}

/* One pass over the threads, leader first, the better ranks first. */
static int pass(struct thread_search *search)
{
	pid_t *tids;
	int count = target_threads(search->pid, &tids), err = count < 0 ? count : -EAGAIN;

	search->ended = 1;
	for (int want = 0; want < 3 && try_next(search, err); want++)
		for (int i = 0; i < count && try_next(search, err); i++) {
			char state = target_thread_state(search->pid, tids[i]);

			if (target_state_lives(state))
				search->ended = 0;
			if (rank(state) == want && !traced_by_others(tids[i]))
				err = one(search, tids[i], want ? STOP_WAIT_MS : SLEEPER_WAIT_MS);
		}
	free(tids);
	/* those that were listed may have ended since, and others live on that they have started */
	if (search->ended && target_status_number(search->pid, "Threads") > 1)
		search->ended = 0;
	return search->ended && thread_search_failed(search, err) ? -ESRCH : err;
}

struct making {
	struct thread_search *search;
	int result;
};

static void *search_thread(void *arg)
{
	struct making *making = arg;
	struct thread_search *search = making->search;
	uint64_t deadline_ns = tracee_deadline(search->wait_ms);
	uint64_t last_ns = tracee_deadline(search->wait_ms * LATE);

	for (search->tries = 0;; search->tries++) {
		/* At uneven times: a program with a beat of its own must not keep step with us. */
		long pause_us = PAUSE_US_MIN + search->tries * 137 % PAUSE_US_SPREAD;

		making->result = pass(search);
		if (!thread_search_failed(search, making->result) || search->ended ||
		    tracee_late(last_ns))
			break;
		if (tracee_late(deadline_ns) &&
		    (making->result != -EAGAIN || search->tries >= search->tries_min))
			break;
		if (making->result == -EPERM && search->tries > TRIES_DENIED)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = pause_us * 1000 }, NULL);
	}
	return NULL;
}

int thread_search_run(struct thread_search *search)
{
	struct making making = { .search = search };
	pthread_t thread;
	/*
	 * A thread of our own: its end lets go of all that could not be stopped in time (tracee.h).
	 */
	int err = -pthread_create(&thread, NULL, search_thread, &making);

	if (!err)
		err = -pthread_join(thread, NULL);
	return err ? err : making.result;
}
