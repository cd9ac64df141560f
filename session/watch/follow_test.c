/* SPDX-License-Identifier: MIT */
#include "session/watch/follow.h"
#include "session/watch/watching_own.h"

#include <criterion/criterion.h>
#include <unistd.h>

/* The watched process is this one. No register has to move, so none is needed. */
Test(follow, threads_do_not_wait_after_stop)
{
	static struct watch_table table;
	static void *pointer;
	static struct watching watching;
	const struct follow_chain *chain = &table.follows[0];

	watching.table = &table;
	watching.pid = getpid();
	watching.plan.pointers = 1;
	watching.plan.start = (uintptr_t)&pointer;
	cr_assert_eq(follow_begin(&watching), 0);
	cr_assert_eq(follow_settle(&watching, 0), 0);
	cr_assert_eq(follow_serve(&watching), 0);
	cr_expect_not(chain->is_late);
	follow_stop(watching.follow);
	cr_expect(chain->is_late);
	cr_expect_eq(chain->done, chain->asked);
	follow_release(watching.follow);
}
