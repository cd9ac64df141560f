/* SPDX-License-Identifier: MIT */
/*
 * Of what a sampler records: threads that come meanwhile, CPUs that come, cgroups, users; and what
 * does not fit.
 */
#include "base/testing/await.h"
#include "record/perf/cpus.h"
#include "record/perf/sampler.h"
#include "record/perf/testing/fixture.h"
#include "record/perf/testing/sampled.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define CHAINS 4u
#define MANY 300u /* events, for which as many descriptors do not suffice */

/* ---- threads ---- */

/* Each starts the next one, and ends: from step 2 on it touches a page first. */
static void *chain(void *data)
{
	struct fixture_shared *shared = data;
	unsigned int own;

	if (__atomic_load_n(&shared->step, __ATOMIC_ACQUIRE) >= 2) {
		own = __atomic_fetch_add(&shared->started, 1, __ATOMIC_RELAXED);
		if (own >= PAGES) {
			__atomic_add_fetch(&shared->ended, 1, __ATOMIC_RELEASE);
			return NULL;
		}
		sampled_touch(sampled_area + (size_t)own * PAGE);
	}
	fixture_threads(1, chain, shared);
	return NULL;
}

static void starts_threads(struct fixture_shared *shared)
{
	fixture_threads(CHAINS, chain, shared);
	fixture_meet(shared, 3);
}

/*
 * A thread that was missed would be so with all that follow in its chain; and likewise one that
 * inherited the events and was opened as well.
 */
/* Returns whether it is certain that none was missed. */
static int record_chains(void)
{
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;

	sampled = (struct sampled){ 0 };
	fixture_start(&fixture, starts_threads);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, &sampled_faults, 1);
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 2, 0);
	cr_assert(AWAIT(__atomic_load_n(&fixture.shared->ended, __ATOMIC_ACQUIRE) == CHAINS));
	sampled_end(sampler);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(sampled.lost, 0);
	for (unsigned int i = 0; i < PAGES && !coverage.is_doubtful; i++)
		cr_assert_eq(sampled.of_page[i], 1, "page %u: %u records", i, sampled.of_page[i]);
	sampler_close(sampler);
	fixture_end(&fixture);
	return !coverage.is_doubtful;
}

Test(sampler_extent, threads_that_come_meanwhile_are_recorded_once)
{
	fixture_need_own_threads();
	sampled_area_make();
	for (int i = 0; i < 10; i++)
		if (!record_chains())
			cr_skip_test("the child was not stopped in time, as the coverage says");
}

/* ---- CPUs ---- */

static int hides_cpus; /* all but the first */

int __real_cpus_online(unsigned int **cpus, size_t *count);
int __wrap_cpus_online(unsigned int **cpus, size_t *count);

int __wrap_cpus_online(unsigned int **cpus, size_t *count)
{
	int err = __real_cpus_online(cpus, count);

	if (!err && hides_cpus)
		*count = 1;
	return err;
}

/* As the kernel does when a CPU goes: the descriptor stays, and its event counts no more. */
static void drops(int fd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.disabled = 1,
	};
	long idle = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	cr_assert_geq(idle, 0);
	cr_assert_eq(dup3((int)idle, fd, O_CLOEXEC), fd);
	close((int)idle);
}

static unsigned int own_cpu; /* of the child */

static void touches(struct fixture_shared *shared)
{
	fixture_meet(shared, 1);
	for (unsigned int i = 0; i < PAGES; i++)
		sampled_touch(sampled_area + (size_t)i * PAGE);
	fixture_meet(shared, 2);
}

static void touches_there(struct fixture_shared *shared)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(own_cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(1);
	touches(shared);
}

static void expect_each_page(void)
{
	for (unsigned int i = 0; i < PAGES; i++)
		cr_assert_eq(sampled.of_page[i], 1, "page %u: %u records; %lu lost", i,
			     sampled.of_page[i], (unsigned long)sampled.lost);
}

/* The rings have the faults of all programs, and are full where many build at the same time. */
static void expect_each_page_of_cpus(void)
{
	if (sampled.lost)
		cr_skip_test("other programs have filled the rings");
	expect_each_page();
}

/* The fixture's saved user may be root, whom no ordinary user records. */
static void touches_as_ordinary(struct fixture_shared *shared)
{
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()) ||
	    prctl(PR_SET_DUMPABLE, 1))
		_exit(1);
	touches(shared);
}

/* A program that will touch the area on the last CPU. Returns how many CPUs there are. */
static size_t start_on_last_cpu(struct fixture *fixture)
{
	unsigned int *cpus;
	size_t count;

	cr_assert_eq(cpus_online(&cpus, &count), 0);
	if (count < 2)
		cr_skip_test("there is one CPU only");
	own_cpu = cpus[count - 1];
	free(cpus);
	sampled_area_make();
	fixture_start(fixture, touches_there);
	fixture_wait(fixture, 1);
	return count;
}

/* As far as the sampler sees: no CPU of the machine is taken away. */
Test(sampler_extent, a_cpu_that_comes_is_recorded)
{
	struct sampler_request request = sampled_request(NULL, &sampled_faults, 1);
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;
	size_t count = start_on_last_cpu(&fixture);

	hides_cpus = 1;
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	cr_assert_eq(sampler_follow(sampler), 0);
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.cpus, 1);
	hides_cpus = 0;
	cr_assert_eq(sampler_follow(sampler), 0);
	fixture_step(&fixture, 1, 1);
	hides_cpus = 1; /* it goes, and what it recorded is still read */
	cr_assert_eq(sampler_follow(sampler), 0);
	hides_cpus = 0;
	cr_assert_eq(sampler_follow(sampler), 0);
	sampled_end(sampler);
	expect_each_page_of_cpus();
	sampler_covered(sampler, &coverage);
	cr_expect_eq(coverage.cpus, count);
	cr_expect_geq(coverage.cpus_back, 2);
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* Its events were opened, and enabling them does nothing: the kernel has dropped them. */
Test(sampler_extent, a_cpu_that_goes_between_open_and_enable_is_recorded_when_it_is_back)
{
	struct sampler_request request = sampled_request(NULL, &sampled_faults, 1);
	struct sampler *sampler;
	struct fixture fixture;

	start_on_last_cpu(&fixture);
	sampler = sampled_open(&request);
	for (size_t i = 0; i < sampler->extent.count; i++)
		if (sampler->extent.opened[i].cpu == (int)own_cpu)
			drops(sampler->extent.opened[i].fd);
	hides_cpus = 1;
	sampler_enable(sampler);
	cr_assert_eq(sampler_follow(sampler), 0);
	hides_cpus = 0;
	cr_assert_eq(sampler_follow(sampler), 0);
	fixture_step(&fixture, 1, 1);
	sampled_end(sampler);
	expect_each_page_of_cpus();
	sampler_close(sampler);
	fixture_end(&fixture);
}

/* ---- cgroups ---- */

static int cgroup_make(char *path, size_t bytes)
{
	char line[512], mount[256], type[64];
	FILE *mounts = fopen("/proc/mounts", "re");

	*path = '\0';
	while (mounts && fgets(line, sizeof(line), mounts))
		if (sscanf(line, "%*s %255s %63s", mount, type) == 2 && !strcmp(type, "cgroup2"))
			snprintf(path, bytes, "%s/waymark-test-%d", mount, (int)getpid());
	if (mounts)
		fclose(mounts);
	if (!*path || mkdir(path, 0755))
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int cgroup_join(const char *path, pid_t pid)
{
	char file[512];
	FILE *procs;
	int err;

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	procs = fopen(file, "we");
	if (!procs)
		return -1;
	err = fprintf(procs, "%d\n", (int)pid) < 0;
	return fclose(procs) || err ? -1 : 0;
}

Test(sampler_extent, of_a_cgroup_others_are_left_out)
{
	struct sampler_request request = sampled_request(NULL, &sampled_faults, 1);
	struct fixture inside, outside;
	struct sampler *sampler;
	char path[300];

	request.cgroup_fd = cgroup_make(path, sizeof(path));
	if (request.cgroup_fd < 0)
		cr_skip_test("no cgroup is to be made");
	sampled_area_make();
	fixture_start(&inside, touches);
	fixture_start(&outside, touches);
	cr_assert_eq(cgroup_join(path, inside.pid), 0);
	fixture_wait(&inside, 1);
	fixture_wait(&outside, 1);
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&inside, 1, 1);
	fixture_step(&outside, 1, 1);
	sampled_end(sampler);
	expect_each_page(); /* both have the same addresses */
	sampler_close(sampler);
	fixture_end(&inside);
	fixture_end(&outside);
	close(request.cgroup_fd);
	rmdir(path);
}

/* ---- limits ---- */

static void refused(const struct sampler_request *request, int wanted, const char *text)
{
	unsigned int before = fixture_descriptors();
	struct sampler *sampler;
	int err = sampler_open(&sampler, request, sampled_detail);

	cr_assert_eq(err, wanted, "%s: %s", wm_error_text(err), sampled_words);
	cr_expect_null(sampler);
	cr_expect(strstr(sampled_words, text), "no '%s' in: %s", text, sampled_words);
	cr_expect_eq(fixture_descriptors(), before);
}

Test(sampler_extent, a_cgroup_that_was_removed_is_refused)
{
	struct sampler_request request = sampled_request(NULL, &sampled_faults, 1);
	char path[300];

	request.cgroup_fd = cgroup_make(path, sizeof(path));
	if (request.cgroup_fd < 0)
		cr_skip_test("no cgroup is to be made");
	rmdir(path);
	refused(&request, -ENOENT, "the cgroup was removed");
	close(request.cgroup_fd);
}

Test(sampler_extent, descriptors_are_counted_before_any_is_opened)
{
	pid_t self = getpid();
	struct sampler_event events[MANY];
	struct sampler_request request = sampled_request(&self, events, MANY);
	struct rlimit limit;

	for (unsigned int i = 0; i < MANY; i++)
		events[i] = sampled_faults;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	/* the soft limit is raised as far as it may be */
	limit.rlim_cur = fixture_descriptors() + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	sampler_close(sampled_open(&request));
	limit.rlim_cur = limit.rlim_max = MANY;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	refused(&request, -WM_E_NO_DESCRIPTORS, "RLIMIT_NOFILE allows");
	request.event_count = 1;
	sampler_close(sampled_open(&request));
}

Test(sampler_extent, rings_are_as_large_as_the_user_may_lock)
{
	const struct rlimit none = { 0 };
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	fixture_become_ordinary();
	fixture_start(&fixture, touches_as_ordinary);
	fixture_wait(&fixture, 1);
	request = sampled_request(&fixture.pid, NULL, 0);
	request.switches = 1;
	sampler = sampled_open(&request);
	sampler_covered(sampler, &coverage);
	cr_expect(coverage.ring_bytes >= PAGE && coverage.ring_bytes < 4u << 20, "%lu bytes",
		  (unsigned long)coverage.ring_bytes);
	sampler_close(sampler);
	request.ring_bytes = 64u << 20;
	refused(&request, -WM_E_MEMORY_LIMIT, "perf_event_mlock_kb allows");
	fixture_end(&fixture);
}

Test(sampler_extent, what_is_no_request_is_refused)
{
	const pid_t gone = 0x7ffffff0, self = getpid();
	struct sampler_event event = sampled_faults;
	struct sampler_request request = sampled_request(&gone, &event, 1);

	refused(&request, -WM_E_GONE, "process");
	request.pids = &self;
	event.what.config = 12345;
	refused(&request, -WM_E_COUNT_UNIT, "page-faults");
	event.period = 0;
	refused(&request, -EINVAL, "page-faults");
	request.event_count = 0;
	refused(&request, -EINVAL, "");
}

/* ---- users ---- */

static int paranoid(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = 4;

	if (file && fscanf(file, "%d", &level) != 1)
		level = 4;
	if (file)
		fclose(file);
	return level;
}

/* An ordinary user at the level 2: perf is theirs, the kernel is not. */
static void ordinary(struct fixture *fixture)
{
	if (paranoid() != 2)
		cr_skip_test("kernel.perf_event_paranoid is not 2");
	fixture_become_ordinary();
	fixture_start(fixture, touches_as_ordinary);
	fixture_wait(fixture, 1);
}

Test(sampler_extent, an_ordinary_user_has_user_space)
{
	struct sampler_request request;
	struct sampler_coverage coverage;
	struct sampler *sampler;
	struct fixture fixture;

	sampled_area_make();
	ordinary(&fixture);
	request = sampled_request(&fixture.pid, &sampled_faults, 1);
	request.switches = 1;
	sampler = sampled_open(&request);
	sampler_enable(sampler);
	fixture_step(&fixture, 1, 1);
	sampled_end(sampler);
	expect_each_page();
	cr_expect_geq(sampled.kinds[SAMPLER_ARRIVE], 1);
	sampler_covered(sampler, &coverage);
	cr_expect(coverage.excludes_kernel);
	sampler_close(sampler);
	fixture_end(&fixture);
}

Test(sampler_extent, an_ordinary_user_is_refused_what_is_the_kernels)
{
	static const struct sampler_event rows[] = {
		{ .what = { .name = "context-switches",
			    .type = PERF_TYPE_SOFTWARE,
			    .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
		  .period = 1 },
		{ .what = { .name = "sched:sched_switch",
			    .type = PERF_TYPE_TRACEPOINT,
			    .config = 1 },
		  .period = 1,
		  .wants = SAMPLER_RAW },
	};
	static const struct sampler_event watch = {
		.what = { .name = "watch:jiffies@kernel:w", .type = PERF_TYPE_BREAKPOINT },
		.period = 1,
		.bp_address = UINT64_C(0xffffffff82000000),
		.bp_type = HW_BREAKPOINT_W,
		.bp_bytes = 8,
	};
	struct sampler_request request;
	struct fixture fixture;

	ordinary(&fixture);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		request = sampled_request(&fixture.pid, &rows[i], 1);
		refused(&request, -WM_E_PERF_DENIED, "CAP_PERFMON");
		cr_expect(strstr(sampled_words, "kernel.perf_event_paranoid"), "%s", sampled_words);
		cr_expect(strstr(sampled_words, rows[i].what.name), "%s", sampled_words);
	}
	request = sampled_request(&fixture.pid, &watch, 1);
	refused(&request, -EINVAL, "is of CPUs");
	request = sampled_request(NULL, &sampled_faults, 1);
	refused(&request, -WM_E_PERF_DENIED, "kernel.perf_event_paranoid at 0");
	fixture_end(&fixture);
}

Test(sampler_extent, another_users_program_is_not_a_matter_of_levels)
{
	pid_t roots;
	struct sampler_request request;
	struct fixture fixture;

	if (geteuid() || paranoid() != 2)
		cr_skip_test("root's program is wanted, and kernel.perf_event_paranoid 2");
	fixture_start(&fixture, touches);
	roots = fixture.pid;
	fixture_become_ordinary();
	request = sampled_request(&roots, &sampled_faults, 1);
	refused(&request, -EPERM, "process");
	cr_expect(!strstr(sampled_words, "paranoid"), "%s", sampled_words);
	fixture_become_root();
	fixture_end(&fixture);
}
