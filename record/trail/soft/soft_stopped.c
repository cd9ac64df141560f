/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_stopped.h"

#include "base/array.h"
#include "record/trail/soft/soft_asked.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <time.h>

#define LEAD_MS 1500		     /* less than the engine waits that asks */
#define LATE_NS UINT64_C(3000000000) /* of all that failed: meanwhile no other process is seen to */
#define POLL_NS 100000

struct led {
	pid_t tid;
	int is_out, has_mask;
	int again; /* a stop signal that came meanwhile: sent again when it is out */
};

struct leading {
	struct engine_places places; /* a copy: the process may write its channel at any time */
	pid_t pid;
	struct led *threads;
	size_t count, room;
	size_t inside; /* threads that have not left the engine */
};

/* Its registers are the program's. The engine gives gs back last, before its handler returns. */
static int is_native(const struct leading *leading, pid_t tid)
{
	const struct engine_places *places = &leading->places;
	struct user_regs_struct regs;

	return !ptrace(PTRACE_GETREGS, tid, NULL, &regs) && !regs.gs_base &&
	       regs.rip - places->start >= places->bytes;
}

/*
 * Signals for the program stay pending meanwhile, as they do natively. The engine restores the
 * program's mask when it leaves.
 */
static void hold_signals(const struct leading *leading, struct led *thread)
{
	uint64_t mask = ~leading->places.own_signals;

	if (!thread->has_mask && leading->places.own_signals)
		thread->has_mask = !ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(mask), &mask);
}

int soft_stopped_is_by(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* 1: something has become of it; 0: not yet; or -ESRCH. */
static int follow(const struct leading *leading, struct led *thread)
{
	int signal, stop = tracee_look(thread->tid, &signal);

	if (stop <= 0)
		return stop;
	if (is_native(leading, thread->tid)) {
		thread->is_out = 1;
		return ptrace(PTRACE_DETACH, thread->tid, NULL, thread->again) ? -ESRCH : 1;
	}
	hold_signals(leading, thread);
	if (stop == TRACEE_SIGNAL && soft_stopped_is_by(signal)) {
		thread->again = signal;
		signal = 0;
	}
	return ptrace(PTRACE_SYSCALL, thread->tid, NULL, stop == TRACEE_SIGNAL ? signal : 0)
		       ? -ESRCH
		       : 1;
}

static int is_known(const struct leading *leading, pid_t tid)
{
	for (size_t i = 0; i < leading->count; i++)
		if (leading->threads[i].tid == tid)
			return 1;
	return 0;
}

/* All threads, also those that have yet to begin. A stopped thread reports its stop when seized. */
static int seize_all(struct leading *leading)
{
	pid_t *tids;
	int count = target_threads(leading->pid, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		if (is_known(leading, tids[i]) ||
		    !target_state_lives(target_thread_state(leading->pid, tids[i])))
			continue;
		err = array_grow(&leading->threads, &leading->room, leading->count + 1,
				 sizeof(*leading->threads));
		if (!err)
			err = tracee_seize(tids[i]);
		if (!err)
			leading->threads[leading->count++] = (struct led){ .tid = tids[i] };
		else if (err == -ESRCH)
			err = 0;
	}
	if (count >= 0)
		free(tids);
	return err;
}

static void *lead(void *arg)
{
	struct leading *leading = arg;
	uint64_t deadline_ns = tracee_deadline(LEAD_MS);

	leading->inside = 1;
	while (leading->inside && !tracee_late(deadline_ns)) {
		int had = 0;

		if (seize_all(leading))
			break;
		leading->inside = 0;
		for (size_t i = 0; i < leading->count; i++) {
			struct led *thread = &leading->threads[i];
			int got = thread->is_out ? 0 : follow(leading, thread);

			thread->is_out |= got < 0;
			had |= got;
			leading->inside += !thread->is_out;
		}
		if (!had)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return NULL;
}

int soft_stopped_lead(const struct soft_channel *channel, pid_t pid, uint64_t *late_ns)
{
	uint64_t began_ns = ticks_monotonic_ns();
	struct engine_channel *head = soft_channel_head(channel);
	struct leading leading = { .places = head->places, .pid = pid };
	pthread_t thread;

	if (target_thread_state(pid, pid) != 'T')
		return 0;
	__atomic_store_n(&head->is_led, 1, __ATOMIC_SEQ_CST);
	if (*late_ns < LATE_NS && asked_is_thread(channel, pid, pid) &&
	    !pthread_create(&thread, NULL, lead, &leading)) {
		pthread_join(thread, NULL);
		*late_ns += leading.inside ? ticks_monotonic_ns() - began_ns : 0;
	}
	free(leading.threads);
	__atomic_store_n(&head->is_led, 0, __ATOMIC_SEQ_CST);
	return 1;
}
