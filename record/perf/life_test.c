/* SPDX-License-Identifier: MIT */
/*
 * What happens to events when threads end, children start, programs exec, tools die, tracers attach
 * or users change.
 */
#include "base/testing/await.h"
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(event_life, .init = fixture_need_breakpoints, .timeout = 60);

static struct fixture_shared *shared; /* the child's */
static struct event_source sources[EVENT_SOURCES_MAX];
static struct event_request request;

static void store(unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		words[0] = i;
}

static void *store_and_end(void *data)
{
	(void)data;
	fixture_meet(shared, 1);
	store(3);
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void forty(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	fixture_threads(40, store_and_end, NULL);
	fixture_meet(own, 2);
	store(1);
	fixture_meet(own, 3);
	store(1);
	fixture_meet(own, 99);
}

Test(event_life, threads_that_have_ended_count)
{
	struct event_coverage coverage;
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, forty);
	fixture_wait(&fixture, 41);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 40);
	cr_assert(AWAIT(target_status_number(fixture.pid, "Threads") == 1));
	cr_assert_eq(fixture_count(object, 0), 120);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, 1);
	cr_assert_eq(coverage.opened, 1);
	cr_assert_eq(coverage.ended, 40);
	cr_assert_eq(coverage.missing_count, 0);
	perf_coverage_release(&coverage);
	fixture_step(&fixture, 2, 1);
	perf_object_quiet(object);
	fixture_step(&fixture, 3, 1);
	cr_assert_eq(fixture_count(object, 0), 121, "nothing is counted once it is quiet");
	fixture_end(&fixture);
	cr_assert_eq(perf_object_coverage(object, &coverage), -WM_E_GONE);
	perf_object_release(object);
}

static void *leader_left(void *data)
{
	pthread_join(*(pthread_t *)data, NULL);
	fixture_meet(shared, 1);
	store(7);
	fixture_meet(shared, 99);
	return NULL;
}

static void headless(struct fixture_shared *own)
{
	static pthread_t self;

	shared = own;
	self = pthread_self();
	fixture_threads(1, leader_left, &self);
	pthread_exit(NULL);
}

Test(event_life, the_first_thread_may_have_ended)
{
	struct event_coverage coverage;
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, headless);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 7);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.opened, 1);
	cr_assert_eq(coverage.missing_count, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- children ---- */

static void *store_five(void *data)
{
	(void)data;
	store(5);
	__atomic_add_fetch(&shared->started, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void parent(struct fixture_shared *own)
{
	pid_t child;
	int status;

	shared = own;
	fixture_catch(own);
	fixture_meet(own, 1);
	store(1);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		store(10);
		fixture_threads(1, store_five, NULL);
		_exit(!AWAIT(__atomic_load_n(&own->started, __ATOMIC_ACQUIRE)));
	}
	waitpid(child, &status, 0);
	if (status)
		_exit(5);
	fixture_meet(own, 99);
}

static void children(unsigned int flags, uint64_t hits)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, parent);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 2);
	request.flags = flags;
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), hits);
	if (flags & EVENT_SIGNAL)
		cr_assert_eq(fixture.shared->hits, hits);
	perf_object_release(object);
	fixture_end(&fixture);
}

Test(event_life, forked_children_have_none)
{
	children(0, 1);
	children(EVENT_SIGNAL, 1);
}

Test(event_life, forked_children_have_them_on_request)
{
	children(EVENT_CHILDREN, 16);
	children(EVENT_CHILDREN | EVENT_SIGNAL, 16);
}

/* ---- another program ---- */

static void replaced(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	fixture_meet(own, 1);
	store(2);
	/* a SIGTRAP would kill it: it has no handler any more */
	execl("/bin/sleep", "sleep", "30", NULL);
}

Test(event_life, another_program_has_none_and_coverage_says_so)
{
	struct event_coverage coverage;
	struct perf_object *object;
	char comm[16] = "";
	struct fixture fixture;

	fixture_start(&fixture, replaced);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_SIGNAL;
	object = fixture_arm(&request);
	__atomic_store_n(&fixture.shared->step, 1, __ATOMIC_RELEASE);
	fixture_step(&fixture, 1, 0);
	while (strcmp(comm, "sleep"))
		target_comm(fixture.pid, fixture.pid, comm);
	cr_assert_eq(fixture_count(object, 0), 2);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, 1);
	cr_assert_eq(coverage.opened, 0);
	cr_assert_eq(coverage.missing_count, 1);
	cr_assert_eq(coverage.missing[0].tid, fixture.pid);
	cr_assert_eq(coverage.missing[0].error, -WM_E_EVENT_EXEC);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- who arms ends, and who is armed disables its own ---- */

static void chatty(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	for (unsigned int step = 1; step < 50; step++) {
		fixture_meet(own, step);
		/* disables only events that this thread opened itself; it has opened no events */
		if (step == 2)
			prctl(PR_TASK_PERF_EVENTS_DISABLE);
		store(4);
	}
}

Test(event_life, a_tool_that_is_killed_leaves_nothing)
{
	struct fixture fixture;
	int ends[2], status;
	pid_t tool;
	char byte;

	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	cr_assert_eq(pipe(ends), 0);
	tool = fork();
	if (!tool) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
		request.flags = EVENT_SIGNAL;
		fixture_arm(&request);
		if (write(ends[1], "", 1) < 0)
			_exit(1);
		pause();
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	cr_assert_eq(instance_free_registers(fixture.pid, -1), 0);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture.shared->hits, 4);
	kill(tool, SIGKILL);
	waitpid(tool, &status, 0);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(fixture.shared->hits, 4);
	cr_assert_eq(instance_free_registers(fixture.pid, -1), 4);
	fixture_end(&fixture);
}

Test(event_life, the_program_cannot_disable_them_by_prctl)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(fixture_count(object, 0), 8);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- a process that can't be stopped ---- */

Test(event_life, a_traced_process_is_armed_while_it_runs)
{
	struct event_coverage coverage;
	struct perf_object *object;
	struct fixture fixture;
	int ends[2];
	pid_t tracer;
	char byte;

	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	cr_assert_eq(pipe(ends), 0);
	tracer = fork();
	if (!tracer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_SEIZE, fixture.pid, NULL, NULL) || write(ends[1], "", 1) < 0)
			_exit(1);
		for (;;) { /* signals are passed on */
			int status;

			if (waitpid(fixture.pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
				_exit(0);
			ptrace(PTRACE_CONT, fixture.pid, NULL, WSTOPSIG(status));
		}
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_SIGNAL;
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 4);
	cr_assert_eq(fixture.shared->hits, 4);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.was_stopped, 0);
	cr_assert_eq(coverage.opened, 1);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
}

Test(event_life, a_stopped_process_is_armed_and_stays_stopped)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	kill(fixture.pid, SIGSTOP);
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'T'));
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	object = fixture_arm(&request);
	cr_assert_eq(target_thread_state(fixture.pid, fixture.pid), 'T');
	kill(fixture.pid, SIGCONT);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 4);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- one thread; other scopes ---- */

static pid_t one_tid;

static void *one_of_two(void *data)
{
	__atomic_store_n((pid_t *)&shared->started, gettid(), __ATOMIC_RELEASE);
	fixture_meet(shared, 1);
	store(6);
	(void)data;
	fixture_meet(shared, 99);
	return NULL;
}

static void two(struct fixture_shared *own)
{
	shared = own;
	fixture_threads(1, one_of_two, NULL);
	fixture_meet(own, 1);
	store(9);
	fixture_meet(own, 99);
}

Test(event_life, one_thread_alone)
{
	struct event_coverage coverage;
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, two);
	fixture_wait(&fixture, 2);
	one_tid = (pid_t)fixture.shared->started;
	fixture_request(&request, sources, EVENT_THREAD, one_tid, 2);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 2);
	cr_assert_eq(fixture_count(object, 0), 6);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, 1);
	cr_assert_eq(coverage.opened, 1);
	cr_assert_eq(coverage.missing_count, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

static int paranoid(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = 2;

	if (file && fscanf(file, "%d", &level) != 1)
		level = 2;
	if (file)
		fclose(file);
	return level;
}

Test(event_life, whatever_runs_on_the_machine)
{
	struct event_coverage coverage;
	struct perf_object *object;
	struct fixture fixture;

	if (geteuid())
		cr_skip_test("CPUs are watched by root alone");
	fixture_need_cpus();
	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 1);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	/* others may have something at this address too, but hardly write to it now */
	cr_assert_geq(fixture_count(object, 0), 4);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, (unsigned int)sysconf(_SC_NPROCESSORS_ONLN));
	cr_assert_eq(coverage.opened, coverage.wanted);
	cr_assert_eq(coverage.missing_count, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

Test(event_life, an_offline_cpu_is_refused_by_its_number)
{
	const unsigned int cpus[] = { 4000 };
	struct perf_object *object;
	char text[128] = "";
	struct detail detail = { text, sizeof(text) };
	unsigned int before = fixture_descriptors();
	int err;

	if (geteuid())
		cr_skip_test("CPUs are watched by root alone");
	fixture_request(&request, sources, EVENT_CPUS, 0, 1);
	request.cpus = cpus;
	request.cpu_count = 1;
	fixture_need_trials(&request);
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	err = perf_object_arm(object, detail);
	cr_assert(err == -ENODEV || err == -EINVAL, "%d", err);
	cr_assert(strstr(text, "CPU 4000"), "%s", text);
	cr_assert_eq(fixture_descriptors(), before);
	perf_object_release(object);
}

static void ordinary_is_refused(enum event_scope scope, unsigned int flags, int error,
				const char *words_wanted)
{
	struct perf_object *object;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	struct fixture fixture;
	int err;

	fixture_start(&fixture, chatty);
	fixture_wait(&fixture, 1);
	if (error == -EPERM)
		fixture_become_ordinary();
	fixture_request(&request, sources, scope, fixture.pid, 1);
	request.flags = flags;
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	err = perf_object_arm(object, detail);
	cr_assert_eq(err, error, "%s: %s", wm_error_text(err), text);
	cr_assert(strstr(text, words_wanted), "%s", text);
	perf_object_release(object);
	if (error == -EPERM)
		fixture_become_root();
	fixture_end(&fixture);
}

Test(event_life, an_ordinary_user_is_told_what_it_takes)
{
	if (paranoid() != 2)
		cr_skip_test("kernel.perf_event_paranoid is not 2");
	fixture_become_ordinary();
	ordinary_is_refused(EVENT_PROCESS, EVENT_KERNEL, -WM_E_PERF_DENIED,
			    "for the kernel's accesses it must be 1");
	ordinary_is_refused(EVENT_SYSTEM, 0, -WM_E_PERF_DENIED, "for CPUs it must be 0");
}

Test(event_life, anothers_process_is_refused)
{
	if (geteuid())
		cr_skip_test("only root has another's");
	if (paranoid() > 2)
		cr_skip_test("kernel.perf_event_paranoid refuses ordinary users all");
	ordinary_is_refused(EVENT_PROCESS, 0, -EPERM, "it runs as user 0, we as user");
}

Test(event_life, who_is_gone_is_told_so)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, chatty);
	fixture_end(&fixture);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
	cr_assert_eq(perf_object_arm(object, (struct detail){ 0 }), -WM_E_GONE);
	perf_object_release(object);
	request.scope = EVENT_THREAD;
	cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
	cr_assert_eq(perf_object_arm(object, (struct detail){ 0 }), -WM_E_GONE);
	perf_object_release(object);
}

/* ---- another pid namespace ---- */

static void nested(struct fixture_shared *own)
{
	pid_t child;

	if (unshare(CLONE_NEWPID))
		_exit(4);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		parent(own); /* it is process 1 there */
	}
	__atomic_store_n(&own->data, (uint64_t)child, __ATOMIC_RELEASE);
	waitpid(child, NULL, 0);
}

Test(event_life, processes_of_other_pid_namespaces)
{
	struct perf_object *object;
	struct fixture fixture;
	pid_t pid;

	if (geteuid())
		cr_skip_test("root alone makes pid namespaces without more");
	fixture_start(&fixture, nested);
	fixture_wait(&fixture, 1);
	/* it runs before its parent has stored its number */
	cr_assert(AWAIT(pid = (pid_t)__atomic_load_n(&fixture.shared->data, __ATOMIC_ACQUIRE)));
	fixture_request(&request, sources, EVENT_PROCESS, pid, 1);
	request.flags = EVENT_SIGNAL | EVENT_CHILDREN;
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 16);
	cr_assert_eq(fixture.shared->hits, 16);
	perf_object_release(object);
	kill(pid, SIGKILL);
	fixture_end(&fixture);
}
