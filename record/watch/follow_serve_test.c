/* SPDX-License-Identifier: MIT */
#include "record/perf/object.h"
#include "record/watch/follow_serve.h"
#include "record/watch/watching_own.h"
#include "target/process/ticks.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define PATIENCE_NS (20 * SECOND_NS)

static struct watch_table table;
static void *pointer;
static struct perf_object object = { .state = EVENT_ARMED };
static struct watching watching;
static struct follow_chain *const chain = &table.follows[0];

/* A chain of this process. Its pointer stays null, so no move needs a register. */
static void begin(void)
{
	watching.table = &table;
	watching.object = &object;
	watching.pid = getpid();
	watching.plan.pointers = 1;
	watching.plan.start = (uintptr_t)&pointer;
	cr_assert_eq(follow_begin(&watching), 0);
	cr_assert_eq(follow_settle(&watching, 0), 0);
	cr_assert_eq(follow_serve(&watching), 0);
}

static void ask(void)
{
	__atomic_fetch_add(&chain->asked, 1, __ATOMIC_SEQ_CST);
}

static void enter(int step)
{
	__atomic_fetch_add(&chain->inside, (uint32_t)step, __ATOMIC_SEQ_CST);
}

static int is_moved(void)
{
	return __atomic_load_n(&chain->done, __ATOMIC_SEQ_CST) == chain->asked;
}

static void await_move(void)
{
	uint64_t begin_ns = ticks_monotonic_ns();

	while (!is_moved() && ticks_monotonic_ns() - begin_ns < PATIENCE_NS)
		sched_yield();
	cr_assert(is_moved());
}

/* sched_yield() is no sleep, so only the other thread's sleeps count. */
static long sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

Test(follow, threads_do_not_wait_once_it_is_stopped)
{
	begin();
	cr_expect_not(chain->is_late);
	follow_stop(watching.follow);
	cr_expect(chain->is_late);
	cr_expect_eq(chain->done, chain->asked);
	follow_release(watching.follow);
}

/* Until it naps, so it knows that a move is due. */
static void await_sleeps(long count)
{
	uint64_t begin_ns = ticks_monotonic_ns();
	long before = sleeps();

	while (sleeps() < before + count && ticks_monotonic_ns() - begin_ns < PATIENCE_NS)
		sched_yield();
	cr_assert_geq(sleeps(), before + count);
}

Test(follow, serve_sleeps_while_a_thread_stays_inside, .timeout = 60)
{
	begin();
	enter(1);
	ask();
	await_sleeps(20);
	cr_expect_not(is_moved());
	enter(-1);
	await_move();
	follow_release(watching.follow);
}

Test(follow, threads_wait_again_only_after_a_move_in_time, .timeout = 60)
{
	uint64_t begin_ns;

	begin();
	enter(1);
	ask();
	await_sleeps(3);
	begin_ns = ticks_monotonic_ns();
	chain->is_late = 1; /* as a thread whose wait was in vain */
	while (ticks_monotonic_ns() - begin_ns < 2 * SECOND_NS)
		sched_yield();
	enter(-1);
	await_move();
	cr_expect(chain->is_late);
	ask();
	await_move();
	cr_expect_not(chain->is_late);
	follow_release(watching.follow);
}
