/* SPDX-License-Identifier: MIT */
/* A channel's memory: its sizes, and who holds it. */
#include "branch/testing/soft_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(soft_channel, .init = blocking, .fini = end, .timeout = 60);

Test(soft_channel, sizes_that_can_not_be)
{
	static const struct soft_sizes sizes[] = {
		{ 0, 4, 4096, 4096, ENGINE_BLOCK, 1 },
		{ 4, 0, 4096, 4096, ENGINE_BLOCK, 1 },
		{ 4, ENGINE_SEGMENTS_MAX + 1, 4096, 4096, ENGINE_BLOCK, 1 },
		{ 4, 4, 4095, 4096, ENGINE_BLOCK, 1 },
		{ 4, 4, 4096, 0, ENGINE_BLOCK, 1 },
		{ UINT32_MAX, 64, UINT64_C(1) << 33, 4096, ENGINE_BLOCK, 1 },
		{ 4, 4, 4096, 4096, ENGINE_BLOCK, SOFT_PROCESSES_MAX + 1 },
	};
	struct soft_channel other;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_expect_eq(soft_channel_open(&other, &sizes[i]), -EINVAL, "%zu", i);
		soft_channel_close(&other);
	}
}

Test(soft_channel, sizes_for_all_that_may_be_asked)
{
	for (uint64_t bytes = 65536; bytes <= UINT64_C(64) << 30; bytes *= 4) {
		struct soft_sizes sizes = soft_sizes_for(bytes, 1);
		struct soft_channel other;

		cr_expect_eq(soft_channel_open(&other, &sizes), 0, "%lu", (unsigned long)bytes);
		cr_expect_geq(sizes.segments * sizes.segment_bytes, bytes / 2);
		soft_channel_close(&other);
	}
}

Test(soft_channel, pages_grow_up_to_the_processes)
{
	struct soft_sizes sizes = soft_sizes_for(0, SOFT_PROCESSES_MAX);
	struct soft_channel other;

	cr_assert_eq(soft_channel_open(&other, &sizes), 0);
	cr_expect_lt(other.pages, SOFT_PROCESSES_MAX);
	soft_channel_ask(&other, ENGINE_ASKED_STOP);
	while (other.pages < SOFT_PROCESSES_MAX) {
		uint32_t last = other.pages;

		cr_expect_eq(soft_channel_page(&other, last)->magic, 0);
		soft_channel_grow(&other);
		cr_assert_gt(other.pages, last);
		cr_expect_eq(soft_channel_head(&other)->pages, other.pages);
		cr_expect_eq(soft_channel_page(&other, last)->magic, ENGINE_MAGIC);
		cr_expect_eq(soft_channel_page(&other, other.pages - 1)->process, other.pages - 1);
	}
	soft_channel_grow(&other);
	cr_expect_eq(other.pages, SOFT_PROCESSES_MAX);
	/* a program that the first process executes gets the page as it was */
	soft_channel_renew(&other, 0);
	cr_expect_eq(soft_channel_head(&other)->pages, SOFT_PROCESSES_MAX);
	cr_expect_eq(soft_channel_head(&other)->asked, ENGINE_ASKED_STOP);
	soft_channel_close(&other);
}

Test(soft_channel, places_leave_round_addresses_free)
{
	for (unsigned int i = 0; i < 1000; i++) {
		uint64_t at = soft_channel_place(0), end = at + (UINT64_C(1) << 40);

		cr_assert_geq(at % (UINT64_C(1) << 41), UINT64_C(1) << 24, "%lx",
			      (unsigned long)at);
		cr_assert_eq(at >> 41, end >> 41, "%lx", (unsigned long)at);
	}
}

Test(soft_channel, the_memory_can_not_be_made_smaller)
{
	cr_expect_eq(ftruncate(channel.fd, 0), -1);
	cr_expect_eq(errno, EPERM);
}

Test(soft_channel, who_holds_it_is_seen_to_die)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		soft_channel_hold(&channel);
		_exit((pid_t)head->tool == getpid() ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect(head->tool & FUTEX_OWNER_DIED);
	pid = fork();
	if (!pid) {
		soft_channel_hold(&channel);
		soft_channel_let_go(&channel);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(head->tool, 0);
}
