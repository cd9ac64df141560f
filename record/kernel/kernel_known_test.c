/* SPDX-License-Identifier: MIT */
#include "record/kernel/kernel_known.h"

#include <criterion/criterion.h>

static struct known_threads threads;

Test(kernel_known, threads_come_and_go)
{
	cr_assert_eq(known_pid(&threads, 7), 0);
	known_end(&threads, 7);
	for (pid_t tid = 1; tid <= 5000; tid++)
		cr_assert_eq(known_add(&threads, tid * 3, tid), 0);
	cr_assert_eq(threads.count, 5000);
	for (pid_t tid = 1; tid <= 5000; tid += 2)
		known_end(&threads, tid * 3);
	cr_assert_eq(known_pid(&threads, 3), 1, "until it is swept");
	known_sweep(&threads);
	for (pid_t tid = 1; tid <= 5000; tid++)
		cr_assert_eq(known_pid(&threads, tid * 3), tid % 2 ? 0 : tid, "%d", (int)tid);
	cr_assert_eq(threads.count, 2500);
	cr_assert_eq(known_add(&threads, 6, 9), 0);
	cr_assert_eq(known_pid(&threads, 6), 9);
	cr_assert_eq(threads.count, 2500);
	cr_assert_eq(known_add(&threads, 0, 1), 0);
	cr_assert_eq(known_add(&threads, -1, 1), 0);
	cr_assert_eq(threads.count, 2500);
	known_release(&threads);
}

Test(kernel_known, those_behind_a_removed_one_are_found)
{
	/* all in one run of the table */
	for (pid_t i = 0; i < 8; i++)
		cr_assert_eq(known_add(&threads, 64 * i + 60, i + 1), 0);
	known_end(&threads, 60);
	known_end(&threads, 64 * 3 + 60);
	known_sweep(&threads);
	for (pid_t i = 0; i < 8; i++)
		cr_assert_eq(known_pid(&threads, 64 * i + 60), i == 0 || i == 3 ? 0 : i + 1);
	known_release(&threads);
}

Test(kernel_known, one_that_executes_is_the_first_from_then_on)
{
	for (pid_t tid = 10; tid <= 12; tid++)
		cr_assert_eq(known_add(&threads, tid, 10), 0);
	cr_assert_eq(known_add(&threads, 20, 20), 0);
	cr_assert_eq(known_exec(&threads, 20), 0, "it has no other");
	known_end(&threads, 10);
	known_end(&threads, 12);
	cr_assert_eq(known_add(&threads, 12, 10), 0, "a last switch");
	cr_assert_eq(known_exec(&threads, 10), 11);
	cr_assert_eq(known_exec(&threads, 10), 0);
	known_sweep(&threads);
	cr_assert_eq(known_pid(&threads, 10), 10);
	cr_assert_eq(known_pid(&threads, 11), 0);
	cr_assert_eq(known_pid(&threads, 12), 0);
	cr_assert_eq(threads.count, 2);
	known_release(&threads);
}
