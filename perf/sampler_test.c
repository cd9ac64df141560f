/* SPDX-License-Identifier: MIT */
/* Records of this kernel's software events, of children that do a known number of things. */
#include "base/testing/await.h"
#include "perf/sampler.h"
#include "perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define PAGES 500u
#define SLEEPS 40u
#define THREADS 8u

static char words_of[512];
static const struct detail detail = { words_of, sizeof(words_of) };

/* Untouched before the fork, so each child has it for itself. */
static uint8_t *area;

static const struct sampler_event faults = {
	.what = { .name = "page-faults",
		  .type = PERF_TYPE_SOFTWARE,
		  .config = PERF_COUNT_SW_PAGE_FAULTS },
	.period = 1,
	.wants = SAMPLER_ADDRESS,
};

/* What was read. */
static struct {
	unsigned int kinds[SAMPLER_EXIT + 1];
	unsigned int waits, preempted; /* of DEPART */
	unsigned int of_page[PAGES];
	unsigned int faults, tids;
	pid_t first_tid;
	uint64_t last_ns, lost, ip_low, ip_high;
	int is_disordered;
} seen;

static int take(const struct sampler_record *record, void *data)
{
	uint64_t page = (record->address - (uint64_t)(uintptr_t)area) / PAGE;

	(void)data;
	seen.kinds[record->kind]++;
	seen.is_disordered |= record->time_ns < seen.last_ns;
	seen.last_ns = record->time_ns;
	seen.lost += record->kind == SAMPLER_LOST ? record->count : 0;
	seen.waits += record->kind == SAMPLER_DEPART && !record->is_preempted;
	seen.preempted += record->kind == SAMPLER_DEPART && record->is_preempted;
	if (record->kind != SAMPLER_SAMPLE || page >= PAGES || !area)
		return 0;
	seen.of_page[page]++;
	seen.faults++;
	seen.ip_low = !seen.ip_low || record->ip < seen.ip_low ? record->ip : seen.ip_low;
	seen.ip_high = record->ip > seen.ip_high ? record->ip : seen.ip_high;
	return 0;
}

static void area_make(void)
{
	area = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	cr_assert(area != MAP_FAILED);
	madvise(area, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
}

/* Ends behind its one store, so that its addresses are within a few bytes of it. */
static BED_STORES void touch(volatile uint8_t *at)
{
	*at = 1;
}

static struct sampler_request request_of(const pid_t *pid, const struct sampler_event *events,
					 size_t count)
{
	return (struct sampler_request){
		.scope = pid ? SAMPLER_PROCESSES : SAMPLER_CPUS,
		.events = events,
		.event_count = count,
		.pids = pid,
		.pid_count = 1,
		.cgroup_fd = -1,
	};
}

static struct sampler *opened(const struct sampler_request *request)
{
	struct sampler *sampler;
	int err = sampler_open(&sampler, request, detail);

	if (err == -ENOSYS || (err == -WM_E_PERF_DENIED && geteuid()))
		cr_skip_test("%s: %s", wm_error_text(err), words_of);
	cr_assert_eq(err, 0, "%s: %s", wm_error_text(err), words_of);
	return sampler;
}

static void read_all(struct sampler *sampler)
{
	sampler_disable(sampler);
	cr_assert_eq(sampler_read(sampler, 1, take, NULL), 0);
	cr_expect(!seen.is_disordered, "not in order of time");
}

static void touches(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	for (unsigned int i = 0; i < PAGES; i++)
		touch(area + (size_t)i * PAGE);
	fixture_meet(shared, 2);
}

Test(sampler, each_fault_is_recorded_once)
{
	struct fixture fixture;
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;

	area_make();
	fixture_start(&fixture, touches);
	fixture_wait(&fixture, 1);
	request = request_of(&fixture.pid, &faults, 1);
	sampler = opened(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	read_all(sampler);
	for (unsigned int i = 0; i < PAGES; i++)
		cr_assert_eq(seen.of_page[i], 1, "page %u: %u records", i, seen.of_page[i]);
	cr_expect_geq(seen.ip_low, (uint64_t)(uintptr_t)&touch);
	cr_expect_leq(seen.ip_high, (uint64_t)(uintptr_t)&touch + 64);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.threads, 1);
	cr_expect_eq(coverage.lost, 0);
	cr_expect(!coverage.excludes_kernel && !coverage.is_doubtful);
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
	request = request_of(&fixture.pid, NULL, 0);
	request.switches = 1;
	sampler = opened(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	/* it departs once more, where it waits for the next step */
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	read_all(sampler);
	cr_expect_eq(seen.waits, SLEEPS + 1, "%u departures", seen.waits);
	cr_expect_eq(seen.kinds[SAMPLER_ARRIVE], seen.waits + seen.preempted);
	cr_expect_eq(seen.lost, 0);
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
	unsigned int samples, of_pid;
	unsigned int in_user, in_kernel;
	uint64_t ip_low, ip_high;
} wanted;

static int take_switch(const struct sampler_record *record, void *data)
{
	int32_t pid;
	int64_t state;

	take(record, data);
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
	struct sampler_request request = request_of(NULL, &event, 1);
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
	sampler = opened(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	sampler_disable(sampler);
	cr_assert_eq(sampler_read(sampler, 1, take_switch, NULL), 0);
	cr_expect_eq(wanted.departs, SLEEPS + 1, "%u departures", wanted.departs);
	cr_expect_eq(wanted.raw_departs, SLEEPS + 1, "%u in raw data", wanted.raw_departs);
	cr_expect_geq(wanted.in_user, SLEEPS + 1, "%u user ips", wanted.in_user);
	cr_expect_eq(wanted.strange, 0);
	cr_expect_eq(seen.lost, 0);
	cr_expect(!seen.is_disordered);
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
			touch(area + (size_t)i * PAGE);
		madvise(area, (size_t)PAGES * PAGE, MADV_DONTNEED);
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

	area_make();
	fixture_start(&fixture, touches_again);
	fixture_wait(&fixture, 1);
	request = request_of(&fixture.pid, &faults, 1);
	request.ring_bytes = PAGE;
	sampler = opened(&request);
	counter = counter_open(fixture.pid);
	cr_assert_geq(counter, 0);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	cr_assert(AWAIT(target_thread_state(fixture.pid, fixture.pid) == 'S'));
	/* in the midst, so that the kernel reports a loss in the ring, and another is left */
	cr_assert_eq(sampler_read(sampler, 0, take, NULL), 0);
	read_all(sampler);
	cr_assert_eq(read(counter, &count, sizeof(count)), sizeof(count));
	cr_expect_gt(seen.lost, 0);
	cr_expect_eq(seen.kinds[SAMPLER_SAMPLE] + seen.lost, count,
		     "%u recorded and %lu lost of %lu", seen.kinds[SAMPLER_SAMPLE],
		     (unsigned long)seen.lost, (unsigned long)count);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.lost, seen.lost);
	cr_expect_eq(coverage.ring_bytes, PAGE);
	close(counter);
	sampler_close(sampler);
	fixture_end(&fixture);
}
