/* SPDX-License-Identifier: MIT */
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <waymark/error.h>

#define THREADS 20

TestSuite(event_modify, .init = fixture_need_breakpoints, .timeout = 60);

static struct fixture_shared *shared; /* the child's */

static BED_STORES void store(unsigned int value)
{
	for (unsigned int i = 0; i < BED_WORDS; i++)
		words[i] = value;
}

/* Each step: one store to each word. */
static void *writer(void *data)
{
	unsigned int first = (unsigned int)(uintptr_t)data;

	for (unsigned int step = first; step < 20; step++) {
		fixture_meet(shared, step);
		store(step);
	}
	return NULL;
}

/* Some threads from the start; after each step, one more, which has its events by inheritance. */
static void growing(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	fixture_threads(THREADS, writer, (void *)1);
	for (unsigned int step = 1; step < 20; step++) {
		fixture_meet(own, step);
		store(step);
		fixture_threads(1, writer, (void *)(uintptr_t)(step + 1));
	}
}

struct modified {
	struct fixture fixture;
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
};

static void modified_start(struct modified *modified, unsigned int flags, unsigned int count)
{
	fixture_start(&modified->fixture, growing);
	fixture_wait(&modified->fixture, THREADS + 1);
	fixture_request(&modified->request, modified->sources, EVENT_PROCESS, modified->fixture.pid,
			count);
	modified->request.flags = flags;
	modified->object = fixture_arm(&modified->request);
}

static void modified_end(struct modified *modified)
{
	perf_object_release(modified->object);
	fixture_end(&modified->fixture);
}

/* `step` is the nth: so many writers stored before, and the main thread and one more wait now. */
static void modified_step(const struct modified *modified, unsigned int step)
{
	fixture_step(&modified->fixture, step, THREADS + step + 1);
}

static unsigned int writers(unsigned int step)
{
	return THREADS + step;
}

static void change_and_go_on(enum event_modify how)
{
	struct modified modified;
	struct event_gap gap;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	int err;

	modified_start(&modified, EVENT_SIGNAL, 2);
	modified_step(&modified, 1);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1));
	cr_assert_eq(modified.fixture.shared->hits, 2 * writers(1));

	/* another address, another length, another kind, another cookie */
	modified.sources[0].address = (uint64_t)(uintptr_t)&words[5];
	modified.sources[0].bytes = 4;
	modified.sources[1].kind = EVENT_READ_WRITE;
	modified.sources[1].sig_data = UINT64_C(0xabcd) << 32;
	err = perf_object_modify(modified.object, modified.sources, how, &gap, detail);
	cr_assert_eq(err, 0, "%s: %s", wm_error_text(err), text);
	cr_assert_eq(perf_object_state(modified.object), EVENT_ARMED);
	cr_assert_eq(perf_object_sources(modified.object)[0].address, modified.sources[0].address);
	cr_assert_eq(gap.generation, 1);
	cr_assert_eq(gap.was_stopped, how == EVENT_MODIFY_STOPPED);
	cr_assert(gap.first_ns > perf_object_armed_ns(modified.object));
	cr_assert(gap.last_ns > gap.first_ns);

	modified_step(&modified, 2);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1) + writers(2),
		     "inherited ones too");
	cr_assert_eq(fixture_count(modified.object, 1), writers(1) + writers(2));
	/* words[5] is stored last */
	cr_assert_eq(modified.fixture.shared->hits, 2 * (writers(1) + writers(2)));
	cr_assert_eq(modified.fixture.shared->address, (uint64_t)(uintptr_t)&words[5]);
	cr_assert_eq(EVENT_GENERATION(modified.fixture.shared->data), 1);

	/* what was started after the change has the new one */
	modified_step(&modified, 3);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1) + writers(2) + writers(3));
	modified_end(&modified);
}

Test(event_modify, all_threads_are_changed_while_they_run)
{
	change_and_go_on(EVENT_MODIFY_RUNNING);
}

Test(event_modify, all_threads_are_changed_while_they_stand_still)
{
	change_and_go_on(EVENT_MODIFY_STOPPED);
}

/* Refused by ourselves, before anything is touched. */
Test(event_modify, what_cannot_be_leaves_all_as_it_was)
{
	static const struct event_source bad[] = {
		{ .kind = EVENT_WRITE, .bytes = 8, .address = 0x10004 },
		{ .kind = EVENT_WRITE, .bytes = 3, .address = 0x10000 },
		{ .kind = EVENT_WRITE, .bytes = 16, .address = 0x10000 },
		{ .kind = EVENT_WRITE, .bytes = 0, .address = 0x10000 },
		{ .kind = EVENT_EXECUTE, .bytes = 8, .address = 0x10000 },
		{ .kind = EVENT_WRITE, .bytes = 8, .address = UINT64_C(0xffffffff81000000) },
	};
	struct modified modified;
	char text[256];
	struct detail detail = { text, sizeof(text) };

	modified_start(&modified, EVENT_SIGNAL, 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		text[0] = '\0';
		cr_assert_eq(perf_object_modify(modified.object, &bad[i], EVENT_MODIFY_RUNNING,
						NULL, detail),
			     -EINVAL, "%zu", i);
		cr_assert(text[0]);
	}
	modified_step(&modified, 1);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1));
	cr_assert_eq(EVENT_GENERATION(modified.fixture.shared->data), 0);
	modified_end(&modified);
}

/* The kernel refuses one of two: an address that is not canonical passes our check. */
static void refused_by_the_kernel(unsigned int source)
{
	struct modified modified;
	struct event_gap gap;

	modified_start(&modified, EVENT_SIGNAL, 2);
	modified.sources[!source].address = (uint64_t)(uintptr_t)&words[5];
	modified.sources[source].address = UINT64_C(1) << 55;
	cr_assert_eq(perf_object_modify(modified.object, modified.sources, EVENT_MODIFY_RUNNING,
					&gap, (struct detail){ 0 }),
		     -EINVAL);
	cr_assert_eq(gap.generation, 0);
	cr_assert_eq(perf_object_state(modified.object), EVENT_ARMED);
	modified_step(&modified, 1);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1));
	cr_assert_eq(fixture_count(modified.object, 1), writers(1));
	cr_assert_eq(modified.fixture.shared->hits, 2 * writers(1));
	cr_assert_eq(modified.fixture.shared->address, (uint64_t)(uintptr_t)&words[1]);
	cr_assert_eq(EVENT_GENERATION(modified.fixture.shared->data), 0);
	modified_end(&modified);
}

Test(event_modify, what_the_kernel_refuses_at_once_is_put_back)
{
	refused_by_the_kernel(0);
}

Test(event_modify, what_the_kernel_refuses_in_the_midst_is_put_back)
{
	refused_by_the_kernel(1);
}

static int settle_refuse(void *data, uint8_t generation)
{
	int *refuses = data;

	cr_assert_eq(generation, *refuses);
	return *refuses ? -ECANCELED : 0;
}

Test(event_modify, who_settles_may_refuse_and_all_is_put_back)
{
	struct modified modified;
	int refuses = 0;

	fixture_start(&modified.fixture, growing);
	fixture_wait(&modified.fixture, THREADS + 1);
	fixture_request(&modified.request, modified.sources, EVENT_PROCESS, modified.fixture.pid,
			1);
	modified.request.flags = EVENT_SIGNAL;
	modified.request.settle = settle_refuse;
	modified.request.settle_data = &refuses;
	modified.object = fixture_arm(&modified.request);
	refuses = 1;
	modified.sources[0].address = (uint64_t)(uintptr_t)&words[5];
	cr_assert_eq(perf_object_modify(modified.object, modified.sources, EVENT_MODIFY_STOPPED,
					NULL, (struct detail){ 0 }),
		     -ECANCELED);
	modified_step(&modified, 1);
	cr_assert_eq(fixture_count(modified.object, 0), writers(1));
	cr_assert_eq(modified.fixture.shared->address, (uint64_t)(uintptr_t)&words[0]);
	modified_end(&modified);
}

Test(event_modify, only_what_is_armed_is_changed)
{
	struct modified modified;

	modified_start(&modified, 0, 1);
	perf_object_disarm(modified.object);
	cr_assert_eq(perf_object_modify(modified.object, modified.sources, EVENT_MODIFY_RUNNING,
					NULL, (struct detail){ 0 }),
		     -EINVAL);
	modified_end(&modified);
}
