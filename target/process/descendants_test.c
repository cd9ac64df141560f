/* SPDX-License-Identifier: MIT */
#include "target/process/descendants.h"

#include "base/testing/await.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child of this thread that has a child; both die with the test. */
static void *fork_two(void *data)
{
	pid_t *pids = data, pid;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	pids[0] = fork();
	if (!pids[0]) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
		if (write(ends[1], &pid, sizeof(pid)) == sizeof(pid))
			pause();
		_exit(0);
	}
	cr_assert_eq(read(ends[0], &pids[1], sizeof(pid)), sizeof(pid));
	pause();
	return NULL;
}

Test(descendants, glance_finds_children_of_all_threads, .timeout = 60)
{
	pid_t self = getpid(), made[2] = { 0 }, *read = NULL, *glanced = NULL;
	volatile pid_t *last = &made[1];
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, fork_two, made), 0);
	cr_assert(AWAIT(*last));
	cr_expect_eq(descendants_read(&self, 1, &read), 2);
	cr_assert_eq(descendants_glance(&self, 1, &glanced), 2);
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(read[i], made[i]);
		cr_expect_eq(glanced[i], made[i]);
	}
	free(read);
	free(glanced);
	cr_expect_eq(descendants_glance(made, 2, &glanced), 0, "those given are no descendants");
	free(glanced);
	kill(made[0], SIGKILL);
	kill(made[1], SIGKILL);
}
