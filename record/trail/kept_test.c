/* SPDX-License-Identifier: MIT */
/*
 * A flight recorder that is kept several times: what arrives is what was put, once, and what is
 * missing is said.
 */
#include "record/trail/kept.h"
#include "record/trail/testing/store_fixture.h"

#include <criterion/criterion.h>

static struct trail_store *first, *second;
static struct kept kept_all;

static void closed(void)
{
	store = second;
	end();
	trail_store_close(first);
}

TestSuite(kept, .fini = closed, .timeout = 120);

/* Threads put into `first`; what is kept comes to `second`, whose bound is not reached. */
static void begun(uint64_t bytes)
{
	begin_with(SMALL * 64, WM_POLICY_DISCARD, 0);
	second = store;
	kept_init(&kept_all, sink);
	begin_with(bytes, WM_POLICY_CYCLIC, 0);
	first = store;
}

static void take(void)
{
	cr_assert_eq(kept_take(&kept_all, first), 0);
}

static unsigned int threads_in(struct trail_store *of)
{
	unsigned int count = 0;

	for (struct store_thread *t = trail_store_thread(of, NULL); t;
	     t = trail_store_thread(of, t))
		count++;
	return count;
}

static unsigned int of_tid(pid_t tid)
{
	unsigned int count = 0;

	for (struct store_thread *t = trail_store_thread(second, NULL); t;
	     t = trail_store_thread(second, t))
		count += store_thread_tid(t) == tid;
	return count;
}

static void ended(void)
{
	cr_assert_eq(kept_end(&kept_all), 0);
	store = second;
	check();
}

Test(kept, each_block_arrives_once)
{
	begun(SMALL * 16);
	thread_begin(0);
	thread_begin(1);
	for (uint64_t i = 1; i <= 3000; i++) {
		block((int)(i % 2), i % 11 + 1);
		if (i % 100 == 0)
			event((int)(i % 2), TRAIL_FORK);
		if (i % 700 == 0)
			take();
	}
	take();
	ended();
	cr_expect_eq(given[0].lost + given[1].lost, 0);
	cr_expect_eq(threads_in(second), 2, "one trail each");
	cr_expect_eq(kept(0) + kept(1), 3000 + 30 + 2, "blocks, events and ends");
}

Test(kept, what_was_overwritten_between_is_said_to_be_lost)
{
	begun(SMALL);
	thread_begin(0);
	for (uint64_t i = 1; i <= 100000; i++) {
		block(0, i % 11 + 1);
		if (i % 30000 == 0)
			take();
	}
	take();
	ended();
	cr_expect_gt(given[0].lost, 50000);
}

Test(kept, a_thread_that_ended_has_its_end)
{
	begun(SMALL * 16);
	thread_begin(0);
	block(0, 1);
	take();
	block(0, 2);
	event(0, TRAIL_END);
	thread_end(0);
	take();
	ended();
	cr_expect_eq(kept(0), 3, "and no second end");
}

/* Its end was overwritten, and another has its id: that is no way on from what was kept of it. */
Test(kept, an_id_that_is_used_again_is_another_trail)
{
	begun(SMALL);
	thread_begin(0);
	thread_begin(1);
	block(0, 1);
	take();
	event(0, TRAIL_END);
	thread_end(0);
	for (uint64_t i = 1; i <= 100000; i++)
		block(1, i % 11 + 1);
	for (int i = 0; i < 2000; i++) { /* of threads that ended, the first give way */
		thread_begin(2);
		event(2, TRAIL_END);
		thread_end(2);
	}
	thread_begin(0);
	block(0, 7);
	cr_assert_eq(kept_take(&kept_all, first), 0);
	cr_assert_eq(kept_end(&kept_all), 0);
	store = second;
	for (struct store_thread *t = trail_store_thread(second, NULL); t;
	     t = trail_store_thread(second, t))
		if (store_thread_tid(t) == 1)
			cr_expect_eq(store_thread_records(t), 2, "a block, and a loss or an end");
	cr_expect_eq(of_tid(1), 2);
}

static unsigned int modules;

static int count_module(struct trail_sink *to, const struct control_module *module,
			const char *path)
{
	(void)to, (void)module, (void)path;
	modules++;
	return 0;
}

Test(kept, a_module_is_told_once)
{
	static const struct control_module module = { .base = 0x1000 };
	struct trail_sink_calls calls;
	struct trail_sink counting = { &calls };

	begun(SMALL * 16);
	calls = *trail_store_sink(second)->calls;
	calls.module = count_module;
	kept_init(&kept_all, &counting);
	for (int i = 1; i <= 4; i++) {
		sink->calls->module(sink, &module, "/usr/lib/libexample.so.1");
		take();
		cr_expect_eq(modules, (unsigned int)i);
	}
	cr_assert_eq(kept_end(&kept_all), 0);
}

static uint64_t block_ticks[3], end_ticks[3];

static int begin_stub(struct trail_sink *to, struct sink_thread **thread, pid_t tid,
		      const char *comm, enum trail_origin origin, uint64_t ticks)
{
	(void)to, (void)comm, (void)origin, (void)ticks;
	*thread = (struct sink_thread *)(uintptr_t)tid;
	return 0;
}

static int note_block(struct trail_sink *to, struct sink_thread *thread,
		      const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	(void)to, (void)entry, (void)code;
	block_ticks[(uintptr_t)thread] = ticks;
	return 0;
}

static int note_end(struct trail_sink *to, struct sink_thread *thread,
		    const struct trail_between *between, uint64_t ticks)
{
	(void)to;
	if (between->event == TRAIL_END)
		end_ticks[(uintptr_t)thread] = ticks;
	return 0;
}

static int end_stub(struct trail_sink *to, struct sink_thread *thread, uint64_t ticks)
{
	(void)to, (void)thread, (void)ticks;
	return 0;
}

/*
 * A reader would take an end at a later thread's time for a stretch in which this one ran nothing.
 */
Test(kept, each_trail_ends_with_its_own_last_block)
{
	static const struct trail_sink_calls calls = {
		.module = count_module,
		.thread_begin = begin_stub,
		.block = note_block,
		.event = note_end,
		.thread_end = end_stub,
	};
	struct trail_sink noting = { &calls };

	begun(SMALL * 16);
	kept_init(&kept_all, &noting);
	thread_begin(0);
	thread_begin(1);
	block(0, 1);
	block(1, 2);
	take();
	cr_assert_eq(kept_end(&kept_all), 0);
	cr_expect_eq(end_ticks[1], block_ticks[1]);
	cr_expect_eq(end_ticks[2], block_ticks[2]);
	cr_expect_lt(end_ticks[1], end_ticks[2]);
}
