/* SPDX-License-Identifier: MIT */
#include "target/process/loan.h"
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
 * call that no stop leaves alone with EINTR (borrow.h), so it is waited for.
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

static int one(struct loan *loan, pid_t tid, unsigned int wait_ms)
{
	struct borrow borrow;
	int err = borrow_stop(&borrow, tid, tracee_deadline(wait_ms));

	if (err)
		return err;
	err = loan->fn(loan, &borrow);
	if (borrow_end(&borrow))
		loan->astray = 1;
	return err;
}

int loan_failed(const struct loan *loan, int err)
{
	if (loan->committed)
		return 0;
	return err == -EAGAIN || err == -ESRCH || err == -ETIMEDOUT || err == -EOPNOTSUPP ||
	       err == -EPERM || err == -EBUSY;
}

/*
 * Another thread may do. Not so while another tool has the lock: each would be stopped for nothing.
 */
static int try_next(const struct loan *loan, int err)
{
	return loan_failed(loan, err) && err != -EBUSY;
}

static int traced_by_others(pid_t tid)
{
	long tracer = target_status_number(tid, "TracerPid");

	return tracer && tracer != gettid();
}

/* One pass over the threads, leader first, the better ranks first. */
static int pass(struct loan *loan)
{
	pid_t *tids;
	int count = target_threads(loan->pid, &tids), err = count < 0 ? count : -EAGAIN;

	loan->ended = 1;
	for (int want = 0; want < 3 && try_next(loan, err); want++)
		for (int i = 0; i < count && try_next(loan, err); i++) {
			char state = target_thread_state(loan->pid, tids[i]);

			if (target_state_lives(state))
				loan->ended = 0;
			if (rank(state) == want && !traced_by_others(tids[i]))
				err = one(loan, tids[i], want ? STOP_WAIT_MS : SLEEPER_WAIT_MS);
		}
	free(tids);
	/* those that were listed may have ended since, and others live on that they have started */
	if (loan->ended && target_status_number(loan->pid, "Threads") > 1)
		loan->ended = 0;
	return loan->ended && loan_failed(loan, err) ? -ESRCH : err;
}

struct making {
	struct loan *loan;
	int result;
};

static void *loan_thread(void *arg)
{
	struct making *making = arg;
	struct loan *loan = making->loan;
	uint64_t deadline_ns = tracee_deadline(loan->wait_ms);
	uint64_t last_ns = tracee_deadline(loan->wait_ms * LATE);

	for (loan->tries = 0;; loan->tries++) {
		/* At uneven times: a program with a beat of its own must not keep step with us. */
		long pause_us = PAUSE_US_MIN + loan->tries * 137 % PAUSE_US_SPREAD;

		making->result = pass(loan);
		if (!loan_failed(loan, making->result) || loan->ended || tracee_late(last_ns))
			break;
		if (tracee_late(deadline_ns) &&
		    (making->result != -EAGAIN || loan->tries >= loan->tries_min))
			break;
		if (making->result == -EPERM && loan->tries > TRIES_DENIED)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = pause_us * 1000 }, NULL);
	}
	return NULL;
}

int loan_make(struct loan *loan)
{
	struct making making = { .loan = loan };
	pthread_t thread;
	/*
	 * A thread of our own: its end lets go of all that could not be stopped in time (tracee.h).
	 */
	int err = -pthread_create(&thread, NULL, loan_thread, &making);

	if (!err)
		err = -pthread_join(thread, NULL);
	return err ? err : making.result;
}
