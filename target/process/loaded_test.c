/* SPDX-License-Identifier: MIT */
#include "target/process/loaded.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/testing/await.h"
#include "target/process/target.h"

/* Not as root: to other users the kernel denies what an ended process no longer has. */
static void be_no_root(void)
{
	if (!geteuid())
		cr_assert(!setgid(65534) && !setuid(65534));
	prctl(PR_SET_DUMPABLE, 1);
}

Test(loaded, a_process_of_ours_that_has_ended_is_gone_and_not_denied, .timeout = 30)
{
	struct loaded_list list;
	pid_t pid;

	be_no_root();
	pid = fork();
	if (!pid)
		_exit(0);
	cr_assert(AWAIT(target_thread_state(pid, pid) == 'Z'));
	cr_assert_eq(loaded_read(&list, pid), -ESRCH);
	loaded_release(&list);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(loaded_read(&list, pid), -ESRCH);
	loaded_release(&list);
}

static void *stay(void *data)
{
	for (;;)
		pause();
	return data;
}

Test(loaded, modules_are_read_though_the_first_thread_has_ended, .timeout = 30)
{
	struct loaded_list list;
	pthread_t thread;
	pid_t pid;

	be_no_root();
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, stay, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	cr_assert(AWAIT(target_thread_state(pid, pid) == 'Z'));
	cr_assert_eq(loaded_read(&list, pid), 0);
	cr_assert_gt(list.count, 1);
	loaded_release(&list);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

Test(loaded, what_may_not_be_read_is_denied, .timeout = 30)
{
	struct loaded_list list;
	int reported[2];
	char byte;
	pid_t pid;

	be_no_root();
	cr_assert_eq(pipe(reported), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 0);
		if (write(reported[1], "", 1) == 1)
			stay(NULL);
		_exit(1);
	}
	cr_assert_eq(read(reported[0], &byte, 1), 1);
	cr_assert_eq(loaded_read(&list, pid), -EACCES);
	loaded_release(&list);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}
