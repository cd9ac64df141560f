/* SPDX-License-Identifier: MIT */
/*
 * What event objects cost (record/perf/object.h):
 *
 *	watch.arm_1000_threads_ms    four watches on a program of 1,000 threads, all or nothing
 *	watch.modify_us              one watch of a program of one thread changed in place;
 *				     .each_of_1000_threads: a thread's four, 1,000 such threads
 *	watch.trap_us                a store that is counted, above one that is not: the least that
 *				     a hit costs
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "record/perf/object.h"
#include "target/trial/trial.h"
#include <waymark/error.h>

#define THREADS 1000
#define SOURCES 4
#define RUNS 11
#define SKIPPED 77

static volatile uint64_t words[2 * SOURCES] __attribute__((aligned(64)));
static volatile unsigned int *started;

static void *sleeper(void *data)
{
	(void)data;
	__atomic_add_fetch(started, 1, __ATOMIC_RELAXED);
	for (;;)
		pause();
	return NULL;
}

/* A program of so many threads, which sleep. */
static pid_t program(unsigned int count)
{
	pid_t pid = fork();

	if (!pid) {
		pthread_attr_t attr;
		pthread_t thread;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 64 << 10);
		for (unsigned int i = 1; i < count; i++)
			if (pthread_create(&thread, &attr, sleeper, NULL))
				_exit(1);
		sleeper(NULL);
	}
	while (__atomic_load_n(started, __ATOMIC_RELAXED) < count)
		usleep(1000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	*started = 0;
}

static void fail(const char *what, int err, const char *detail)
{
	if (err == -WM_E_PERF_DENIED || err == -ENOSYS) {
		printf("%s: %s\n", wm_error_text(err), detail);
		exit(SKIPPED);
	}
	fprintf(stderr, "%s: %s: %s\n", what, wm_error_text(err), detail);
	exit(1);
}

/* Print each figure that needs this, and why it can't be measured here. */
static void need(enum trial trial)
{
	static const char *const figures[] = { "arm_1000_threads_ms",
					       "modify_us.each_of_1000_threads", "modify_us",
					       "trap_us" };
	struct trial_answer answer;
	char why[512];

	trial_ask(trial, &answer);
	if (answer.state != TRIAL_FAILS)
		return;
	trial_reason(trial, &answer, why, sizeof(why));
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		printf("skipped watch.%s: %s\n", figures[i], why);
	exit(SKIPPED);
}

static void sources_fill(struct event_source sources[SOURCES], unsigned int first)
{
	for (unsigned int i = 0; i < SOURCES; i++)
		sources[i] = (struct event_source){
			.kind = EVENT_WRITE,
			.bytes = 8,
			.address = (uint64_t)(uintptr_t)&words[first + i],
			.sig_data = UINT64_C(1) << 32,
		};
}

static struct perf_object *arm(pid_t pid, unsigned int count)
{
	struct event_source sources[SOURCES];
	struct event_request request = {
		.scope = EVENT_PROCESS,
		.flags = EVENT_SIGNAL,
		.pid = pid,
		.sources = sources,
		.source_count = count,
	};
	struct perf_object *object;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	int err;

	sources_fill(sources, 0);
	err = perf_object_new(&object, &request, detail);
	if (!err)
		err = perf_object_arm(object, detail);
	if (err)
		fail("arm", err, text);
	return object;
}

static double modify(struct perf_object *object, unsigned int first)
{
	struct event_source sources[SOURCES];
	char text[256] = "";
	uint64_t begin = measure_ns();
	int err;

	sources_fill(sources, first);
	err = perf_object_modify(object, sources, EVENT_MODIFY_RUNNING, NULL,
				 (struct detail){ text, sizeof(text) });
	if (err)
		fail("modify", err, text);
	return (double)(measure_ns() - begin);
}

static void many_threads(unsigned int threads)
{
	double armed[MEASURE_RUNS_MAX], modified[MEASURE_RUNS_MAX];
	unsigned int runs = measure_runs(RUNS);
	pid_t pid = program(threads);

	for (unsigned int i = 0; i < runs; i++) {
		uint64_t begin = measure_ns();
		struct perf_object *object = arm(pid, SOURCES);

		armed[i] = (double)(measure_ns() - begin) / 1e6;
		modified[i] = modify(object, SOURCES) / 1e3 / threads;
		perf_object_release(object);
	}
	measure_print("watch.arm_1000_threads_ms", measure_median(armed, runs), "ms");
	measure_print("watch.modify_us.each_of_1000_threads", measure_median(modified, runs), "us");
	end(pid);
}

static void one_thread(void)
{
	double modified[MEASURE_RUNS_MAX];
	unsigned int runs = measure_runs(RUNS);
	pid_t pid = program(1);
	struct perf_object *object = arm(pid, 1);

	for (unsigned int i = 0; i < runs; i++)
		modified[i] = modify(object, i % 2 ? 0 : SOURCES) / 1e3;
	measure_print("watch.modify_us", measure_median(modified, runs), "us");
	perf_object_release(object);
	end(pid);
}

/* The kernel's own count of the stores, by nothing but perf_event_open(2). */
static void trap(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)(uintptr_t)&words[0],
		.bp_len = 8,
		.exclude_kernel = 1,
	};
	unsigned int hits = (unsigned int)(5000 * measure_scale()) + 1, runs = measure_runs(RUNS);
	double each[MEASURE_RUNS_MAX];
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	uint64_t counted = 0;

	if (fd < 0)
		fail("perf_event_open", -1, "");
	measure_pin(0);
	for (unsigned int i = 0; i < runs; i++) {
		uint64_t begin = measure_cpu_ns();

		for (unsigned int j = 0; j < hits; j++)
			words[0] = j;
		each[i] = (double)(measure_cpu_ns() - begin) / 1e3 / hits;
	}
	if (read(fd, &counted, sizeof(counted)) < 0 || counted != (uint64_t)hits * runs)
		fail("count", -1, "not every hit was counted");
	measure_print("watch.trap_us", measure_median(each, runs), "us");
	close(fd);
}

int main(void)
{
	unsigned int threads = measure_scale() < 1 ? 20 : THREADS;

	started = mmap(NULL, sizeof(*started), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (started == MAP_FAILED)
		return 1;
	need(TRIAL_BREAKPOINT_WRITE);
	need(TRIAL_BREAKPOINT_SIGNAL);
	many_threads(threads);
	one_thread();
	trap();
	return 0;
}
