/* SPDX-License-Identifier: MIT */
#include "session/adopt.h"

#include "session/process.h"

#include <criterion/criterion.h>
#include <errno.h>

/* How many children count as started late when the agent of this one answers ADOPT with an error. */
static uint64_t late_starts(int let_go, uint8_t forked, int is_on)
{
	struct wm_session session = { .running = 1 };
	struct process child = { .let_go = let_go,
				 .hello.forked = forked,
				 .events = event_list_new(NULL, 0),
				 .probed = { .adopts = 1, .is_on = is_on } };

	child.done.error = -EAGAIN;
	cr_assert_eq(adopt_answered(&session, &child), 0);
	cr_assert_eq(child.probed.adopts, 0);
	event_list_drop(child.events);
	return session.probes.late_starts;
}

Test(adopt, refused_adoption_counts_child_that_runs_unrecorded)
{
	cr_assert_eq(late_starts(1, HELLO_FORKED, 1), 1);
	cr_assert_eq(late_starts(0, HELLO_FORKED, 1), 0, "it still waits for GO");
	cr_assert_eq(late_starts(1, HELLO_SHARES, 1), 0, "its events go to its parent's store");
	cr_assert_eq(late_starts(1, HELLO_FORKED, 0), 0, "nothing is wanted of it any more");
}
