/* SPDX-License-Identifier: MIT */
/*
 * Injection into targets that check themselves (tests/targets), with a stand-in for the agent. Each
 * target is entered again and again; then it ends and reports whether anything differed from a
 * native run.
 */
#include "base/maps.h"
#include "base/testing/await.h"
#include "target/process/inject.h"
#include "target/process/testing/subject.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

static char detail[512];

static int enter(struct subject *subject)
{
	char agent[PATH_MAX];

	subject_file(agent, "libstandin-agent.so");
	return injector_agent(subject->pid, agent, subject->dir, detail, sizeof(detail));
}

/* Attach, have the agent go to sleep, attach again; then all must be as it would have been. */
static void enter_often(const char *name, const char *argument, int times)
{
	struct subject subject;

	subject_start(&subject, name, argument);
	for (int i = 0; i < times; i++) {
		int err = enter(&subject);

		cr_assert_eq(err, 0, "%s %s, time %d: %s: %s", name, argument, i,
			     wm_error_text(err), detail);
		subject_agent_leave(&subject);
	}
	subject_end(&subject);
}

#define WAITS_TEST(name)                                                                           \
	Test(inject, a_thread_in_##name##_does_not_notice, .timeout = 60)                          \
	{                                                                                          \
		enter_often("waits", #name, 30);                                                   \
	}

WAITS_TEST(nanosleep)
WAITS_TEST(clock_nanosleep)
WAITS_TEST(poll)
WAITS_TEST(ppoll)
WAITS_TEST(select)
WAITS_TEST(epoll)
WAITS_TEST(futex)
WAITS_TEST(cond)
WAITS_TEST(sigtimedwait)
WAITS_TEST(recv)
WAITS_TEST(pause)
WAITS_TEST(eintr)
WAITS_TEST(pipe)
WAITS_TEST(vfork)

Test(inject, a_busy_loop_keeps_every_register, .timeout = 60)
{
	enter_often("busy", "0", 60);
}

Test(inject, a_storm_of_malloc_keeps_its_heap, .timeout = 120)
{
	enter_often("storms", "malloc", 30);
}

Test(inject, a_storm_of_malloc_without_threads_keeps_its_heap, .timeout = 60)
{
	enter_often("storms", "malloc1", 60);
}

Test(inject, a_storm_of_libraries_without_threads_waits_for_no_lock, .timeout = 60)
{
	/* once it has had a second thread, it takes all locks */
	for (int i = 0; i < 10; i++)
		enter_often("storms", "libraries1", 1);
}

Test(inject, a_storm_of_threads_loses_none, .timeout = 60)
{
	enter_often("storms", "threads", 60);
}

Test(inject, a_storm_of_signals_loses_none, .timeout = 60)
{
	enter_often("storms", "signals", 100);
}

Test(inject, forks_and_spawned_children_are_well, .timeout = 60)
{
	enter_often("storms", "forks", 60);
}

Test(inject, two_hundred_threads_sleep_their_time, .timeout = 60)
{
	enter_often("storms", "sleepers", 30);
}

Test(inject, setuid_reaches_our_thread_too, .timeout = 60)
{
	enter_often("storms", "setuid", 60);
}

Test(inject, threads_that_handle_faults_handle_each, .timeout = 60)
{
	enter_often("storms", "faults", 60);
}

Test(inject, blocked_signals_stay_blocked_and_pending, .timeout = 60)
{
	enter_often("storms", "blocked", 60);
}

Test(inject, a_process_whose_leader_has_ended_can_be_entered, .timeout = 60)
{
	enter_often("storms", "leaderless", 30);
}

Test(inject, a_process_whose_threads_relay_each_other_can_be_entered, .timeout = 60)
{
	enter_often("storms", "relay", 30);
}

Test(inject, a_process_that_executes_or_ends_is_left_or_entered, .timeout = 120)
{
	for (int i = 0; i < 60; i++) {
		struct subject subject;
		int err;

		subject_start(&subject, "storms", i % 2 ? "execs" : "exits");
		err = enter(&subject);
		/*
		 * how it is refused depends on how far its end has come; that it ends as it would
		 * is the test
		 */
		/* EPERM: between two programs it has no owner */
		cr_assert(!err || err == -WM_E_GONE || err == -ESRCH || err == -WM_E_INJECT ||
				  (err == -EPERM && geteuid()) || err == -EAGAIN ||
				  err == -EINVAL || err == -ETIMEDOUT,
			  "%s: %s", wm_error_text(err), detail);
		subject_end(&subject);
	}
}

/* At 500 moments from its execution on, while its loader works and its constructors run. */
Test(inject, a_process_that_is_being_started_is_entered_when_it_is_up, .timeout = 120)
{
	for (int i = 0; i < 500; i++) {
		struct subject subject;
		char path[PATH_MAX];
		int err;

		subject_file(path, "busy");
		subject_begin(&subject, (char *[]){ path, "0", NULL });
		/* the moment is the subject */
		nanosleep(&(struct timespec){ .tv_nsec = i * 5000 }, NULL);
		err = enter(&subject);
		cr_assert_eq(err, 0, "moment %d: %s: %s", i, wm_error_text(err), detail);
		subject_end(&subject);
	}
}

/* The loader's own work is done by then. */
Test(inject, a_process_whose_constructor_takes_long_is_entered, .timeout = 60)
{
	struct subject subject;
	char path[PATH_MAX], busy[PATH_MAX];

	subject_file(path, "libconstructs.so");
	setenv("LD_PRELOAD", path, 1);
	subject_file(busy, "busy");
	subject_begin(&subject, (char *[]){ busy, "0", NULL });
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	subject_end(&subject);
}

/* The child of vfork(2), which is another thread's than the leader's. */
Test(inject, a_process_in_its_parents_memory_is_refused, .timeout = 60)
{
	struct subject subject, child;
	char path[64];
	FILE *file;

	subject_start(&subject, "storms", "vforked");
	child = subject;
	snprintf(path, sizeof(path), "cat /proc/%d/task/*/children", subject.pid);
	file = popen(path, "r");
	cr_assert_eq(fscanf(file, "%d", &child.pid), 1);
	pclose(file);
	cr_assert_eq(enter(&child), -WM_E_INJECT, "%s", detail);
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	subject_end(&subject);
}

/* Whenever it dies, the thread that it had borrowed continues unchanged. */
Test(inject, a_tool_killed_at_any_moment_does_no_harm, .timeout = 120)
{
	static const char *const arguments[] = { "0", "nanosleep", "poll", "malloc1" };
	static const char *const names[] = { "busy", "waits", "waits", "storms" };

	for (int which = 0; which < 4; which++) {
		struct subject subject;

		subject_start(&subject, names[which], arguments[which]);
		for (int i = 0; i < 80; i++) {
			pid_t tool = fork();

			if (!tool) {
				signal(SIGTERM, SIG_DFL);
				enter(&subject);
				_exit(0);
			}
			/* it takes 2 ms or so: die at steps of 30 us through all of it */
			nanosleep(&(struct timespec){ .tv_nsec = 100000 + i * 30000 }, NULL);
			kill(tool, SIGKILL);
			cr_assert_eq(waitpid(tool, NULL, 0), tool);
			cr_assert(subject_lives(&subject), "it died at step %d", i);
			subject_agent_leave(&subject);
		}
		cr_assert_eq(enter(&subject), 0, "%s", detail);
		subject_end(&subject);
	}
}

/* A checksum of the code of all files that are mapped there, with the rest of each last page. */
static uint64_t code_sum(const struct subject *subject)
{
	uint64_t sum = 0;
	struct maps maps;
	char path[64];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", subject->pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(maps_read(&maps, subject->pid), 0);
	for (size_t i = 0; i < maps.count; i++) {
		const struct map *map = &maps.list[i];
		unsigned char page[4096];

		for (uint64_t at = map->start; map->inode && map->prot & PROT_EXEC && at < map->end;
		     at += sizeof(page)) {
			cr_assert_eq(pread(mem, page, sizeof(page), (off_t)at), sizeof(page));
			for (size_t byte = 0; byte < sizeof(page); byte++)
				sum = sum * 31 + page[byte];
		}
	}
	maps_release(&maps);
	close(mem);
	return sum;
}

#define TOOLS 8

/*
 * Each borrows a thread of its own; none takes the place in the text that another is about to take.
 */
Test(inject, tools_that_enter_at_once_are_out_of_each_others_way, .timeout = 120)
{
	struct subject subject, others[TOOLS];
	uint64_t sum = 0;

	subject_start(&subject, "storms", "sleepers");
	for (int i = 0; i < TOOLS; i++) {
		others[i] = subject;
		snprintf(others[i].dir, sizeof(others[i].dir), "%.50s/%d", subject.dir, i);
		cr_assert_eq(mkdir(others[i].dir, 0700), 0);
	}
	for (int round = 0; round < 20; round++) {
		pid_t tools[TOOLS];

		for (int i = 0; i < TOOLS; i++) {
			tools[i] = fork();
			if (!tools[i]) {
				int err = enter(&others[i]);

				if (err)
					fprintf(stderr, "tool %d: %s: %s\n", i, wm_error_text(err),
						detail);
				_exit(!!err);
			}
		}
		for (int i = 0; i < TOOLS; i++) {
			int status;

			cr_assert_eq(waitpid(tools[i], &status, 0), tools[i]);
			cr_assert_eq(status, 0, "round %d", round);
			subject_agent_leave(&others[i]);
		}
		/* the first round binds what was not called before */
		if (!round)
			sum = code_sum(&subject);
		cr_assert_eq(code_sum(&subject), sum, "round %d left something", round);
	}
	for (int i = 0; i < TOOLS; i++)
		rmdir(others[i].dir);
	subject_end(&subject);
}

/* Another user's can't be. No thread of the program is stopped for long, however many it has. */
Test(inject, a_tool_that_is_stopped_with_the_lock_is_reported, .timeout = 60)
{
	struct subject subject;
	char path[64];
	int turns;

	subject_start(&subject, "storms", "sleepers");
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", subject.pid, subject.pid);
	turns = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(turns, LOCK_EX), 0);
	cr_assert_eq(enter(&subject), -WM_E_INJECT, "%s", detail);
	cr_assert(strstr(detail, "another tool is entering process"), "%s", detail);
	close(turns);
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	subject_end(&subject);
}

/* What stays after attaching twenty times, except what the C library keeps for its next thread. */
Test(inject, nothing_piles_up, .timeout = 60)
{
	struct subject subject;
	int maps = 0;

	subject_start(&subject, "waits", "poll");
	for (int i = 0; i < 25; i++) {
		cr_assert_eq(enter(&subject), 0, "%s", detail);
		subject_agent_leave(&subject);
		if (i == 4)
			maps = subject_map_count(&subject);
	}
	/* the last agent's thread gives its stack back once its socket is gone */
	cr_assert(AWAIT(subject_map_count(&subject) <= maps));
	subject_end(&subject);
}

Test(inject, an_agent_that_listens_is_left_alone, .timeout = 30)
{
	struct subject subject;
	int maps;

	subject_start(&subject, "waits", "poll");
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	maps = subject_map_count(&subject);
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	cr_assert_eq(subject_map_count(&subject), maps);
	subject_end(&subject);
}

Test(inject, python_goes_on, .timeout = 60)
{
	struct subject subject;

	if (access("/usr/bin/python3", X_OK))
		cr_skip_test("there is no python3 here");
	subject_start_command(&subject,
			      (char *[]){ "/usr/bin/python3", "-c",
					  "import os, sys, threading, select\n"
					  "def work():\n"
					  "    while not over: assert sum(range(1000)) == 499500\n"
					  "over = False\n"
					  "t = threading.Thread(target=work); t.start()\n"
					  "os.write(1, b'r')\n"
					  "while not select.select([0], [], [], 0.001)[0]:\n"
					  "    d = {str(i): i for i in range(500)}\n"
					  "    assert sum(d.values()) == 124750\n"
					  "over = True; t.join()\n",
					  NULL });
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(enter(&subject), 0, "%s", detail);
		subject_agent_leave(&subject);
	}
	subject_end(&subject);
}

Test(inject, a_user_may_enter_what_is_theirs, .timeout = 30)
{
	struct subject subject;

	if (geteuid())
		cr_skip_test("it takes root to become another user");
	if (!subject_become(65534))
		cr_skip_test("the build folder can't be read by other users");
	subject_start(&subject, "waits", "poll");
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	subject_end(&subject);
}

static void refused(const char *name, const char *argument, int want)
{
	struct subject subject;
	int err;

	subject_start(&subject, name, argument);
	err = enter(&subject);
	cr_assert_eq(err, want, "%s, not %s: %s", wm_error_text(err), wm_error_text(want), detail);
	cr_assert(*detail, "no words");
	subject_end(&subject);
}

Test(inject, a_filter_on_system_calls_is_refused, .timeout = 30)
{
	refused("storms", "seccomp", -WM_E_SECCOMP);
}

Test(inject, a_static_program_is_refused, .timeout = 30)
{
	refused("static-busy", "0", -WM_E_STATIC_PROGRAM);
}

Test(inject, a_stopped_process_is_refused_and_stays_stopped, .timeout = 30)
{
	struct subject subject;
	int status;

	subject_start(&subject, "busy", "2");
	kill(subject.pid, SIGSTOP);
	cr_assert_eq(waitpid(subject.pid, &status, WUNTRACED), subject.pid);
	cr_assert_eq(enter(&subject), -WM_E_STOPPED, "%s", detail);
	/* one that was let go of while stopped passes through other states */
	cr_assert(AWAIT(subject_state(&subject) == 'T'));
	kill(subject.pid, SIGCONT);
	cr_assert_eq(enter(&subject), 0, "%s", detail);
	subject_end(&subject);
}

Test(inject, a_traced_process_is_refused_with_its_tracers_name, .timeout = 30)
{
	struct subject subject;
	char number[32];

	subject_start(&subject, "waits", "poll");
	cr_assert_eq(ptrace(PTRACE_SEIZE, subject.pid, NULL, NULL), 0);
	cr_assert_eq(enter(&subject), -WM_E_TRACED, "%s", detail);
	snprintf(number, sizeof(number), "process %d", getpid());
	cr_assert(strstr(detail, number), "%s", detail);
	ptrace(PTRACE_INTERRUPT, subject.pid, NULL, NULL);
	waitpid(subject.pid, NULL, __WALL);
	ptrace(PTRACE_DETACH, subject.pid, NULL, NULL);
	subject_end(&subject);
}

Test(inject, a_zombie_a_vanished_process_and_ourselves_are_refused, .timeout = 30)
{
	struct subject subject = { .dir = "/tmp" };

	subject.pid = fork();
	if (!subject.pid)
		_exit(0);
	waitid(P_PID, (id_t)subject.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	cr_assert_eq(enter(&subject), -WM_E_GONE, "%s", detail);
	waitpid(subject.pid, NULL, 0);
	cr_assert_eq(enter(&subject), -ESRCH, "%s", detail);
	subject.pid = getpid();
	cr_assert_eq(enter(&subject), -EINVAL, "%s", detail);
}

Test(inject, a_missing_agent_and_one_that_is_none_are_refused, .timeout = 30)
{
	struct subject subject;
	char path[PATH_MAX];

	subject_start(&subject, "waits", "poll");
	cr_assert_eq(injector_agent(subject.pid, "/nowhere/agent.so", subject.dir, detail,
				    sizeof(detail)),
		     -WM_E_NO_AGENT);
	subject_file(path, "busy");
	cr_assert_eq(injector_agent(subject.pid, path, subject.dir, detail, sizeof(detail)),
		     -WM_E_NO_AGENT);
	subject_end(&subject);
}

Test(inject, another_users_process_is_refused_and_told_whose_it_is, .timeout = 30)
{
	struct subject subject;

	if (geteuid())
		cr_skip_test("it takes root to become another user");
	subject_start(&subject, "waits", "poll");
	cr_assert_eq(seteuid(65534), 0);
	prctl(PR_SET_DUMPABLE, 1);
	cr_assert_eq(enter(&subject), -EPERM, "%s", detail);
	cr_assert(strstr(detail, "user 0"), "%s", detail);
	cr_assert_eq(seteuid(0), 0);
	subject_end(&subject);
}
