/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "process/borrow.h"
#include "process/target.h"
#include "process/testing/subject.h"
#include "process/tracee.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <waymark/error.h>

#define STOP_MS 10000

static int has_been_waited_for(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

/* The kernel reports the end to the parent after the tracer has fetched each thread's end. */
Test(tracee, a_process_killed_while_it_is_held_ends_for_its_parent, .timeout = 60)
{
	struct subject subject;
	struct borrow *threads;
	pid_t *tids;
	int count;

	subject_start(&subject, "storms", "sleepers");
	count = target_threads(subject.pid, &tids);
	cr_assert_gt(count, 1);
	threads = calloc((size_t)count, sizeof(*threads));
	for (int i = 0; i < count; i++) {
		int err = borrow_stop(&threads[i], tids[i], tracee_deadline(STOP_MS));

		cr_assert_eq(err, 0, "thread %d: %s", tids[i], wm_error_text(err));
	}
	kill(subject.pid, SIGKILL);
	for (int i = count; i-- > 0;)
		borrow_end(&threads[i]);
	cr_assert(AWAIT(has_been_waited_for(subject.pid)), "it has ended, and its parent waits");
	free(threads);
	free(tids);
}
