/* SPDX-License-Identifier: MIT */
/* waymark/claim.h: what is reserved is had by no one else, and is used by an event object. */
#include "record/perf/counter_claims.h"
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"
#include "target/claim/ledger.h"
#include "target/claim/limits.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/claim.h>
#include <waymark/error.h>
#include <waymark/kevent.h>

#define NOBODY 65534

static struct fixture fixture;

/* Its stores are at the steps. */
static void storing(struct fixture_shared *own)
{
	for (unsigned int step = 1; step < 90; step++) {
		fixture_meet(own, step);
		words[0]++;
	}
}

static void setup(void)
{
	fixture_need_breakpoints();
	folder_make();
	fixture_start(&fixture, storing);
	fixture_wait(&fixture, 1);
}

static void teardown(void)
{
	fixture_end(&fixture);
	folder_remove();
}

TestSuite(claim_api, .init = setup, .fini = teardown, .timeout = 60);

static struct wm_claim_request registers_of(pid_t pid, uint64_t count)
{
	struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;

	request.unit = WM_CLAIM_UNIT_DEBUG_REGISTER;
	request.scope = WM_CLAIM_SCOPE_PROCESS;
	request.pid = pid;
	request.count = count;
	request.what = "for later";
	return request;
}

static struct wm_claim *reserve(uint64_t count)
{
	struct wm_claim_request request = registers_of(fixture.pid, count);
	struct wm_claim *claim;

	cr_assert_eq(wm_claim_reserve(&claim, &request), 0, "%s", wm_claim_detail());
	return claim;
}

static int free_registers(void)
{
	return instance_free_registers(fixture.pid, -1);
}

static int open_with(struct wm_kevent **object, struct wm_claim *claim, unsigned int sources)
{
	struct wm_kevent_source all[4];
	struct wm_kevent_request request = WM_KEVENT_REQUEST_INIT;

	for (unsigned int i = 0; i < sources; i++) {
		all[i] = (struct wm_kevent_source)WM_KEVENT_SOURCE_INIT;
		all[i].kind = WM_KEVENT_KIND_WRITE;
		all[i].bytes = 8;
		all[i].address = (uintptr_t)&words[i];
		all[i].what = "watch:mine";
	}
	request.scope = WM_KEVENT_SCOPE_PROCESS;
	request.pid = fixture.pid;
	request.sources = all;
	request.source_count = sources;
	request.claim = claim;
	return wm_kevent_open(object, &request);
}

Test(claim_api, reserved_registers_are_refused_to_others_by_the_holders_name)
{
	struct wm_claim_request request = registers_of(fixture.pid, 2);
	struct wm_claim *claim = reserve(3), *other;
	struct wm_kevent *object;
	char is[128];

	cr_expect_eq(free_registers(), 1);
	cr_expect_eq(wm_claim_reserve(&other, &request), -WM_E_EVENT_TAKEN);
	cr_expect_null(other);
	snprintf(is, sizeof(is), " %d holds 3 (for later", getpid());
	cr_expect(strstr(wm_claim_detail(), is), "%s", wm_claim_detail());
	cr_expect_eq(free_registers(), 1, "a refused claim keeps a register");
	cr_assert_eq(open_with(&object, NULL, 2), 0);
	cr_expect_eq(wm_kevent_arm(object), -WM_E_EVENT_TAKEN);
	cr_expect(strstr(wm_kevent_detail(object), is), "%s", wm_kevent_detail(object));
	wm_claim_release(claim);
	cr_expect_eq(free_registers(), 4);
	cr_expect_eq(wm_kevent_arm(object), 0, "%s", wm_kevent_detail(object));
	wm_kevent_close(object);
}

Test(claim_api, an_object_takes_the_places_of_its_claim)
{
	struct wm_claim *claim = reserve(4);
	struct wm_kevent *object;
	struct claim_list list = { 0 };
	uint64_t hits;

	cr_expect_eq(free_registers(), 0);
	cr_assert_eq(open_with(&object, claim, 3), 0, "%s", wm_kevent_detail(NULL));
	cr_assert_eq(wm_kevent_arm(object), 0, "%s", wm_kevent_detail(object));
	cr_expect_eq(free_registers(), 1, "the one that is left is free");
	fixture_step(&fixture, 1, 1);
	cr_expect_eq(wm_kevent_count(object, 0, &hits), 0);
	cr_expect_eq(hits, 1);
	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	for (size_t i = 0; i < list.count; i++)
		cr_expect_str_eq(list.rows[i].claim.what, "watch:mine");
	cr_expect_eq(list.count, 4, "three registers and descriptors");
	claim_list_release(&list);
	wm_kevent_close(object);
	cr_expect_eq(free_registers(), 4);
}

Test(claim_api, an_object_that_is_closed_gives_its_claim_back)
{
	struct wm_claim *claim = reserve(4);
	struct wm_kevent *object;

	cr_assert_eq(open_with(&object, claim, 4), 0);
	cr_expect_eq(free_registers(), 0);
	wm_kevent_close(object);
	cr_expect_eq(free_registers(), 4);
}

Test(claim_api, a_claim_of_less_or_of_another_scope_is_refused)
{
	struct wm_claim_request request = registers_of(fixture.pid, 1);
	struct wm_claim *claim = reserve(1), *other;
	struct wm_kevent *object;

	cr_expect_eq(open_with(&object, claim, 2), -EINVAL);
	cr_expect(strstr(wm_kevent_detail(NULL), "1 debug registers, not 2"), "%s",
		  wm_kevent_detail(NULL));
	request.scope = WM_CLAIM_SCOPE_THREAD;
	cr_assert_eq(wm_claim_reserve(&other, &request), 0, "%s", wm_claim_detail());
	cr_expect_eq(open_with(&object, other, 1), -EINVAL);
	cr_expect(strstr(wm_kevent_detail(NULL), "another scope"), "%s", wm_kevent_detail(NULL));
	cr_expect_eq(free_registers(), 2, "the caller has them still");
	wm_claim_release(claim);
	wm_claim_release(other);
	cr_expect_eq(free_registers(), 4);
}

static int fail_to_settle(void *data, uint8_t generation)
{
	(void)data;
	(void)generation;
	return -EIO;
}

Test(claim_api, a_claim_has_its_places_again_when_arming_fails)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct perf_object *reserved, *object;
	struct event_request request;
	char text[512] = "";
	struct detail detail = { text, sizeof(text) };

	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	cr_assert_eq(ledger_new(&request.ledger), 0);
	cr_assert_eq(perf_object_new(&reserved, &request, detail), 0);
	cr_assert_eq(perf_object_reserve(reserved, detail), 0, "%s", text);
	fixture_step(&fixture, 1, 1);
	cr_expect_eq(fixture_count(reserved, 0), 0, "what is reserved fires");
	request.reserved = reserved;
	request.settle = fail_to_settle;
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_expect_eq(perf_object_arm(object, detail), -EIO);
	cr_expect_eq(perf_object_state(reserved), EVENT_RESERVED);
	cr_expect_eq(free_registers(), 0, "places are lost");
	perf_object_release(object);
	perf_object_release(reserved);
	ledger_free(request.ledger);
	cr_expect_eq(free_registers(), 4);
}

/* Hold four until killed; the pipe says when. */
static pid_t start_holder(void)
{
	int ends[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		struct wm_claim_request request = registers_of(fixture.pid, 4);
		struct wm_claim *claim;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (wm_claim_reserve(&claim, &request) || write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 1, "the holder was refused");
	close(ends[0]);
	return pid;
}

Test(claim_api, a_claim_ends_with_its_killed_owner)
{
	pid_t holder = start_holder();
	struct wm_claim_request request = registers_of(fixture.pid, 1);
	struct wm_claim *claim;
	char is[128];

	cr_expect_eq(wm_claim_reserve(&claim, &request), -WM_E_EVENT_TAKEN);
	snprintf(is, sizeof(is), " %d holds 4 (for later", holder);
	cr_expect(strstr(wm_claim_detail(), is), "%s", wm_claim_detail());
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	claim = reserve(4);
	wm_claim_release(claim);
}

static void *wait_thread(void *shared)
{
	struct fixture_shared *own = shared;

	__atomic_fetch_add(&own->started, 1, __ATOMIC_SEQ_CST);
	fixture_meet(own, 80);
	return NULL;
}

static void with_threads(struct fixture_shared *own)
{
	fixture_threads(8, wait_thread, own);
	fixture_meet(own, 1);
	fixture_threads(1, wait_thread, own);
	fixture_meet(own, 80);
}

Test(claim_api, all_threads_of_a_process_are_reserved_now_and_later)
{
	struct wm_claim_request request;
	struct wm_claim *claim;
	struct fixture many;
	char path[64];

	fixture_need_own_threads();
	fixture_start(&many, with_threads);
	fixture_wait(&many, 9);
	request = registers_of(many.pid, 2);
	cr_assert_eq(wm_claim_reserve(&claim, &request), 0, "%s", wm_claim_detail());
	/* a new thread comes, and waits with the first for step 80 */
	fixture_step(&many, 1, 2);
	snprintf(path, sizeof(path), "/proc/%d/task", many.pid);
	for (pid_t tid = many.pid; tid < many.pid + 64; tid++) {
		char task[96];

		snprintf(task, sizeof(task), "%s/%d", path, tid);
		if (!access(task, F_OK))
			cr_expect_eq(instance_free_registers(tid, -1), 2, "thread %d",
				     tid - many.pid);
	}
	wm_claim_release(claim);
	cr_expect_eq(instance_free_registers(many.pid, -1), 4);
	fixture_end(&many);
}

Test(claim_api, a_forked_child_leaves_the_claim_alone)
{
	struct wm_claim *claim = reserve(3);
	int status;
	pid_t pid = fork();

	if (!pid) {
		wm_claim_release(claim);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_eq(free_registers(), 1);
	wm_claim_release(claim);
}

/* ---- what comes in ---- */

Test(claim_api, a_request_that_contradicts_itself_is_refused_by_its_member)
{
	const unsigned int cpus[] = { 0 };
	struct wm_claim *claim;
	static const struct {
		int unit, scope;
		pid_t pid;
		int cpus;
		uint64_t count;
		const char *event, *says;
	} cases[] = {
		{ 0, 1, 1, 0, 1, NULL, "request.unit" },
		{ 4, 1, 1, 0, 1, NULL, "request.unit" },
		{ 7, 1, 1, 0, 1, NULL, "request.unit" },
		{ 1, 0, 1, 0, 1, NULL, "request.scope" },
		{ 1, 4, 1, 0, 1, NULL, "request.scope" },
		{ 1, 6, 1, 0, 1, NULL, "request.scope" },
		{ 3, 5, 1, 0, 1, NULL, "request.scope" },
		{ 1, 1, 0, 0, 1, NULL, "request.pid" },
		{ 1, 2, -5, 0, 1, NULL, "request.pid" },
		{ 1, 3, 0, 0, 1, NULL, "request.cpus" },
		{ 1, 1, 1, 0, 5, NULL, "request.count: 5, from 1 to 4" },
		{ 2, 1, 1, 0, 2, NULL, "request.count" },
		{ 3, 4, 0, 0, 0, NULL, "request.count" },
		{ 1, 1, 1, 0, 1, "cycles", "request.event" },
		{ 6, 1, 1, 0, 1, NULL, "request.event" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;

		request.unit = (enum wm_claim_unit)cases[i].unit;
		request.scope = (enum wm_claim_scope)cases[i].scope;
		request.pid = cases[i].pid;
		request.cpus = cases[i].cpus ? cpus : NULL;
		request.cpu_count = (size_t)cases[i].cpus;
		request.count = cases[i].count;
		request.event = cases[i].event;
		cr_expect_eq(wm_claim_reserve(&claim, &request), -EINVAL, "case %zu", i);
		cr_expect_null(claim);
		cr_expect(strstr(wm_claim_detail(), cases[i].says), "%zu: %s", i,
			  wm_claim_detail());
	}
	cr_expect_eq(wm_claim_reserve(NULL, NULL), -EINVAL);
	cr_expect_eq(wm_claim_reserve(&claim, NULL), -EINVAL);
	cr_expect_eq(wm_claim_list(NULL, NULL), -EINVAL);
}

Test(claim_api, a_request_of_another_release_is_taken_where_it_can_be)
{
	struct {
		struct wm_claim_request request;
		uint64_t more[4];
	} later = { .request = registers_of(fixture.pid, 1) };
	struct wm_claim *claim;

	later.request.size = sizeof(later);
	cr_assert_eq(wm_claim_reserve(&claim, &later.request), 0, "%s", wm_claim_detail());
	wm_claim_release(claim);
	later.more[3] = 1;
	cr_expect_eq(wm_claim_reserve(&claim, &later.request), -E2BIG);
	later.request.size = sizeof(later.request) - 1;
	cr_expect_eq(wm_claim_reserve(&claim, &later.request), -EINVAL);
	later.request.size = SIZE_MAX;
	cr_expect_eq(wm_claim_reserve(&claim, &later.request), -E2BIG);
}

/* ---- counters, bytes, the branch unit ---- */

struct found {
	unsigned int rows;
	struct wm_claim_row last;
	char what[128], name[32];
};

static int find(const struct wm_claim_row *row, void *data)
{
	struct found *found = data;

	if (row->pid != getpid() || row->flags & WM_CLAIM_ROW_PERF)
		return 0;
	found->rows++;
	found->last = *row;
	snprintf(found->what, sizeof(found->what), "%s", row->what);
	snprintf(found->name, sizeof(found->name), "%s", row->name);
	return 0;
}

Test(claim_api, a_counter_is_listed_until_it_is_released)
{
	struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;
	struct found found = { 0 };
	struct wm_claim *claim;
	int err;

	request.unit = WM_CLAIM_UNIT_COUNTER;
	request.scope = WM_CLAIM_SCOPE_THREAD;
	request.pid = fixture.pid;
	request.event = "page-faults";
	cr_assert_eq(wm_claim_reserve(&claim, &request), 0, "%s", wm_claim_detail());
	cr_expect_eq(wm_claim_list(find, &found), 0);
	cr_expect_eq(found.rows, 1);
	cr_expect_eq(found.last.unit, WM_CLAIM_UNIT_COUNTER);
	cr_expect_eq(found.last.scope, WM_CLAIM_SCOPE_THREAD);
	cr_expect_eq(found.last.target, fixture.pid);
	cr_expect_eq(found.last.uid, geteuid());
	cr_expect_eq(found.last.flags, WM_CLAIM_ROW_HELD);
	cr_expect_str_eq(found.what, "reserved");
	wm_claim_release(claim);
	found.rows = 0;
	cr_expect_eq(wm_claim_list(find, &found), 0);
	cr_expect_eq(found.rows, 0);
	request.event = "page-fault";
	cr_expect_eq(wm_claim_reserve(&claim, &request), -WM_E_COUNT_EVENT);
	cr_expect(strstr(wm_claim_detail(), "page-fault"), "%s", wm_claim_detail());
	request.event = "cycles"; /* where there is no such unit */
	err = wm_claim_reserve(&claim, &request);
	cr_expect(!err || err == -WM_E_COUNT_UNIT, "%d", err);
	wm_claim_release(claim);
}

/* As an ordinary user, whom the kernel limits. */
Test(claim_api, bytes_that_the_kernel_would_not_lock_are_refused_with_figures)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	int status, in[2];
	char text[512] = "";
	pid_t pid;

	if (geteuid())
		cr_skip_test("needs root to become another user");
	cr_assert_eq(pipe(in), 0);
	pid = fork();
	if (!pid) {
		struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;
		struct wm_claim *claim, *more;

		setrlimit(RLIMIT_MEMLOCK, &limit);
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		request.unit = WM_CLAIM_UNIT_LOCKED_BYTES;
		request.scope = WM_CLAIM_SCOPE_USER;
		request.count = 1 << 20;
		if (wm_claim_reserve(&claim, &request))
			_exit(2);
		request.count = UINT64_C(1) << 40;
		if (wm_claim_reserve(&more, &request) != -WM_E_MEMORY_LIMIT)
			_exit(3);
		if (write(in[1], wm_claim_detail(), strlen(wm_claim_detail())) < 0)
			_exit(4);
		wm_claim_release(claim);
		_exit(0);
	}
	close(in[1]);
	cr_expect_gt(read(in[0], text, sizeof(text) - 1), 0);
	close(in[0]);
	waitpid(pid, &status, 0);
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
	cr_expect(strstr(text, "1099511627776 asked, 1048576 of "), "%s", text);
	cr_expect(strstr(text, "bytes that this user may lock are taken; "), "%s", text);
	cr_expect(strstr(text, "holds 1024 KiB (reserved)"), "%s", text);
}

Test(claim_api, a_branch_unit_is_reserved_or_known_to_be_missing)
{
	struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;
	struct wm_claim *claim, *other;
	int err;

	request.unit = WM_CLAIM_UNIT_BRANCH;
	request.scope = WM_CLAIM_SCOPE_PROCESS;
	request.pid = fixture.pid;
	err = wm_claim_reserve(&claim, &request);
	if (err) {
		cr_expect_eq(err, -WM_E_TRAIL_NO_UNIT, "%s", wm_claim_detail());
		return;
	}
	cr_expect_eq(wm_claim_reserve(&other, &request), -WM_E_PERF_TAKEN);
	wm_claim_release(claim);
}

/* ---- limits ---- */

static void limit_to(const char *text)
{
	static char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/limits", folder);
	file = fopen(path, "w");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
	chmod(path, 0644);
	limits_path = path;
	limits_owner = geteuid();
}

Test(claim_api, limits_hold_for_claims_and_objects_and_count_what_is_handed_over_once)
{
	struct wm_claim_request request = registers_of(fixture.pid, 1);
	struct wm_claim *claim, *more;
	struct wm_kevent *object;

	limit_to("debug-registers-per-user = 2\ncounters-per-user = 0\n");
	claim = reserve(2);
	cr_expect_eq(wm_claim_reserve(&more, &request), -WM_E_LIMIT);
	cr_expect(strstr(wm_claim_detail(), "debug-registers-per-user = 2"), "%s",
		  wm_claim_detail());
	cr_expect_eq(free_registers(), 2);
	cr_assert_eq(open_with(&object, NULL, 1), 0);
	cr_expect_eq(wm_kevent_arm(object), -WM_E_LIMIT);
	cr_expect(strstr(wm_kevent_detail(object), "/limits:1"), "%s", wm_kevent_detail(object));
	wm_kevent_close(object);
	cr_assert_eq(open_with(&object, claim, 2), 0);
	cr_expect_eq(wm_kevent_arm(object), 0, "%s", wm_kevent_detail(object));
	wm_kevent_close(object);
	request.unit = WM_CLAIM_UNIT_COUNTER;
	request.event = "page-faults";
	cr_expect_eq(wm_claim_reserve(&more, &request), -WM_E_LIMIT);
	limit_to("debug-register-per-user = 2\n");
	request = registers_of(fixture.pid, 1);
	cr_expect_eq(wm_claim_reserve(&more, &request), -WM_E_LIMIT);
	cr_expect(strstr(wm_claim_detail(), "/limits:1: no such key: debug-register-per-user"),
		  "%s", wm_claim_detail());
}

Test(claim_api, rings_of_any_size_are_as_large_as_the_limit_allows)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	char text[512] = "";
	struct detail detail = { text, sizeof(text) };

	limit_to("locked-bytes-per-user = 1M\n");
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_RINGS;
	cr_assert_eq(ledger_new(&request.ledger), 0);
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_expect_eq(perf_object_arm(object, detail), 0, "%s", text);
	perf_object_release(object);
	request.ring_bytes = 4 << 20;
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_expect_eq(perf_object_arm(object, detail), -WM_E_LIMIT);
	cr_expect(strstr(text, "locked-bytes-per-user = 1048576"), "%s", text);
	perf_object_release(object);
	ledger_free(request.ledger);
}
