/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"
#include "target/trial/testing/needs.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define SI_PERF 6 /* TRAP_PERF */
#define ORDINARY 65534

volatile uint64_t words[BED_WORDS] __attribute__((aligned(64)));

static struct fixture_shared *caught;

void fixture_start(struct fixture *fixture, void (*main)(struct fixture_shared *))
{
	fixture->shared = mmap(NULL, sizeof(*fixture->shared), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(fixture->shared != MAP_FAILED);
	fixture->pid = fork();
	cr_assert(fixture->pid >= 0);
	if (!fixture->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		main(fixture->shared);
		_exit(0);
	}
}

void fixture_end(struct fixture *fixture)
{
	kill(fixture->pid, SIGKILL);
	waitpid(fixture->pid, NULL, __WALL);
	munmap(fixture->shared, sizeof(*fixture->shared));
}

/* How many are ready. Fails the test when the child has ended before so many were. */
static unsigned int ready_of(const struct fixture *fixture, unsigned int count)
{
	unsigned int ready = __atomic_load_n(&fixture->shared->ready, __ATOMIC_ACQUIRE);
	siginfo_t info = { 0 };

	if (ready >= count)
		return ready;
	waitid(P_PID, (id_t)fixture->pid, &info, WEXITED | WNOHANG | WNOWAIT);
	cr_assert_eq(info.si_pid, 0, "the child has ended with status %d", info.si_status);
	return ready;
}

void fixture_wait(const struct fixture *fixture, unsigned int count)
{
	cr_assert(AWAIT(ready_of(fixture, count) >= count), "%u of %u are there",
		  fixture->shared->ready, count);
}

void fixture_step(const struct fixture *fixture, unsigned int step, unsigned int ready)
{
	__atomic_store_n(&fixture->shared->ready, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&fixture->shared->step, step, __ATOMIC_RELEASE);
	syscall(SYS_futex, &fixture->shared->step, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	fixture_wait(fixture, ready);
}

void fixture_meet(struct fixture_shared *shared, unsigned int step)
{
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	for (;;) {
		unsigned int now = __atomic_load_n(&shared->step, __ATOMIC_ACQUIRE);

		if (now >= step)
			return;
		syscall(SYS_futex, &shared->step, FUTEX_WAIT, now, NULL, NULL, 0);
	}
}

void fixture_threads(unsigned int count, void *(*run)(void *), void *data)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&thread, &attr, run, data))
			_exit(3);
	pthread_attr_destroy(&attr);
}

/* si_perf_data, whatever the C library calls it: past si_addr, as the kernel lays it out. */
static uint64_t data_of(const siginfo_t *info)
{
	unsigned long data;

	__builtin_memcpy(&data, (const char *)&info->si_addr + sizeof(void *), sizeof(data));
	return data;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	uint64_t data = data_of(info);

	(void)context;
	if (signal != SIGTRAP || info->si_code != SI_PERF) {
		__atomic_add_fetch(&caught->strange, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_add_fetch(&caught->hits, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&caught->data, data, __ATOMIC_RELAXED);
	__atomic_store_n(&caught->address, (uint64_t)(uintptr_t)info->si_addr, __ATOMIC_RELAXED);
}

void fixture_catch(struct fixture_shared *shared)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER };

	caught = shared;
	sigaction(SIGTRAP, &action, NULL);
}

void fixture_request(struct event_request *request, struct event_source sources[EVENT_SOURCES_MAX],
		     enum event_scope scope, pid_t pid, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		sources[i] = (struct event_source){
			.kind = EVENT_WRITE,
			.bytes = 8,
			.address = (uint64_t)(uintptr_t)&words[i],
			.sig_data = UINT64_C(0xfeedc0de00000000) | (uint64_t)(i + 1) << 16,
		};
	*request = (struct event_request){
		.scope = scope,
		.pid = pid,
		.sources = sources,
		.source_count = count,
	};
}

/* As sources_proven() of record/perf/object.c asks them. */
void fixture_need_trials(const struct event_request *request)
{
	static const enum trial of_kind[] = {
		[EVENT_WRITE] = TRIAL_BREAKPOINT_WRITE,
		[EVENT_READ_WRITE] = TRIAL_BREAKPOINT_ACCESS,
		[EVENT_EXECUTE] = TRIAL_BREAKPOINT_EXECUTE,
	};

	for (unsigned int i = 0; i < request->source_count; i++)
		NEEDS(of_kind[request->sources[i].kind]);
	if (request->scope == EVENT_CPUS || request->scope == EVENT_SYSTEM)
		NEEDS(TRIAL_BREAKPOINT_CPU);
	if (request->flags & EVENT_SIGNAL)
		NEEDS(TRIAL_BREAKPOINT_SIGNAL);
}

struct perf_object *fixture_arm(const struct event_request *request)
{
	char text[512] = "";
	struct detail detail = { text, sizeof(text) };
	struct perf_object *object;
	int err;

	fixture_need_trials(request);
	err = perf_object_new(&object, request, detail);
	cr_assert_eq(err, 0, "%s: %s", wm_error_text(err), text);
	err = perf_object_arm(object, detail);
	cr_assert_eq(err, 0, "%s: %s", wm_error_text(err), text);
	return object;
}

uint64_t fixture_count(struct perf_object *object, unsigned int source)
{
	uint64_t hits;

	cr_assert_eq(perf_object_count(object, source, &hits), 0);
	return hits;
}

unsigned int fixture_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

void fixture_become_ordinary(void)
{
	if (geteuid())
		return;
	/*
	 * the saved user stays root, for fixture_become_root(): when we die, the kernel kills only
	 * children that our user may signal
	 */
	cr_assert_eq(setresgid(ORDINARY, ORDINARY, 0), 0);
	cr_assert_eq(setresuid(ORDINARY, ORDINARY, 0), 0);
	/* children are to be looked at */
	cr_assert_eq(prctl(PR_SET_DUMPABLE, 1), 0);
}

void fixture_become_root(void)
{
	uid_t real, effective, saved;

	if (getresuid(&real, &effective, &saved) || saved)
		return;
	cr_assert_eq(setresuid(0, 0, 0), 0);
	cr_assert_eq(setresgid(0, 0, 0), 0);
}

void fixture_need_cpus(void)
{
	if (!getenv("WAYMARK_TEST_CPUS"))
		cr_skip_test(
			"it would disturb whoever watches something; WAYMARK_TEST_CPUS=1 has it");
}

void fixture_need_registers(void)
{
	int found = instance_free_registers(getpid(), -1);

	if (found < 0)
		cr_skip_test("no breakpoints: %s", wm_error_text(found));
	if (found < EVENT_SOURCES_MAX)
		cr_skip_test("%d debug registers are free", found);
}

void fixture_need_breakpoints(void)
{
	NEEDS(TRIAL_BREAKPOINT_WRITE);
	fixture_need_registers();
}
