/* SPDX-License-Identifier: MIT */
/*
 * The wait lasts while hits may be in flight, and no longer. No test compares a time with a bound.
 */
#include "base/testing/await.h"
#include "record/watch/pending_hits.h"
#include "target/process/ticks.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER UINT64_MAX
#define STARVED_NS UINT64_C(300000000)
#define HOG_S 3

struct answers {
	uint64_t began_ns, told_after_ns;
	int was_told;
};

static int is_told(void *data)
{
	struct answers *answers = data;

	answers->was_told = ticks_monotonic_ns() - answers->began_ns >= answers->told_after_ns;
	return answers->was_told;
}

static void spins(void)
{
	for (;;)
		;
}

static void sleeps(void)
{
	for (;;)
		pause();
}

static void ends(void)
{
	_exit(0);
}

/* Start a process that runs beside the test, and dies with it. */
static pid_t start(void (*run)(void), int cpu, int policy)
{
	struct sched_param priority = { .sched_priority = policy == SCHED_FIFO };
	cpu_set_t one;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(HOG_S);
	CPU_ZERO(&one);
	CPU_SET((unsigned int)cpu, &one);
	if ((cpu >= 0 && sched_setaffinity(0, sizeof(one), &one)) ||
	    sched_setscheduler(0, policy, &priority))
		_exit(77);
	run();
	_exit(1);
}

static void finish(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whether the wait lasted until all hits were reported. */
static int wait_for(pid_t pid, uint64_t told_after_ns)
{
	struct process process = { .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	struct answers answers = { ticks_monotonic_ns(), told_after_ns, 0 };

	pending_hits_wait(&process, is_told, &answers);
	if (process.pidfd >= 0)
		close(process.pidfd);
	return answers.was_told;
}

Test(watch_underway, wait_ends_when_all_is_reported, .timeout = 20)
{
	pid_t pid = start(sleeps, -1, SCHED_OTHER);

	cr_assert_eq(wait_for(pid, 0), 1);
	finish(pid);
}

Test(watch_underway, wait_ends_for_sleeping_thread, .timeout = 20)
{
	pid_t pid = start(sleeps, -1, SCHED_OTHER);

	cr_assert_eq(wait_for(pid, NEVER), 0);
	finish(pid);
}

Test(watch_underway, wait_ends_for_thread_that_ran_since, .timeout = 20)
{
	pid_t pid = start(spins, -1, SCHED_OTHER);

	cr_assert_eq(wait_for(pid, NEVER), 0);
	finish(pid);
}

Test(watch_underway, wait_ends_for_ended_process, .timeout = 20)
{
	pid_t pid = start(ends, -1, SCHED_OTHER);
	siginfo_t info;

	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_assert_eq(wait_for(pid, NEVER), 0);
	finish(pid);
}

/* Find two CPUs that the test may use; bind the test to the first. */
static int two_cpus(int cpus[2])
{
	cpu_set_t all, one;
	int count = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
		if (CPU_ISSET((unsigned int)i, &all))
			cpus[count++] = i;
	CPU_ZERO(&one);
	CPU_SET((unsigned int)cpus[0], &one);
	return count == 2 && !sched_setaffinity(0, sizeof(one), &one);
}

Test(watch_underway, wait_lasts_for_starved_thread, .timeout = 20)
{
	pid_t pid, hog;
	int cpus[2], status;

	if (!two_cpus(cpus))
		cr_skip_test("needs two CPUs");
	pid = start(spins, cpus[1], SCHED_OTHER);
	hog = start(spins, cpus[1], SCHED_FIFO);
	cr_assert(AWAIT(sched_getscheduler(hog) == SCHED_FIFO ||
			waitpid(hog, &status, WNOHANG) == hog));
	if (sched_getscheduler(hog) != SCHED_FIFO) {
		finish(pid);
		cr_skip_test("needs real-time priority, as root has");
	}
	cr_assert_eq(wait_for(pid, STARVED_NS), 1, "the wait gave up");
	finish(hog);
	finish(pid);
}
