/* SPDX-License-Identifier: MIT */
#include "target/process/thread_status.h"

#include "base/testing/await.h"
#include "target/process/target.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS_MS 2

static double has_run_ms(void)
{
	struct timespec ran;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return (double)ran.tv_sec * 1e3 + (double)ran.tv_nsec / 1e6;
}

/* A child that runs for RUNS_MS and waits for a signal, or that runs. */
static pid_t child(int runs)
{
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		while (runs || has_run_ms() < RUNS_MS)
			continue;
		syscall(SYS_pause);
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static void await_state(pid_t pid, char state)
{
	cr_assert(AWAIT(target_thread_state(pid, pid) == state), "%c",
		  target_thread_state(pid, pid));
}

Test(thread_status, of_one_that_sleeps_its_system_call, .timeout = 60)
{
	pid_t pid = child(0);
	char words[192], wanted[64];
	double ran_ms, waited_ms;
	const char *times;

	await_state(pid, 'S');
	thread_status_text(pid, pid, words, sizeof(words));
	snprintf(wanted, sizeof(wanted), "it sleeps in system call %d", SYS_pause);
	cr_expect_eq(strncmp(words, wanted, strlen(wanted)), 0, "%s", words);
	times = strstr(words, ", has run ");
	cr_assert(times, "%s", words);
	cr_expect_eq(sscanf(times, ", has run %lf ms and waited %lf ms for a processor", &ran_ms,
			    &waited_ms),
		     2, "%s", words);
	cr_expect_geq(ran_ms, RUNS_MS);
	end(pid);
}

Test(thread_status, of_one_that_runs_none, .timeout = 60)
{
	pid_t pid = child(1);
	char words[192];

	await_state(pid, 'R');
	thread_status_text(pid, pid, words, sizeof(words));
	cr_expect_eq(strncmp(words, "it runs, or waits for a processor", 33), 0, "%s", words);
	cr_expect(!strstr(words, "system call"), "%s", words);
	end(pid);
}

Test(thread_status, of_one_that_has_stopped, .timeout = 60)
{
	pid_t pid = child(0);
	char words[192];

	await_state(pid, 'S');
	cr_assert_eq(kill(pid, SIGSTOP), 0);
	await_state(pid, 'T');
	thread_status_text(pid, pid, words, sizeof(words));
	cr_expect_eq(strncmp(words, "it is stopped", 13), 0, "%s", words);
	end(pid);
}

Test(thread_status, of_one_that_has_ended_nothing, .timeout = 60)
{
	pid_t pid = child(0);
	char words[192] = "as it was";

	end(pid);
	thread_status_text(pid, pid, words, sizeof(words));
	cr_expect_str_eq(words, "");
}

Test(thread_status, cut_where_there_is_no_room, .timeout = 60)
{
	pid_t pid = child(0);
	char words[192];

	await_state(pid, 'S');
	for (size_t bytes = 1; bytes < sizeof(words); bytes++) {
		memset(words, 'x', sizeof(words));
		thread_status_text(pid, pid, words, bytes);
		cr_assert_lt(strnlen(words, sizeof(words)), bytes);
		cr_assert_eq(words[bytes], 'x');
	}
	end(pid);
}
