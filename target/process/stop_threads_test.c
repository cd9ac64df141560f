/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "target/process/stop_threads.h"
#include "target/process/target.h"
#include "target/process/testing/subject.h"
#include "target/process/tracee.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

/* Every thread but `keep` is stopped. */
static void all_stopped(pid_t pid, pid_t keep)
{
	pid_t *tids;
	int count = target_threads(pid, &tids);

	cr_assert(keep || target_threads_are(pid, tids, count), "threads start and end");
	for (int i = 0; i < count; i++) {
		char state = target_thread_state(pid, tids[i]);

		if (tids[i] != keep && state && state != 'Z' && state != 'X')
			cr_assert_eq(state, 't', "thread %d is '%c'", tids[i], state);
	}
	free(tids);
}

static void stop_often(const char *name, const char *argument, int times)
{
	struct subject subject;

	subject_start(&subject, name, argument);
	for (int i = 0; i < times; i++) {
		struct stop *stop;
		int err = stop_threads(subject.pid, 0, &stop);

		cr_assert_eq(err, 0, "%s %s, time %d: %s", name, argument, i, wm_error_text(err));
		all_stopped(subject.pid, 0);
		stop_resume(stop);
	}
	subject_end(&subject);
}

Test(stop, two_hundred_sleepers_stop_and_sleep_on, .timeout = 60)
{
	stop_often("storms", "sleepers", 30);
}

Test(stop, threads_that_start_meanwhile_are_stopped_too, .timeout = 60)
{
	stop_often("storms", "threads", 100);
}

/* The kernel's listing of them lacks those that are behind one that ends. */
Test(stop, threads_that_each_start_the_next_are_stopped, .timeout = 60)
{
	stop_often("storms", "relay", 300);
}

Test(stop, signals_are_kept, .timeout = 60)
{
	stop_often("storms", "signals", 300);
}

Test(stop, a_busy_loop_keeps_its_registers, .timeout = 60)
{
	stop_often("busy", "4", 100);
}

Test(stop, waits_go_on, .timeout = 120)
{
	static const char *const waits[] = { "nanosleep", "poll",  "epoll", "futex", "sigtimedwait",
					     "recv",	  "pause", "eintr", "pipe" };

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		stop_often("waits", waits[i], 50);
}

Test(stop, the_one_to_be_kept_runs_on, .timeout = 30)
{
	struct subject subject;
	struct stop *stop;

	subject_start(&subject, "busy", "2");
	cr_assert_eq(stop_threads(subject.pid, subject.pid, &stop), 0);
	all_stopped(subject.pid, subject.pid);
	cr_assert_neq(subject_state(&subject), 't');
	stop_resume(stop);
	subject_end(&subject);
}

Test(stop, a_process_that_is_stopped_or_gone_is_refused, .timeout = 30)
{
	struct subject subject;
	struct stop *stop;

	subject_start(&subject, "busy", "2");
	kill(subject.pid, SIGSTOP);
	cr_assert_eq(waitpid(subject.pid, NULL, WUNTRACED), subject.pid);
	cr_assert_eq(stop_threads(subject.pid, 0, &stop), -WM_E_STOPPED);
	cr_assert_null(stop);
	/* one that was let go of while stopped passes through other states */
	cr_assert(AWAIT(subject_state(&subject) == 'T'));
	kill(subject.pid, SIGCONT);
	subject_end(&subject);
	cr_assert_eq(stop_threads(subject.pid, 0, &stop), -ESRCH);
}

/* It is the caller's child, and ends about when it is stopped; who started it waits for it. */
Test(stop, process_that_ends_meanwhile_keeps_its_status_for_its_parent, .timeout = 60)
{
	for (int i = 0; i < 1000; i++) {
		struct stop *stop;
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			usleep((useconds_t)(i % 50) * 10); /* it ends at each moment of a stop */
			_exit(7);
		}
		usleep(150); /* the moment is the subject */
		stop_threads(pid, 0, &stop);
		stop_resume(stop);
		cr_assert_eq(waitpid(pid, &status, 0), pid, "time %d: its end was taken", i);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
}

#define RESTING 4 /* threads of start_waiting(), beside the first */

struct killer {
	pid_t pid;
	unsigned int after_us;
};

static void *kill_soon(void *data)
{
	const struct killer *killer = data;

	usleep(killer->after_us); /* the moment is the subject */
	kill(killer->pid, SIGKILL);
	return NULL;
}

static int stopped_threads(pid_t pid)
{
	pid_t *tids;
	int count = target_threads(pid, &tids), stopped = 0;

	for (int i = 0; i < count; i++)
		stopped += target_thread_state(pid, tids[i]) == 't';
	free(tids);
	return stopped;
}

/* Returns whether all but the first thread had stopped before. */
static void *kill_when_stopped(void *data)
{
	const struct killer *killer = data;
	int have_stopped = AWAIT(stopped_threads(killer->pid) == RESTING);

	kill(killer->pid, SIGKILL);
	return (void *)(long)have_stopped;
}

static void *rest(void *data)
{
	pause();
	return data;
}

/*
 * A process whose first thread can be killed, but not stopped: it waits for what it vforked.
 * Returns its pid.
 */
static pid_t start_waiting(void)
{
	char byte = 0;
	int out[2];
	pid_t pid;

	cr_assert_eq(pipe(out), 0);
	pid = fork();
	if (!pid) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < RESTING; i++)
			pthread_create(&thread, NULL, rest, NULL);
		if (!vfork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(write(out[1], &byte, 1) == 1 ? pause() : 1);
		}
		_exit(0);
	}
	cr_assert_eq(read(out[0], &byte, 1), 1);
	close(out[0]);
	close(out[1]);
	return pid;
}

/*
 * Those that had come to a stop before it was killed hold the first thread's end back, until theirs
 * were fetched.
 */
Test(stop, a_process_that_is_killed_when_some_had_stopped_is_let_die, .timeout = 60)
{
	struct killer killer = { .pid = start_waiting() };
	struct stop *stop;
	pthread_t thread;
	void *had_stopped;
	int err, status;

	cr_assert_eq(pthread_create(&thread, NULL, kill_when_stopped, &killer), 0);
	err = stop_threads(killer.pid, 0, &stop);
	cr_assert(!err || err == -ESRCH, "%s", wm_error_text(err));
	pthread_join(thread, &had_stopped);
	cr_assert(had_stopped);
	stop_resume(stop);
	cr_assert_eq(waitpid(killer.pid, &status, 0), killer.pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * The kernel reports the first thread's end when those of the others were fetched: so a wait for it
 * alone would block.
 */
Test(stop, a_process_that_is_killed_meanwhile_is_let_die, .timeout = 120)
{
	for (unsigned int i = 0; i < 40; i++) {
		struct subject subject;
		struct killer killer = { .after_us = i * 20 };
		struct stop *stop;
		pthread_t thread;
		int err, status;

		subject_start(&subject, "busy", "8");
		killer.pid = subject.pid;
		cr_assert_eq(pthread_create(&thread, NULL, kill_soon, &killer), 0);
		err = stop_threads(subject.pid, 0, &stop);
		cr_assert(!err || err == -ESRCH, "time %u: %s", i, wm_error_text(err));
		pthread_join(thread, NULL);
		stop_resume(stop);
		cr_assert_eq(waitpid(subject.pid, &status, 0), subject.pid);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		close(subject.end);
		close(subject.out);
		rmdir(subject.dir);
	}
}

Test(stop, a_tool_that_is_killed_lets_all_run_on, .timeout = 30)
{
	struct subject subject;

	subject_start(&subject, "storms", "sleepers");
	for (int i = 0; i < 20; i++) {
		pid_t tool = fork();

		if (!tool) {
			struct stop *stop;

			stop_threads(subject.pid, 0, &stop);
			pause();
		}
		usleep(1000 * (useconds_t)i); /* the moment is the subject */
		kill(tool, SIGKILL);
		waitpid(tool, NULL, 0);
	}
	subject_end(&subject);
}

Test(stop, a_child_of_ours_keeps_its_end_for_who_waits, .timeout = 30)
{
	int signal, status, go[2];
	pid_t child;
	char byte;

	cr_assert_eq(pipe(go), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		_exit(read(go[0], &byte, 1) == 0 ? 7 : 1);
	}
	close(go[0]);
	cr_assert_eq(tracee_seize(child), 0);
	cr_assert_eq(tracee_wait(child, tracee_deadline(10000), &signal), TRACEE_INTERRUPTED);
	cr_assert_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	close(go[1]);
	cr_assert_eq(tracee_wait(child, tracee_deadline(10000), &signal), -ESRCH);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
