/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/drain/testing/filled.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int maps_it = 1;

static int maps(pid_t pid, void *data)
{
	(void)data;
	cr_assert_gt(pid, 0);
	return maps_it;
}

/* Start a child that waits to be killed; it dies with a failed test. */
static pid_t child_begin(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	cr_assert_gt(pid, 0);
	return pid;
}

/* Leave a zombie, so that the pid is not reused. */
static void child_kill(pid_t pid)
{
	siginfo_t ended;

	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
}

static void child_slot(uint32_t slot, pid_t pid, uint32_t depth)
{
	sample_store_slot(&store, slot, (uint32_t)pid, depth);
	store.slots[slot].pid = (uint32_t)pid;
}

Test(drain_share, open_page_of_dead_child_is_taken_with_its_pid)
{
	pid_t pid = child_begin();
	struct wm_page *page;

	make(64, 64, STORE_DISCARD);
	child_slot(0, pid, 0);
	store.slots[0].discarded = 3;
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, page->begin_ticks);
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_assert_eq(page->state, PAGE_OPEN);

	child_kill(pid);
	/* it looks for dead children now and then */
	cr_assert(AWAIT(pass(DRAIN_READY) >= 0 && page->state == PAGE_FREE));
	cr_assert_eq(seen.all_events, 1);
	cr_assert_eq(seen.heads[0].pid, (uint32_t)pid);
	cr_assert_eq(store.slots[0].state, SLOT_FREE, "another thread may use the slot");
	cr_assert_eq(seen.heads[seen.count - 1].discarded, 3);
	release();
	waitpid(pid, NULL, 0);
}

/* A thread that takes a page over has it open, too, and the slot is still there at first. */
Test(drain_share, open_page_of_dead_child_is_left_to_be_overwritten)
{
	struct wm_page *page, *empty, *stolen;
	pid_t pid = child_begin();
	struct drain_counts counts;

	make(64, 64, STORE_CYCLIC);
	child_slot(0, pid, 0);
	stolen = sample_store_page(&store, 2, 0);
	fill(stolen, 4);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, page->begin_ticks);
	empty = sample_store_page(&store, 1, 0);
	stolen->state = PAGE_OPEN;
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_assert_eq(page->state, PAGE_OPEN);

	child_kill(pid);
	cr_assert(AWAIT(pass(DRAIN_READY) == 0 && page->state == PAGE_FULL));
	cr_assert_eq(store.slots[0].written, 5);
	cr_assert_eq(stolen->state, PAGE_OPEN);
	cr_assert_eq(empty->state, PAGE_OPEN);
	pass(DRAIN_ALL);
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded + counts.discarded, 5);
	release();
	waitpid(pid, NULL, 0);
}

Test(drain_share, open_page_of_live_child_is_taken_in_parts)
{
	pid_t pid = child_begin();
	struct wm_page *page;

	make(64, 64, STORE_DISCARD);
	child_slot(0, pid, 0);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, page->begin_ticks);
	cr_assert_eq(pass(DRAIN_ALL), 1);
	cr_assert_eq(seen.all_events, 1);
	cr_assert_eq(page->state, PAGE_OPEN);
	sample_store_event(&store, page, 1, page->begin_ticks + 1);
	pass(DRAIN_ALL);
	cr_assert_eq(seen.all_events, 2, "each is handed on once");

	sample_store_event(&store, page, 1, page->begin_ticks + 2);
	child_kill(pid);
	pass(DRAIN_ALL);
	cr_assert_eq(seen.all_events, 3);
	cr_assert_eq(page->state, PAGE_FREE);
	release();
	waitpid(pid, NULL, 0);
}

/* The last pass, and the trace takes no more: no one looks at the page again. */
/* Rows change where they are: what is taken before the child is done would miss the rest. */
Test(drain_share, rows_of_live_child_are_taken_at_the_end_alone)
{
	pid_t pid = child_begin();
	struct wm_page *page, *own;

	make(64, 64, STORE_DISCARD);
	child_slot(0, pid, 0);
	sample_store_slot(&store, 1, 100, 0);
	page = sample_store_page(&store, 0, 0);
	own = sample_store_page(&store, 1, 1);
	page->use = own->use = PAGE_ROWS;
	sample_store_event(&store, page, 1, page->begin_ticks);
	sample_store_event(&store, own, 1, own->begin_ticks);
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_assert_eq(pass(DRAIN_PARTS), 0);
	cr_assert_eq(pass(DRAIN_PEEK), 0);
	cr_assert_eq(pass(DRAIN_ALL), 1, "the parent's own");
	cr_assert_eq(seen.heads[0].tid, 100);
	cr_assert_eq(page->state, PAGE_OPEN);
	drain_expect_end(drain);
	cr_assert_eq(pass(DRAIN_ALL), 1);
	cr_assert_eq(seen.all_events, 2);
	release();
	child_kill(pid);
	waitpid(pid, NULL, 0);
}

Test(drain_share, refused_part_of_live_child_counts_as_discarded)
{
	static const uint32_t policies[] = { STORE_DISCARD, STORE_CYCLIC };

	for (size_t i = 0; i < 2; i++) {
		pid_t pid = child_begin();
		struct drain_counts counts;
		struct wm_page *page;

		make(64, 64, policies[i]);
		child_slot(0, pid, 0);
		page = sample_store_page(&store, 0, 0);
		sample_store_event(&store, page, 1, page->begin_ticks);
		sample_store_event(&store, page, 1, page->begin_ticks + 1);
		seen.fail = -ENOSPC;
		cr_assert_eq(pass(DRAIN_ALL), -ENOSPC);
		cr_assert_eq(pass(DRAIN_ALL), 0, "it is counted once");
		drain_finish(drain, &sink);
		drain_count(drain, &counts);
		cr_expect_eq(counts.recorded, 0);
		cr_expect_eq(counts.discarded, 2, "policy %u", policies[i]);
		release();
		child_kill(pid);
		waitpid(pid, NULL, 0);
	}
}

/* The drain keeps an answer for a moment. */
static int is_shared(int expected)
{
	return AWAIT(drain_is_shared(drain, maps, NULL) == expected);
}

Test(drain_share, is_shared_while_live_child_maps_store)
{
	pid_t pid = child_begin();

	make(64, 64, STORE_DISCARD);
	drain_share(drain);
	child_slot(0, pid, SLOT_SHARES);
	cr_assert(is_shared(1));
	maps_it = 0; /* it has executed another program */
	cr_assert(is_shared(0));
	cr_assert(store.head->closed, "later children may not write");
	maps_it = 1;
	drain_share(drain);
	cr_assert(is_shared(1));
	child_kill(pid);
	cr_assert(is_shared(0));
	release();
	waitpid(pid, NULL, 0);
}

Test(drain_share, is_shared_until_fork_returns_in_child)
{
	make(64, 64, STORE_DISCARD);
	drain_share(drain);
	store.head->forks = 1;
	cr_assert(is_shared(1));
	store.head->forked = 1;
	cr_assert(is_shared(0));
	store.head->forks = 2; /* the fork failed, or the child was killed */
	cr_assert(is_shared(0));
	release();
}

Test(drain_share, unreached_children_are_counted)
{
	int error;

	make(64, 64, STORE_DISCARD);
	cr_assert_eq(drain_unreached(drain, &error), 0);
	store.head->unreached_error = -13;
	store.head->unreached = 2;
	cr_assert_eq(drain_unreached(drain, &error), 2);
	cr_assert_eq(error, -13);
	release();
}
