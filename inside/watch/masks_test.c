/* SPDX-License-Identifier: MIT */
#include "inside/watch/masks.h"

#include "base/syscall.h"
#include "inside/detour/testing/fixture.h"
#include "inside/runtime/tasks.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t mask;
static int is_ready, stop_all, is_strict, pipes[2];

static int add_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &allow };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall_raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0);
}

static void *block(void *unused)
{
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask);
	trial_tell(&is_ready);
	trial_stay(&stop_all);
	return unused;
}

static void *be_filtered(void *unused)
{
	cr_assert(add_filter());
	trial_tell(&is_ready);
	trial_stay(&stop_all);
	return unused;
}

/* It may read and write from then on, and end. */
static void *be_strict(void *unused)
{
	char byte;

	is_strict = !prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	/* not by trial_tell(), which calls futex(2) */
	__atomic_store_n(&is_ready, 1, __ATOMIC_RELEASE);
	if (!is_strict)
		return unused;
	syscall_raw(SYS_read, pipes[0], (long)&byte, 1, 0);
	syscall_raw(SYS_exit, 0, 0, 0, 0);
	return unused;
}

static pthread_t start(void *(*run)(void *))
{
	pthread_t thread;

	is_ready = stop_all = 0;
	cr_assert_eq(pthread_create(&thread, NULL, run, NULL), 0);
	trial_await(&is_ready);
	return thread;
}

static int any_blocks(uint64_t blocked)
{
	pthread_t thread;
	int any;

	mask = blocked;
	thread = start(block);
	any = masks_any_blocks();
	trial_tell(&stop_all);
	pthread_join(thread, NULL);
	return any;
}

#define BIT(number) (UINT64_C(1) << ((number)-1))

Test(masks, each_digit_is_read_as_what_it_is)
{
	trial_take_runner_for_keeper();
	cr_assert_not(any_blocks(0));
	/* SIGTRAP's and the three behind it are one digit: all sixteen */
	for (uint64_t digit = 0; digit < 16; digit++)
		cr_assert_eq(any_blocks(digit << 4), (int)(digit & 1), "%d", (int)digit);
	cr_assert_not(any_blocks(~BIT(SIGTRAP)));
	cr_assert(any_blocks(~UINT64_C(0)));
}

Test(masks, who_looks_and_who_keeps_do_not_count)
{
	uint64_t all = ~UINT64_C(0);

	trial_take_runner_for_keeper();
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof all);
	cr_assert_not(masks_any_blocks());
}

/* The thread ended after its status was opened: reading that fails, as of an empty file. */
Test(masks, empty_status_means_thread_ended)
{
	static char text[TASKS_STATUS_BYTES];
	char path[] = "/tmp/waymark-masks-XXXXXX", name[64];
	int dir;

	cr_assert_not_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(dir, 0);
	close(openat(dir, "status", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	cr_assert_eq(tasks_read_status(dir, ".", text), -1);
	cr_assert_eq(tasks_read_status(AT_FDCWD, "/proc/thread-self", text), 0);
	snprintf(name, sizeof(name), "%s/status", path);
	unlink(name);
	rmdir(path);
	close(dir);
}

Test(masks, a_filter_more_than_ours_is_another)
{
	pthread_t thread;

	trial_take_runner_for_keeper();
	cr_assert_not(masks_any_filtered());
	if (!add_filter())
		cr_skip_test("no seccomp filters here");
	thread = start(block);
	cr_assert_not(masks_any_filtered(), "one that began with ours has the same");
	trial_tell(&stop_all);
	pthread_join(thread, NULL);
	thread = start(be_filtered);
	cr_assert(masks_any_filtered());
	trial_tell(&stop_all);
	pthread_join(thread, NULL);
}

Test(masks, the_strict_mode_is_a_filter)
{
	pthread_t thread;

	trial_take_runner_for_keeper();
	cr_assert_eq(pipe(pipes), 0);
	thread = start(be_strict);
	if (!is_strict)
		cr_skip_test("no strict mode here");
	cr_assert(masks_any_filtered());
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	pthread_join(thread, NULL);
	cr_assert_not(masks_any_filtered());
}
