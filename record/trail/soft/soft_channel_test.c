/* SPDX-License-Identifier: MIT */
/* A channel's memory: its sizes, and who holds it. */
#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_image.h"
#include "record/trail/testing/soft_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(soft_channel, .init = blocking, .fini = end, .timeout = 60);

Test(soft_channel, sizes_that_can_not_be)
{
	static const struct soft_sizes sizes[] = {
		{ 0, 4, 4096, 4096, ENGINE_BLOCK, 0 },
		{ 4, 0, 4096, 4096, ENGINE_BLOCK, 0 },
		{ 4, ENGINE_SEGMENTS_MAX + 1, 4096, 4096, ENGINE_BLOCK, 0 },
		{ 4, 4, 4095, 4096, ENGINE_BLOCK, 0 },
		{ 4, 4, 4096, 0, ENGINE_BLOCK, 0 },
		{ UINT32_MAX, 64, UINT64_C(1) << 33, 4096, ENGINE_BLOCK, 0 },
	};
	struct soft_channel other;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_expect_eq(soft_channel_open(&other, &sizes[i]), -EINVAL, "%zu", i);
		soft_channel_close(&other);
	}
}

/* Also one that its process made, and that was open to all until then. */
Test(soft_channel, memfd_of_a_channel_opens_for_no_one_else)
{
	const struct soft_sizes sizes = soft_sizes_for(0, 0);
	struct soft_channel other;
	struct stat about;

	cr_assert_eq(soft_channel_open(&other, &sizes), 0);
	cr_assert_eq(fstat(other.fd, &about), 0);
	cr_expect_eq(about.st_mode & 0777, 0);
	soft_channel_close(&other);
	cr_assert_eq(soft_channel_open_at(&other, &sizes, memfd_create("", MFD_ALLOW_SEALING)), 0);
	cr_assert_eq(fstat(other.fd, &about), 0);
	cr_expect_eq(about.st_mode & 0777, 0);
	soft_channel_close(&other);
}

Test(soft_channel, sizes_for_all_that_may_be_asked)
{
	for (uint64_t bytes = 65536; bytes <= UINT64_C(64) << 30; bytes *= 4) {
		struct soft_sizes sizes = soft_sizes_for(bytes, 0);
		struct soft_channel other;

		cr_expect_eq(soft_channel_open(&other, &sizes), 0, "%lu", (unsigned long)bytes);
		cr_expect_geq(sizes.segments * sizes.segment_bytes, bytes / 2);
		soft_channel_close(&other);
	}
}

/* As many as may be recorded at one time have addresses in the recorder. */
Test(soft_channel, sizes_of_all_processes_have_addresses)
{
	for (uint64_t bytes = 0; bytes <= UINT64_C(1) << 30; bytes = bytes ? 4 * bytes : 65536) {
		struct soft_sizes sizes = soft_sizes_for(bytes, 1);
		struct soft_channel other;

		cr_assert_eq(soft_channel_open(&other, &sizes), 0);
		cr_expect_lt(other.bytes * SOFT_PROCESSES_MAX, UINT64_C(120) << 40, "%lu",
			     (unsigned long)bytes);
		soft_channel_close(&other);
	}
}

Test(soft_channel, places_leave_round_addresses_free)
{
	int is_far;

	for (unsigned int i = 0; i < 1000; i++) {
		uint64_t at = soft_image_place(0, &is_far), end = at + (UINT64_C(1) << 40);

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

Test(soft_channel, the_memory_can_not_be_opened_by_others)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), channel.fd);
	if (!getuid() && setresuid(65534, 65534, 65534))
		cr_skip_test("another user can't be had");
	prctl(PR_SET_DUMPABLE, 1); /* else nothing of it can be opened */
	cr_expect_eq(open(path, O_RDWR | O_CLOEXEC), -1);
}

/* ---- what all processes have ---- */

Test(soft_channel, control_held_by_a_process_that_dies_says_so)
{
	struct soft_control control;
	pid_t pid;
	int status;

	cr_assert_eq(soft_control_open(&control), 0);
	pid = fork();
	if (!pid) {
		soft_control_hold(&control);
		_exit((pid_t)control.page->tool == getpid() ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect(control.page->tool & FUTEX_OWNER_DIED);
	pid = fork();
	if (!pid) {
		soft_control_hold(&control);
		soft_control_let_go(&control);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(control.page->tool, 0);
	soft_control_close(&control);
}

Test(soft_channel, control_can_not_be_mapped_to_write)
{
	struct soft_control control;
	char *page;

	cr_assert_eq(soft_control_open(&control), 0);
	soft_control_ask(&control, ENGINE_ASKED_STOP);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, control.fd, 0);
	cr_expect_eq(page, MAP_FAILED);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, control.fd, 0);
	cr_assert_neq(page, MAP_FAILED);
	cr_expect_eq(((struct engine_control *)(void *)page)->asked, ENGINE_ASKED_STOP);
	cr_expect_eq(mprotect(page, 4096, PROT_READ | PROT_WRITE), -1);
	cr_expect_eq(pwrite(control.fd, "", 1, 0), -1);
	munmap(page, 4096);
	soft_control_close(&control);
}
