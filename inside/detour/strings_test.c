/* SPDX-License-Identifier: MIT */
/*
 * The system call that reads strings is made only where no thread has a filter that might kill it
 * for that.
 */
#include "abi/page.h"
#include "base/syscall.h"
#include "inside/control/detours.h"
#include "inside/detour/testing/fixture.h"

#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

static int is_filtered, stop_all;

static void *filter(void *unused)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &allow };
	int is = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		 !syscall_raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0);

	__atomic_store_n(&is_filtered, is ? 1 : -1, __ATOMIC_RELEASE);
	trial_stay(&stop_all);
	return unused;
}

static pthread_t start_filtered(void)
{
	pthread_t thread;

	is_filtered = stop_all = 0;
	cr_assert_eq(pthread_create(&thread, NULL, filter, NULL), 0);
	trial_await(&is_filtered);
	if (is_filtered < 0)
		cr_skip_test("no seccomp filters here");
	return thread;
}

static void end_filtered(pthread_t thread)
{
	trial_tell(&stop_all);
	pthread_join(thread, NULL);
}

static int string_state(void)
{
	trial_victim((long)"twelve");
	cr_assert_gt(trial_events(0), 0);
	return *(const unsigned char *)trial_last;
}

static void place(void)
{
	struct trial_wish wish = trial_victim_wish;
	static union trial_record record;

	trial_begin();
	wish.argument = 3;
	trial_compose(&record, &wish);
	cr_assert_eq(trial_place(&record), 0);
}

static void commit(void)
{
	struct change change = { 0 };

	cr_assert_eq(detours_commit(TRIAL_LANE, &trial_text, &change), 0);
	cr_assert_eq(change.markers, 1);
}

Test(strings, none_is_read_when_a_thread_has_a_filter_at_the_commit)
{
	pthread_t thread;

	place();
	thread = start_filtered();
	commit();
	cr_assert_eq(string_state(), FIELD_UNREADABLE);
	end_filtered(thread);
	detours_tick(&trial_text);
	cr_assert_eq(string_state(), FIELD_WHOLE);
}

Test(strings, a_filter_that_comes_later_is_noticed)
{
	pthread_t thread;

	place();
	commit();
	cr_assert_eq(string_state(), FIELD_WHOLE);
	thread = start_filtered();
	detours_tick(&trial_text);
	cr_assert_eq(string_state(), FIELD_UNREADABLE);
	end_filtered(thread);
}

/* The filter of the thread that forked is the child's. */
Test(strings, a_child_looks_for_itself_when_it_takes_over)
{
	pthread_t thread;

	place();
	commit();
	thread = start_filtered();
	detours_adopted(&trial_text);
	cr_assert_eq(string_state(), FIELD_UNREADABLE);
	end_filtered(thread);
	detours_adopted(&trial_text);
	cr_assert_eq(string_state(), FIELD_WHOLE);
}
