/* SPDX-License-Identifier: MIT */
#include "target/process/target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int is_among(pid_t wanted, const pid_t *all, int count)
{
	while (count > 0 && all[count - 1] != wanted)
		count--;
	return count > 0;
}

Test(target, processes_include_the_caller_and_its_parent)
{
	pid_t *pids;
	int count = target_processes(&pids);

	cr_assert(is_among(getpid(), pids, count));
	cr_assert(is_among(getppid(), pids, count));
	free(pids);
}

Test(target, descriptor_is_found_by_its_whole_link)
{
	int fd = memfd_create("waymark-found", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_expect_eq(target_descriptor_find(getpid(), "/memfd:waymark-found (deleted)"), fd);
	cr_expect_eq(target_descriptor_find(getpid(), "/memfd:waymark-found"), -ENOENT);
	cr_expect_not(
		target_descriptor_is(getpid(), STDIN_FILENO, "/memfd:waymark-found (deleted)"));
	close(fd);
	cr_expect_eq(target_descriptor_find(getpid(), "/memfd:waymark-found (deleted)"), -ENOENT);
}

Test(target, descriptors_of_no_process_return_esrch)
{
	int *numbers;

	cr_expect_eq(target_descriptors(INT_MAX, &numbers), -ESRCH);
	cr_expect_eq(target_descriptor_find(INT_MAX, "socket:[1]"), -ESRCH);
}
