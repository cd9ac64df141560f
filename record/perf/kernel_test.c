/* SPDX-License-Identifier: MIT */
/*
 * What the kernel promises of breakpoints, and what its own tests try: perf's bp_signal, wp and
 * sigtrap, the kernel's breakpoint_test, sigtrap_threads and remove_on_exec. In our own words,
 * through event objects, with the same outcomes.
 */
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(event_kernel, .init = fixture_need_breakpoints, .timeout = 60);

static struct fixture_shared *shared; /* the child's */
static struct event_source sources[EVENT_SOURCES_MAX];
static struct event_request request;

static struct perf_object *arm_one(const struct fixture *fixture, enum event_kind kind,
				   uint32_t bytes, const volatile void *address, unsigned int flags)
{
	fixture_request(&request, sources, EVENT_PROCESS, fixture->pid, 1);
	sources[0].kind = kind;
	sources[0].bytes = bytes;
	sources[0].address = (uint64_t)(uintptr_t)address;
	request.flags = flags;
	return fixture_arm(&request);
}

/* ---- which accesses hit: kinds, lengths, neighbours ---- */

#define PLACES 16 /* bytes around the watched ones, which begin at the 4th or the 8th */

/* Each step is one access of one byte. */
static void toucher(struct fixture_shared *own)
{
	volatile uint8_t *bytes = (volatile uint8_t *)words;
	unsigned int step = 1;

	for (;; step++) {
		fixture_meet(own, step);
		switch (own->data >> 8) {
		case 'r':
			(void)bytes[own->data & 0xff];
			break;
		case 'w':
			bytes[own->data & 0xff] = (uint8_t)step;
			break;
		case 'm': /* reads and writes in one instruction */
			__asm__ volatile("incb %0" : "+m"(bytes[own->data & 0xff]));
			break;
		default:
			_exit(0);
		}
	}
}

static void touch(const struct fixture *fixture, unsigned int *step, char how, unsigned int place)
{
	fixture->shared->data = (uint64_t)how << 8 | place;
	fixture_step(fixture, ++*step, 1);
}

static void kinds_and_lengths(enum event_kind kind, uint32_t bytes, unsigned int at)
{
	struct perf_object *object;
	struct fixture fixture;
	unsigned int step = 0;
	uint64_t hits = 0;

	fixture_start(&fixture, toucher);
	fixture_wait(&fixture, 1);
	object = arm_one(&fixture, kind, bytes, (volatile uint8_t *)words + at, 0);
	for (unsigned int place = 0; place < PLACES; place++) {
		int inside = place >= at && place < at + bytes;

		touch(&fixture, &step, 'r', place);
		hits += inside && kind == EVENT_READ_WRITE;
		cr_assert_eq(fixture_count(object, 0), hits, "%u at %u: read of %u", bytes, at,
			     place);
		touch(&fixture, &step, 'w', place);
		hits += (uint64_t)inside;
		cr_assert_eq(fixture_count(object, 0), hits, "%u at %u: write of %u", bytes, at,
			     place);
		touch(&fixture, &step, 'm', place);
		hits += (uint64_t)inside;
		cr_assert_eq(fixture_count(object, 0), hits, "%u at %u: change of %u", bytes, at,
			     place);
	}
	perf_object_release(object);
	fixture_end(&fixture);
}

Test(event_kernel, stores_to_watched_bytes_hit_and_others_do_not)
{
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
		kinds_and_lengths(EVENT_WRITE, bytes, bytes == 8 ? 8 : 4);
	kinds_and_lengths(EVENT_WRITE, 1, 7);
	kinds_and_lengths(EVENT_WRITE, 2, 6);
}

Test(event_kernel, loads_and_stores_hit_where_both_are_watched)
{
	for (uint32_t bytes = 1; bytes <= 8; bytes *= 2)
		kinds_and_lengths(EVENT_READ_WRITE, bytes, bytes == 8 ? 8 : 4);
}

/* ---- code ---- */

static __attribute__((noinline)) void second_function(void)
{
	__asm__ volatile("nop");
}

static __attribute__((noinline)) void first_function(void)
{
	__asm__ volatile("nop");
}

/* The handler, at the first, calls the second: a trap within a trap. */
static void on_first(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	__atomic_add_fetch(&shared->hits, 1, __ATOMIC_RELAXED);
	if (info->si_addr == (void *)first_function)
		second_function();
}

static void caller(struct fixture_shared *own)
{
	struct sigaction action = { .sa_sigaction = on_first, .sa_flags = SA_SIGINFO | SA_NODEFER };

	shared = own;
	sigaction(SIGTRAP, &action, NULL);
	fixture_meet(own, 1);
	for (int i = 0; i < 10; i++)
		first_function();
	second_function();
	fixture_meet(own, 2);
}

/*
 * A breakpoint on code comes before its instruction: it must not come again when the handler
 * returns to that.
 */
Test(event_kernel, code_hits_once_a_call_also_in_a_handler)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, caller);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 2);
	request.flags = EVENT_SIGNAL;
	for (int i = 0; i < 2; i++) {
		sources[i].kind = EVENT_EXECUTE;
		sources[i].bytes = 0;
		sources[i].address = (uint64_t)(uintptr_t)(i ? second_function : first_function);
	}
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 10);
	cr_assert_eq(fixture_count(object, 1), 11);
	cr_assert_eq(fixture.shared->hits, 21);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- four registers at a time ---- */

static void four(struct fixture_shared *own)
{
	fixture_meet(own, 1);
	for (unsigned int i = 0; i < BED_WORDS; i++)
		for (unsigned int j = 0; j <= i; j++)
			words[i] = j;
	fixture_meet(own, 2);
}

Test(event_kernel, each_of_four_registers_hits_for_itself)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, four);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	sources[3].address = sources[1].address; /* two of one word */
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 1);
	cr_assert_eq(fixture_count(object, 1), 2);
	cr_assert_eq(fixture_count(object, 2), 3);
	/* an emulated processor (qemu's) reports one register for an access */
	if (!getenv("WAYMARK_GUEST"))
		cr_assert_eq(fixture_count(object, 3), 2);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- signals to threads ---- */

#define STRESS_THREADS 5
#define STRESS_STORES 300

static _Thread_local unsigned int own_hits;

static void on_own(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	own_hits++;
	__atomic_add_fetch(&shared->hits, 1, __ATOMIC_RELAXED);
}

static BED_STORES void *stress_thread(void *data)
{
	(void)data;
	fixture_meet(shared, 1);
	for (unsigned int i = 0; i < STRESS_STORES; i++) {
		words[0] = i;
		/* synchronous: it has come before the next instruction */
		if (own_hits != i + 1)
			__atomic_add_fetch(&shared->strange, 1, __ATOMIC_RELAXED);
	}
	fixture_meet(shared, 2);
	return NULL;
}

static void stress(struct fixture_shared *own)
{
	struct sigaction action = { .sa_sigaction = on_own, .sa_flags = SA_SIGINFO | SA_NODEFER };

	shared = own;
	sigaction(SIGTRAP, &action, NULL);
	fixture_threads(STRESS_THREADS, stress_thread, NULL);
	fixture_meet(own, 2);
	fixture_meet(own, 3);
}

Test(event_kernel, each_thread_has_its_own_signals_at_once)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, stress);
	fixture_wait(&fixture, STRESS_THREADS + 1);
	object = arm_one(&fixture, EVENT_WRITE, 8, &words[0], EVENT_SIGNAL);
	fixture_step(&fixture, 1, STRESS_THREADS);
	cr_assert_eq(fixture_count(object, 0), STRESS_THREADS * STRESS_STORES);
	cr_assert_eq(fixture.shared->hits, STRESS_THREADS * STRESS_STORES);
	cr_assert_eq(fixture.shared->strange, 0);
	perf_object_release(object);
	fixture_end(&fixture);
}

/*
 * A thread that blocks SIGTRAP: the signal comes when it is let through, one for all; the count is
 * exact all the same.
 */
static void blocker(struct fixture_shared *own)
{
	sigset_t trap;

	shared = own;
	fixture_catch(own);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	fixture_meet(own, 1);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	for (unsigned int i = 0; i < 5; i++)
		words[0] = i;
	fixture_meet(own, 2);
	pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
	fixture_meet(own, 3);
}

Test(event_kernel, blocked_signals_come_late_and_merged_and_the_count_tells)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, blocker);
	fixture_wait(&fixture, 1);
	object = arm_one(&fixture, EVENT_WRITE, 8, &words[0], EVENT_SIGNAL);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 5);
	cr_assert_eq(fixture.shared->hits, 0);
	perf_object_disarm(object);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(fixture.shared->hits, 1, "it comes, though the object is disarmed");
	cr_assert_eq(fixture_count(object, 0), 5);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- exec ---- */

static void forks_and_execs(struct fixture_shared *own)
{
	pid_t child;
	int status;

	shared = own;
	fixture_catch(own);
	fixture_meet(own, 1);
	for (int i = 0; i < 5; i++) {
		child = fork();
		if (!child) {
			words[0] = 1;
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		/* SIGTRAP would kill a program without a handler */
		waitpid(child, &status, 0);
		if (status)
			__atomic_add_fetch(&own->strange, 1, __ATOMIC_RELAXED);
	}
	words[0] = 2;
	fixture_meet(own, 2);
}

Test(event_kernel, children_that_exec_are_left_alone)
{
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, forks_and_execs);
	fixture_wait(&fixture, 1);
	object = arm_one(&fixture, EVENT_WRITE, 8, &words[0], EVENT_SIGNAL | EVENT_CHILDREN);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture.shared->strange, 0);
	cr_assert_eq(fixture_count(object, 0), 6);
	cr_assert_eq(fixture.shared->hits, 6);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- the kernel's own accesses ---- */

static void reader(struct fixture_shared *own)
{
	int ends[2];
	char byte;

	if (pipe(ends) || write(ends[1], "abcdefgh", 8) != 8)
		_exit(5);
	fixture_meet(own, 1);
	if (read(ends[0], (void *)(uintptr_t)words, 8) != 8)
		_exit(6);
	words[0] = 1;
	fixture_meet(own, 2);
	if (read(ends[0], &byte, 1) < 0)
		_exit(7);
}

Test(event_kernel, a_read_into_the_word_is_seen_with_rights_alone)
{
	struct perf_object *object;
	struct event_coverage coverage;
	struct fixture fixture;

	fixture_start(&fixture, reader);
	fixture_wait(&fixture, 1);
	object = arm_one(&fixture, EVENT_WRITE, 8, &words[0], 0);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), 1, "the program's own store");
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.sees_kernel, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
	if (geteuid())
		return;
	fixture_start(&fixture, reader);
	fixture_wait(&fixture, 1);
	object = arm_one(&fixture, EVENT_WRITE, 8, &words[0], EVENT_KERNEL);
	fixture_step(&fixture, 1, 1);
	cr_assert_gt(fixture_count(object, 0), 1, "as often as the kernel's copy stored");
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.sees_kernel, 1);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}
