/* SPDX-License-Identifier: MIT */
/* Records of this kernel's software events, of children that do a known number of things. */
#include "base/testing/await.h"
#include "record/perf/testing/fixture.h"
#include "record/perf/refused.h"
#include "record/perf/testing/sampled.h"

#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLEEPS 40u

static void touches(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	for (unsigned int i = 0; i < PAGES; i++)
		sampled_touch(sampled_area + (size_t)i * PAGE);
	fixture_meet(shared, 2);
}

/* We are an ordinary user, whom the kernel does not let look at itself. */
static int sees_programs_alone(void)
{
	return !perf_is_privileged() && perf_paranoid() > 1;
}

Test(sampler, each_fault_is_recorded_once)
{
	struct fixture fixture;
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;

	sampled_area_make();
	fixture_start(&fixture, touches);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, &sampled_faults, 1);
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	sampled_end(sampler);
	for (unsigned int i = 0; i < PAGES; i++)
		cr_assert_eq(sampled.of_page[i], 1, "page %u: %u records", i, sampled.of_page[i]);
	cr_expect_geq(sampled.ip_low, (uint64_t)(uintptr_t)&sampled_touch);
	cr_expect_leq(sampled.ip_high, (uint64_t)(uintptr_t)&sampled_touch + 64);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.threads, 1);
	cr_expect_eq(coverage.lost, 0);
	cr_expect_eq(coverage.excludes_kernel, sees_programs_alone());
	cr_expect(!coverage.is_doubtful);
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* A fault outside the pages may take the place of one. */
Test(sampler, a_period_of_software_events_is_kept)
{
	struct sampler_event fourth = sampled_faults;
	struct sampler_request request;
	struct fixture fixture;
	struct sampler *sampler;
	unsigned int records = 0;

	fourth.period = 4;
	sampled_area_make();
	fixture_start(&fixture, touches);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, &fourth, 1);
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	sampled_end(sampler);
	for (unsigned int i = 0; i < PAGES; i++)
		records += sampled.of_page[i];
	cr_expect_leq(records, PAGES / 4 + 1);
	cr_expect_geq(records, PAGES / 4 - PAGES / 16);
	sampler_close(sampler);
	fixture_end(&fixture);
}

static void sleeps(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	for (unsigned int i = 0; i < SLEEPS; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	fixture_meet(shared, 2);
}

Test(sampler, each_sleep_is_a_departure_that_waits)
{
	struct fixture fixture;
	struct sampler_request request;
	struct sampler *sampler;

	fixture_start(&fixture, sleeps);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, NULL, 0);
	request.switches = 1;
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	/* it departs once more, where it waits for the next step */
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	sampled_end(sampler);
	cr_expect_eq(sampled.waits, SLEEPS + 1, "%u departures", sampled.waits);
	cr_expect_eq(sampled.kinds[SAMPLER_ARRIVE], sampled.waits + sampled.preempted);
	cr_expect_eq(sampled.lost, 0);
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* ---- CPUs ---- */

/* The number of a field of struct trace_entry, read from the kernel's own description. */
static int tracepoint(const char *name, const char *field, int *offset)
{
	char path[128], line[512];
	FILE *file;
	int id = -1, found;

	snprintf(path, sizeof(path), "/sys/kernel/tracing/events/%s/format", name);
	file = fopen(path, "re");
	if (!file)
		cr_skip_test("%s is not to be read", path);
	while (fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, field);

		if (sscanf(line, "ID: %d", &found) == 1)
			id = found;
		if (at && at[strlen(field)] == ';' &&
		    sscanf(at + strlen(field), "; offset:%d;", &found) == 1)
			*offset = found;
	}
	fclose(file);
	return id;
}

static struct {
	pid_t pid;
	int prev_pid, prev_state; /* their places in the record */
	unsigned int raw_departs, departs, strange;
	unsigned int in_user;
} wanted;

static int take_switch(const struct sampler_record *record, void *data)
{
	int32_t pid;
	int64_t state;

	sampled_take(record, data);
	if (record->kind == SAMPLER_DEPART && record->tid == wanted.pid)
		wanted.departs += !record->is_preempted;
	if (record->kind != SAMPLER_SAMPLE)
		return 0;
	if (record->raw_bytes < (size_t)wanted.prev_state + sizeof(state)) {
		wanted.strange++;
		return 0;
	}
	memcpy(&pid, (const char *)record->raw + wanted.prev_pid, sizeof(pid));
	memcpy(&state, (const char *)record->raw + wanted.prev_state, sizeof(state));
	wanted.strange += record->tid > 0 && pid != record->tid;
	if (pid != wanted.pid)
		return 0;
	wanted.raw_departs += (state & 0xff) != 0;
	/* where it slept, in the C library's call */
	wanted.in_user += record->is_kernel && record->user_ip && !(record->user_ip >> 63);
	return 0;
}

static int is_first_namespace(void)
{
	char target[64] = "";

	return readlink("/proc/self/ns/pid", target, sizeof(target) - 1) > 0 &&
	       !strcmp(target, "pid:[4026531836]");
}

Test(sampler, a_tracepoint_of_all_cpus_says_what_its_switch_records_say)
{
	struct sampler_event event = {
		.what = { .name = "sched:sched_switch", .type = PERF_TYPE_TRACEPOINT },
		.period = 1,
		.wants = SAMPLER_RAW | SAMPLER_USER_IP,
	};
	struct sampler_request request = sampled_request(NULL, &event, 1);
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;
	int id = tracepoint("sched/sched_switch", "prev_pid", &wanted.prev_pid);

	tracepoint("sched/sched_switch", "prev_state", &wanted.prev_state);
	if (!is_first_namespace())
		cr_skip_test("a tracepoint has pids of another namespace");
	event.what.config = (uint64_t)id;
	fixture_start(&fixture, sleeps);
	fixture_wait(&fixture, 1);
	wanted.pid = fixture.pid;
	request.switches = 1;
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	sampler_disable(sampler);
	cr_assert_eq(sampler_read(sampler, 1, take_switch, NULL), 0);
	cr_expect_eq(wanted.departs, SLEEPS + 1, "%u departures", wanted.departs);
	cr_expect_eq(wanted.raw_departs, SLEEPS + 1, "%u in raw data", wanted.raw_departs);
	cr_expect_geq(wanted.in_user, SLEEPS + 1, "%u user ips", wanted.in_user);
	cr_expect_eq(wanted.strange, 0);
	cr_expect_eq(sampled.lost, 0);
	cr_expect(!sampled.is_disordered);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.cpus, (unsigned int)sysconf(_SC_NPROCESSORS_ONLN));
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* ---- what does not fit ---- */

static void touches_again(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < PAGES; i++)
			sampled_touch(sampled_area + (size_t)i * PAGE);
		madvise(sampled_area, (size_t)PAGES * PAGE, MADV_DONTNEED);
	}
	fixture_meet(shared, 2);
}

/* The kernel's own count, of an event that we open beside them. */
static int counter_open(pid_t pid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.size = sizeof(attr),
		.exclude_kernel = sees_programs_alone(),
	};

	return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

Test(sampler, what_a_small_ring_loses_is_counted)
{
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;
	uint64_t count;
	int counter;

	sampled_area_make();
	fixture_start(&fixture, touches_again);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, &sampled_faults, 1);
	request.ring_bytes = PAGE;
	sampler = sampled_open(&request);
	counter = counter_open(fixture.pid);
	cr_assert_geq(counter, 0);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	/* the kernel reports a loss with the next record in the ring; one is left for the end */
	cr_assert_eq(sampler_read(sampler, 0, sampled_take, NULL), 0);
	sampled_end(sampler);
	cr_assert_eq(read(counter, &count, sizeof(count)), sizeof(count));
	cr_expect_gt(sampled.lost, 0);
	cr_expect_eq(sampled.kinds[SAMPLER_SAMPLE] + sampled.lost, count,
		     "%u recorded and %lu lost of %lu", sampled.kinds[SAMPLER_SAMPLE],
		     (unsigned long)sampled.lost, (unsigned long)count);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.lost, sampled.lost);
	cr_expect_eq(coverage.ring_bytes, PAGE);
	close(counter);
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* ---- by time ---- */

static int take_clock(const struct sampler_record *record, void *data)
{
	sampled_take(record, data);
	if (record->kind != SAMPLER_SAMPLE)
		return 0;
	wanted.strange += record->tid != wanted.pid || !record->period;
	wanted.in_user += !record->is_kernel && record->caller_count > 1 &&
			  record->callers[0] == (uint64_t)PERF_CONTEXT_USER &&
			  record->callers[1] == record->ip;
	return 0;
}

static void spins(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	while (__atomic_load_n(&shared->step, __ATOMIC_RELAXED) < 2)
		;
}

/* However long that takes: a program that runs is sampled again and again. */
Test(sampler, a_clock_samples_what_runs)
{
	const struct sampler_event event = {
		.what = { .name = "cpu-clock",
			  .type = PERF_TYPE_SOFTWARE,
			  .config = PERF_COUNT_SW_CPU_CLOCK },
		.freq_hz = 1000,
		.wants = SAMPLER_CALLERS,
	};
	struct sampler_request request;
	struct sampler *sampler;
	struct fixture fixture;

	fixture_start(&fixture, spins);
	fixture_wait(&fixture, 1);
	wanted.pid = fixture.pid;
	request = sampled_request(&fixture.pid, &event, 1);
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 0);
	cr_expect(AWAIT(!sampler_read(sampler, 0, take_clock, NULL) && wanted.in_user >= 50),
		  "%u samples in user space", wanted.in_user);
	cr_expect_eq(wanted.strange, 0);
	cr_expect(!sampled.is_disordered);
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* ---- tasks ---- */

static struct {
	pid_t pid, child;
	unsigned int forks, exits, execs, maps;
} tasks;

static int take_task(const struct sampler_record *record, void *data)
{
	sampled_take(record, data);
	if (record->kind == SAMPLER_FORK && record->ppid == tasks.pid) {
		tasks.child = record->pid;
		tasks.forks++;
	}
	tasks.exits += record->kind == SAMPLER_EXIT && record->pid == tasks.child;
	tasks.execs += record->kind == SAMPLER_COMM && record->is_exec &&
		       record->pid == tasks.child && !strcmp(record->text, "true");
	tasks.maps += record->kind == SAMPLER_MMAP && record->pid == tasks.child &&
		      strstr(record->text, "/true") && record->bytes;
	return 0;
}

static void executes(struct fixture_shared *shared)
{
	pid_t child;

	fixture_meet(shared, 1);
	child = fork();
	if (!child) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	fixture_meet(shared, 2);
}

Test(sampler, what_a_program_starts_is_recorded_too)
{
	struct sampler_request request;
	struct sampler *sampler;
	struct fixture fixture;

	fixture_start(&fixture, executes);
	fixture_wait(&fixture, 1);
	tasks.pid = fixture.pid;
	request = sampled_request(&fixture.pid, NULL, 0);
	request.tasks = 1;
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	sampler_disable(sampler);
	cr_assert_eq(sampler_read(sampler, 1, take_task, NULL), 0);
	cr_expect_eq(tasks.forks, 1);
	cr_expect_eq(tasks.execs, 1);
	cr_expect_eq(tasks.exits, 1);
	cr_expect_geq(tasks.maps, 1);
	cr_expect_eq(sampled.kinds[SAMPLER_ARRIVE], 0);
	sampler_close(sampler);
	fixture_end(&fixture);
}
