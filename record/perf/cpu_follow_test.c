/* SPDX-License-Identifier: MIT */
/*
 * Which CPUs the machine has, and what becomes of their events, with a simulated kernel. Its CPUs
 * come and go on command, its clocks can stop, and it refuses what the test selects. hotplug_test.c
 * tests the real kernel.
 */
#include "base/testing/await.h"
#include "record/perf/instance.h"
#include "record/perf/object.h"
#include "record/perf/testing/fixture.h"
#include "target/claim/ledger.h"
#include "target/process/testing/folder.h"
#include "target/process/ticks.h"
#include "target/trial/trial.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

#define CPUS 3
#define FDS 256

static struct kernel {
	int is_fake; /* its events too, not the CPUs alone */
	int online[CPUS], present[CPUS];
	int refuse[CPUS]; /* opening there */
	int frozen_reads; /* so many reads see stopped clocks */
	unsigned int opened, enabled;
	struct {
		int is_open, cpu, is_dropped;
		struct instance_count count;
	} events[FDS];
} kernel;

static int list(const int *which, unsigned int **cpus, size_t *count)
{
	*cpus = calloc(CPUS, sizeof(**cpus));
	*count = 0;
	for (unsigned int i = 0; i < CPUS; i++)
		if (which[i])
			(*cpus)[(*count)++] = i;
	return 0;
}

int __wrap_cpus_online(unsigned int **cpus, size_t *count);
int __wrap_cpus_online(unsigned int **cpus, size_t *count)
{
	return list(kernel.online, cpus, count);
}

int __wrap_cpus_present(unsigned int **cpus, size_t *count);
int __wrap_cpus_present(unsigned int **cpus, size_t *count)
{
	return list(kernel.present, cpus, count);
}

int __real_instance_open(struct instance *instance, const struct event_source *source,
			 const struct instance_form *form, int group_fd);
int __wrap_instance_open(struct instance *instance, const struct event_source *source,
			 const struct instance_form *form, int group_fd);
int __wrap_instance_open(struct instance *instance, const struct event_source *source,
			 const struct instance_form *form, int group_fd)
{
	if (!kernel.is_fake)
		return __real_instance_open(instance, source, form, group_fd);
	instance->fd = -1;
	if (!kernel.online[instance->cpu])
		return -ENODEV;
	if (kernel.refuse[instance->cpu])
		return kernel.refuse[instance->cpu];
	instance->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_assert(instance->fd >= 0 && instance->fd < FDS);
	memset(&kernel.events[instance->fd], 0, sizeof(kernel.events[0]));
	kernel.events[instance->fd].is_open = 1;
	kernel.events[instance->fd].cpu = instance->cpu;
	kernel.opened++;
	return 0;
}

int __real_instance_read(const struct instance *instance, struct instance_count *count);
int __wrap_instance_read(const struct instance *instance, struct instance_count *count);
int __wrap_instance_read(const struct instance *instance, struct instance_count *count)
{
	if (!kernel.is_fake)
		return __real_instance_read(instance, count);
	cr_assert(kernel.events[instance->fd].is_open);
	if (!kernel.events[instance->fd].is_dropped && kernel.frozen_reads-- <= 0) {
		kernel.events[instance->fd].count.third += 100;
		kernel.events[instance->fd].count.enabled_ns += 100;
	}
	*count = kernel.events[instance->fd].count;
	return 0;
}

void __real_instance_enable(const struct instance *leader);
void __wrap_instance_enable(const struct instance *leader);
void __wrap_instance_enable(const struct instance *leader)
{
	if (!kernel.is_fake)
		__real_instance_enable(leader);
	kernel.enabled++;
}

void __real_trial_ask(enum trial trial, struct trial_answer *answer);
void __wrap_trial_ask(enum trial trial, struct trial_answer *answer);
void __wrap_trial_ask(enum trial trial, struct trial_answer *answer)
{
	if (kernel.is_fake)
		*answer = (struct trial_answer){ .state = TRIAL_WORKS };
	else
		__real_trial_ask(trial, answer);
}

int __real_trial_need(enum trial trial, int error, struct detail detail);
int __wrap_trial_need(enum trial trial, int error, struct detail detail);
int __wrap_trial_need(enum trial trial, int error, struct detail detail)
{
	return kernel.is_fake ? 0 : __real_trial_need(trial, error, detail);
}

static void go_offline(int cpu)
{
	kernel.online[cpu] = 0;
	for (int i = 0; i < FDS; i++)
		kernel.events[i].is_dropped |= kernel.events[i].cpu == cpu;
}

static void hit(int cpu, uint64_t times)
{
	for (int i = 0; i < FDS; i++)
		if (kernel.events[i].is_open && kernel.events[i].cpu == cpu &&
		    !kernel.events[i].is_dropped)
			kernel.events[i].count.hits += times;
}

static struct event_source sources[EVENT_SOURCES_MAX];
static struct event_request request;

static struct perf_object *arm_system(unsigned int count)
{
	kernel = (struct kernel){
		.is_fake = 1,
		.online = { 1, 1 },
		.present = { 1, 1, 1 },
	};
	fixture_request(&request, sources, EVENT_SYSTEM, 0, count);
	return fixture_arm(&request);
}

static void follow(struct perf_object *object)
{
	cr_assert_eq(perf_object_follow(object, (struct detail){ 0 }), 0);
}

static size_t uncovered(const struct perf_object *object, struct event_uncovered *last)
{
	size_t count;
	const struct event_uncovered *all = perf_object_uncovered(object, &count);

	if (count)
		*last = all[count - 1];
	return count;
}

static int why_missing(struct perf_object *object, int cpu)
{
	struct event_coverage coverage;
	int why = 0;

	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	for (unsigned int i = 0; i < coverage.missing_count; i++)
		if (coverage.missing[i].cpu == cpu)
			why = coverage.missing[i].error;
	perf_coverage_release(&coverage);
	return why;
}

TestSuite(event_follow, .timeout = 60);

Test(event_follow, who_is_there_is_left_alone)
{
	struct perf_object *object = arm_system(2);
	struct event_uncovered last;

	cr_assert_eq(kernel.opened, 4);
	follow(object);
	/* a clock as coarse as the tick is no event that was dropped */
	kernel.frozen_reads = 2;
	follow(object);
	cr_assert_eq(kernel.opened, 4);
	cr_assert_eq(uncovered(object, &last), 0);
	perf_object_disarm(object);
	cr_assert_eq(uncovered(object, &last), 0);
	cr_assert_eq(perf_object_follow(object, (struct detail){ 0 }), -EINVAL);
	perf_object_release(object);
}

/* The events' own clock shows until when they were there. */
Test(event_follow, the_time_without_begins_where_the_events_ended)
{
	struct perf_object *object = arm_system(1);
	struct event_uncovered last;
	uint64_t before, after, gone;

	before = ticks_monotonic_ns();
	follow(object);
	after = ticks_monotonic_ns();
	hit(1, 3);
	for (int i = 0; i < FDS; i++)
		kernel.events[i].count.enabled_ns += 1000000;
	go_offline(1);
	kernel.online[1] = 1;
	cr_assert(AWAIT(ticks_monotonic_ns() > after + 1000000 + 1000), "the clock is stopped");
	gone = ticks_monotonic_ns();
	follow(object);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 1);
	cr_assert_geq(last.first_ns, before + 1000000);
	cr_assert_leq(last.first_ns, after + 1000000 + 1000);
	cr_assert(last.last_ns >= gone && last.last_ns <= ticks_monotonic_ns());
	hit(1, 4);
	cr_assert_eq(fixture_count(object, 0), 7);
	perf_object_disarm(object);
	cr_assert_eq(fixture_count(object, 0), 7);
	perf_object_release(object);
}

/* Nothing runs on a CPU that is offline. */
Test(event_follow, the_time_without_begins_where_it_was_seen_offline)
{
	struct perf_object *object = arm_system(1);
	uint64_t armed = ticks_monotonic_ns(), seen;
	struct event_uncovered last;

	go_offline(1);
	/* longer than the events' own clock has run */
	cr_assert(AWAIT(ticks_monotonic_ns() > armed + 1000000), "the clock is stopped");
	seen = ticks_monotonic_ns();
	follow(object);
	kernel.online[1] = 1;
	follow(object);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_geq(last.first_ns, seen);
	perf_object_release(object);
}

Test(event_follow, who_came_back_and_was_not_followed_is_told_at_the_end)
{
	struct perf_object *object = arm_system(1);
	struct event_uncovered last;

	go_offline(1);
	follow(object);
	kernel.online[1] = 1;
	perf_object_disarm(object);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 1);
	perf_object_release(object);
}

Test(event_follow, who_refuses_is_told_and_asked_again)
{
	struct perf_object *object = arm_system(2);
	unsigned int descriptors = fixture_descriptors();
	struct event_uncovered last;
	int why;

	kernel.online[2] = 1;
	kernel.refuse[2] = -ENOSPC;
	for (int i = 0; i < 3; i++) {
		follow(object);
		why = why_missing(object, 2);
		/* who may not watch CPUs at all hears of that */
		cr_assert(why == -WM_E_EVENT_TAKEN || (geteuid() && why == -WM_E_PERF_DENIED));
		cr_assert_eq(uncovered(object, &last), 0);
	}
	cr_assert_eq(fixture_descriptors(), descriptors);
	kernel.refuse[2] = 0;
	follow(object);
	cr_assert_eq(why_missing(object, 2), 0);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 2);
	hit(2, 5);
	cr_assert_eq(fixture_count(object, 1), 5);
	perf_object_release(object);
}

Test(event_follow, who_refuses_to_the_end_is_told_as_not_covered)
{
	struct perf_object *object = arm_system(1);
	struct event_uncovered last;

	kernel.online[2] = 1;
	kernel.refuse[2] = -ENOSPC;
	follow(object);
	perf_object_disarm(object);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 2);
	perf_object_release(object);
}

Test(event_follow, one_that_goes_while_arming_is_no_error_of_a_system)
{
	const unsigned int cpus[] = { 0, 1 };
	struct perf_object *object;

	kernel = (struct kernel){ .is_fake = 1, .online = { 1, 1 }, .refuse = { 0, -ENODEV } };
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 1);
	object = fixture_arm(&request);
	cr_assert_eq(why_missing(object, 1), -WM_E_EVENT_CAME_LATER);
	perf_object_release(object);
	fixture_request(&request, sources, EVENT_CPUS, 0, 1);
	request.cpus = cpus;
	request.cpu_count = 2;
	cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
	cr_assert_eq(perf_object_arm(object, (struct detail){ 0 }), -ENODEV);
	perf_object_release(object);
}

static size_t claimed_on(int cpu)
{
	struct claim_list list = { 0 };
	size_t count = 0;

	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	for (size_t i = 0; i < list.count; i++)
		count += list.rows[i].owner.pid == getpid() && list.rows[i].claim.target == cpu &&
			 list.rows[i].claim.scope == CLAIM_OF_CPU &&
			 list.rows[i].state == CLAIM_HELD;
	claim_list_release(&list);
	return count;
}

Test(event_follow, a_cpu_that_comes_later_is_claimed_once)
{
	char dir[] = "/tmp/waymark-kevent.XXXXXX", path[64];
	struct perf_object *object;
	struct ledger *ledger;

	cr_assert(mkdtemp(dir));
	setenv("XDG_RUNTIME_DIR", dir, 1);
	cr_assert_eq(ledger_new(&ledger), 0);
	kernel = (struct kernel){ .is_fake = 1, .online = { 1, 1 } };
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 2);
	request.ledger = ledger;
	object = fixture_arm(&request);
	cr_assert_eq(claimed_on(1), 2);
	kernel.online[2] = 1;
	for (int i = 0; i < 2; i++) {
		follow(object);
		cr_assert_eq(claimed_on(2), 2);
		go_offline(2);
		go_offline(1);
		follow(object);
		kernel.online[1] = kernel.online[2] = 1;
	}
	follow(object);
	cr_assert_eq(claimed_on(1), 2);
	cr_assert_eq(claimed_on(2), 2);
	perf_object_disarm(object);
	cr_assert_eq(claimed_on(2), 0);
	perf_object_release(object);
	ledger_free(ledger);
	snprintf(path, sizeof(path), "%s/waymark", dir);
	rmdir(path);
	cr_assert_eq(rmdir(dir), 0, "nothing stays");
}

/* A claim on the system, and an object that takes its places. No real register is touched. */
Test(event_follow, what_is_reserved_on_cpus_is_taken_over)
{
	struct perf_object *reserved, *object;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };

	folder_make();
	kernel = (struct kernel){ .is_fake = 1, .online = { 1, 1 } };
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 2);
	cr_assert_eq(ledger_new(&request.ledger), 0);
	cr_assert_eq(perf_object_new(&reserved, &request, detail), 0);
	cr_assert_eq(perf_object_reserve(reserved, detail), 0, "%s", text);
	cr_expect_eq(claimed_on(0), 2);
	cr_expect_eq(claimed_on(1), 2);
	cr_expect_eq(kernel.enabled, 0, "what is reserved fires");
	request.reserved = reserved;
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_assert_eq(perf_object_arm(object, detail), 0, "%s", text);
	cr_expect_eq(perf_object_state(reserved), EVENT_DISARMED);
	cr_expect_eq(claimed_on(1), 2);
	perf_object_release(object);
	perf_object_release(reserved);
	cr_expect_eq(claimed_on(1), 0);
	ledger_free(request.ledger);
	folder_remove();
}

/* ---- threads, with the real kernel's events ---- */

static struct fixture_shared *shared; /* the child's */

static BED_STORES void *store_there(void *data)
{
	cpu_set_t one;

	(void)data;
	for (unsigned int step = 2; step < 50; step++) {
		fixture_meet(shared, step);
		CPU_ZERO(&one);
		CPU_SET(shared->data ? 0 : 1, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			_exit(5);
		words[0] = step;
	}
	return NULL;
}

/* Three threads store from step 2 on; one of them has the events by inheritance. */
static void storers(struct fixture_shared *own)
{
	shared = own;
	/* make the current user permanent: else we could not be inspected */
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()))
		_exit(6);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fixture_threads(1, store_there, NULL);
	fixture_meet(own, 1);
	fixture_threads(1, store_there, NULL);
	store_there(NULL);
}

struct counted {
	unsigned int count, after_loss;
	int is_first_after; /* a loss */
};

static int count_only(void *data, const struct event_record *record)
{
	struct counted *counted = data;

	if (!counted->count)
		counted->is_first_after = record->after_loss;
	counted->count++;
	counted->after_loss += record->after_loss;
	return 0;
}

/* CPU 1 is not there yet, and no thread has stored to a word. */
static struct perf_object *arm_storers(struct fixture *fixture, uint32_t ring_bytes)
{
	struct perf_object *object;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("one CPU");
	kernel = (struct kernel){ .online = { 1 }, .present = { 1 } };
	fixture_start(fixture, storers);
	fixture_wait(fixture, 2);
	fixture_request(&request, sources, EVENT_PROCESS, fixture->pid, 2);
	request.flags = EVENT_RINGS;
	request.ring_bytes = ring_bytes;
	object = fixture_arm(&request);
	fixture_step(fixture, 1, 2);
	fixture_step(fixture, 2, 3);
	cr_assert_eq(fixture_count(object, 0), 0);
	return object;
}

Test(event_follow, threads_have_a_ring_on_a_cpu_that_is_brought_later,
     .init = fixture_need_breakpoints)
{
	struct perf_object *object;
	struct event_uncovered last;
	struct counted counted = { 0 };
	struct fixture fixture;

	object = arm_storers(&fixture, 16384);
	kernel.online[1] = 1;
	cr_assert_eq(why_missing(object, 1), -WM_E_EVENT_CAME_LATER);
	follow(object);
	cr_assert_eq(why_missing(object, 1), 0);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 1);
	fixture_step(&fixture, 3, 3);
	follow(object);
	fixture_step(&fixture, 4, 3);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, count_only, &counted), 0);
	cr_assert_eq(counted.count, 6, "%u", counted.count);
	cr_assert(counted.is_first_after, "what was before was not seen");
	cr_assert_lt(counted.after_loss, 6, "but then all was");
	cr_assert_eq(perf_object_lost(object), 0);
	cr_assert_eq(uncovered(object, &last), 1);
	perf_object_release(object);
	fixture_end(&fixture);
}

static void limit(int resource, rlim_t soft)
{
	struct rlimit now;

	cr_assert_eq(getrlimit((__rlimit_resource_t)resource, &now), 0);
	if (soft > now.rlim_max)
		cr_skip_test("the limit can't be raised");
	now.rlim_cur = soft;
	cr_assert_eq(setrlimit((__rlimit_resource_t)resource, &now), 0);
}

/*
 * The first rings take what an ordinary user may lock; at most a little over half of that is left.
 */
Test(event_follow, a_ring_that_comes_later_has_what_is_left, .init = fixture_need_breakpoints)
{
	struct perf_object *object;
	struct counted counted = { 0 };
	struct fixture fixture;

	fixture_become_ordinary();
	limit(RLIMIT_MEMLOCK, 6 << 20);
	object = arm_storers(&fixture, 0);
	kernel.online[1] = 1;
	follow(object);
	cr_assert_eq(why_missing(object, 1), 0);
	fixture_step(&fixture, 3, 3);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, count_only, &counted), 0);
	cr_assert_eq(counted.count, 3, "%u", counted.count);
	perf_object_release(object);
	fixture_become_root();
	fixture_end(&fixture);
}

Test(event_follow, a_ring_that_is_refused_is_told_and_asked_for_again,
     .init = fixture_need_breakpoints)
{
	struct perf_object *object;
	struct event_uncovered last;
	struct counted counted = { 0 };
	unsigned int descriptors;
	struct rlimit before;
	struct fixture fixture;
	uint64_t came;

	object = arm_storers(&fixture, 16384);
	descriptors = fixture_descriptors();
	kernel.online[1] = 1;
	came = ticks_monotonic_ns();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int i = 0; i < 2; i++) {
		limit(RLIMIT_NOFILE, 3);
		follow(object);
		limit(RLIMIT_NOFILE, before.rlim_cur);
		cr_assert_eq(why_missing(object, 1), -EMFILE);
		cr_assert_eq(uncovered(object, &last), 0);
	}
	cr_assert_eq(fixture_descriptors(), descriptors);
	/* on the other CPU */
	fixture.shared->data = 1;
	fixture_step(&fixture, 3, 3);
	cr_assert_eq(perf_object_drain(object, 1, count_only, &counted), 0);
	cr_assert_eq(counted.count, 3, "%u", counted.count);
	cr_assert_eq(counted.after_loss, 3, "nobody knows what was stored between");
	follow(object);
	cr_assert_eq(why_missing(object, 1), 0);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_leq(last.first_ns, came, "it was there without a ring from then on");
	perf_object_release(object);
	fixture_end(&fixture);
}

Test(event_follow, threads_on_a_cpu_without_a_ring_are_told_at_the_end,
     .init = fixture_need_breakpoints)
{
	struct perf_object *object;
	struct event_uncovered last;
	struct fixture fixture;

	object = arm_storers(&fixture, 16384);
	kernel.online[1] = 1;
	perf_object_disarm(object);
	cr_assert_eq(uncovered(object, &last), 1);
	cr_assert_eq(last.cpu, 1);
	cr_assert_leq(last.last_ns, perf_object_disarmed_ns(object));
	perf_object_release(object);
	fixture_end(&fixture);
}
