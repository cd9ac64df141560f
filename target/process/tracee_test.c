/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "target/process/remote_thread.h"
#include "target/process/target.h"
#include "target/process/testing/subject.h"
#include "target/process/tracee.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <waymark/error.h>

#define STOP_MS 10000
#define TIMES 400

static int has_been_waited_for(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

/* The kernel reports the end to the parent after the tracer has fetched each thread's end. */
Test(tracee, a_process_killed_while_it_is_held_ends_for_its_parent, .timeout = 60)
{
	struct subject subject;
	struct remote_thread *threads;
	pid_t *tids;
	int count;

	subject_start(&subject, "storms", "sleepers");
	count = target_threads(subject.pid, &tids);
	cr_assert_gt(count, 1);
	threads = calloc((size_t)count, sizeof(*threads));
	for (int i = 0; i < count; i++) {
		int err = remote_thread_stop(&threads[i], tids[i], tracee_deadline(STOP_MS));

		cr_assert_eq(err, 0, "thread %d: %s", tids[i], wm_error_text(err));
	}
	kill(subject.pid, SIGKILL);
	for (int i = count; i-- > 0;)
		remote_thread_end(&threads[i]);
	cr_assert(AWAIT(has_been_waited_for(subject.pid)), "it has ended, and its parent waits");
	free(threads);
	free(tids);
}

/* A fault's signal that comes after we have moved the thread would show our registers. */
Test(tracee, fault_of_a_borrowed_thread_is_delivered_before, .timeout = 60)
{
	const uint64_t faults = 1u << (SIGSEGV - 1) | 1u << (SIGILL - 1) | 1u << (SIGFPE - 1);
	struct subject subject;
	pid_t *tids;
	int count;

	subject_start(&subject, "storms", "faults");
	count = target_threads(subject.pid, &tids);
	cr_assert_gt(count, 1);
	for (int i = 0; i < TIMES; i++) {
		pid_t tid = tids[i % count];
		struct remote_thread thread;
		uint64_t pending;
		int err;

		while ((err = remote_thread_stop(&thread, tid, tracee_deadline(STOP_MS))) ==
		       -EAGAIN)
			;
		cr_assert_eq(err, 0, "thread %d: %s", tid, wm_error_text(err));
		pending = target_status_mask(tid, "SigPnd") & ~target_status_mask(tid, "SigBlk");
		remote_thread_end(&thread);
		cr_assert_eq(pending & faults, 0, "pending: %" PRIx64, pending);
	}
	free(tids);
	subject_end(&subject);
}
