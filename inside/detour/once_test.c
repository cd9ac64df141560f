/* SPDX-License-Identifier: MIT */
/* Calls with one event, at the return (DETOUR_ONCE), however they are interrupted or left. */
#include "abi/predicate.h"
#include "abi/watch.h"
#include "inside/detour/return.h"
#include "inside/detour/testing/fixture.h"
#include "inside/detour/testing/return_throw.h"
#include "inside/marker/hit.h"
#include "inside/marker/testing/fixture.h"
#include "inside/store/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

/* Ids are given in order: a detour with DETOUR_ONCE has one. */

static void arm(const struct trial_wish *wish, const struct predicate *predicate)
{
	struct trial_wish once = *wish;

	once.flags |= DETOUR_ONCE;
	once.predicate = predicate;
	trial_arm_return(&once);
}

static void begin(const struct trial_wish *wish)
{
	trial_begin();
	clock_rate_set(UINT64_C(1000000000));
	arm(wish, NULL);
}

/* The last event of an id is that of a call with this argument and result. */
static void last_is(uint32_t id, uint64_t count, uint64_t argument, uint64_t result)
{
	cr_assert_eq(trial_events(id), count);
	cr_assert_eq(trial_last[0], argument);
	cr_assert_eq(trial_last[1], result);
	cr_assert_lt(trial_last[2], UINT64_C(1) << 50, "no duration: %lu", trial_last[2]);
}

Test(once, event_has_argument_and_result)
{
	begin(&trial_victim_wish);
	cr_assert_eq(trial_victim(6), 7);
	last_is(0, 1, 6, 7);
	cr_assert_eq(return_live(), 0);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(trial_victim(6), 7);
	cr_assert_eq(trial_events(0), 1);
}

Test(once, predicates_are_tested_where_their_fields_are)
{
	struct predicate argument = { .number = 6,
				      .by = WATCH_BY_EQUAL,
				      .forms = PREDICATE_INTEGER,
				      .field = 1,
				      .name = "arg1" };
	struct predicate result = { .number = 8,
				    .by = WATCH_BY_EQUAL,
				    .forms = PREDICATE_INTEGER,
				    .field = 2,
				    .name = "ret" };

	trial_begin();
	arm(&trial_victim_wish, &argument);
	arm(&trial_victim_wish, &result);
	for (long i = 0; i < 10; i++)
		cr_assert_eq(trial_victim(i), i + 1);
	last_is(0, 1, 6, 7);
	last_is(1, 1, 7, 8);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
}

Test(once, tail_calls_have_their_own_arguments)
{
	begin(&trial_victim_wish);
	arm(&trial_tail_wish, NULL);
	for (int i = 1; i <= 1000; i++)
		cr_assert_eq(trial_tail(6), 8);
	last_is(0, 1000, 7, 8);
	last_is(1, 1000, 6, 8);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
	cr_assert_eq(return_live(), 0);
}

Test(once, two_probes_of_one_function_have_an_event_each)
{
	struct trial_wish both = trial_victim_wish;

	begin(&trial_victim_wish);
	both.argument = 2;
	arm(&both, NULL);
	cr_assert_eq(trial_victim(6), 7);
	last_is(0, 1, 6, 7);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_last[0], 6);
	cr_assert_eq(trial_last[2], 7);
}

static long throws(long value)
{
	return_throw(value);
	return 0;
}

static long deeper(long value)
{
	return value ? trial_calls(value - 1, deeper) : 0;
}

Test(once, call_left_by_an_exception_has_none_and_the_next_one_its_own)
{
	begin(&trial_calls_wish);
	for (int i = 0; i < 20000; i++)
		cr_assert_eq(return_catch(7, throws), 7);
	cr_assert_eq(trial_events(0), 0);
	cr_assert_leq(return_live(), 64);
	cr_assert_eq(trial_calls(3, deeper), 6);
	last_is(0, 4, 3, 6);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
}

static jmp_buf there;

static long jump(long value)
{
	longjmp(there, (int)value);
}

Test(once, call_left_by_longjmp_has_none_and_the_next_one_its_own)
{
	volatile int i;

	begin(&trial_calls_wish);
	for (i = 0; i < 10000; i++)
		if (!setjmp(there))
			trial_calls(1, jump);
	cr_assert_leq(return_live(), 1);
	cr_assert_eq(trial_events(0), 0);
	cr_assert_eq(trial_calls(2, deeper), 3);
	last_is(0, 3, 2, 3);
}

static long leave(long value)
{
	pthread_exit((void *)value);
}

static void *leaver(void *data)
{
	trial_calls((long)data, leave);
	return NULL;
}

Test(once, call_in_which_a_thread_ends_has_none)
{
	pthread_t thread;
	void *result;

	begin(&trial_calls_wish);
	for (long i = 1; i < 200; i++) {
		cr_assert_eq(pthread_create(&thread, NULL, leaver, (void *)i), 0);
		cr_assert_eq(pthread_join(thread, &result), 0);
		cr_assert_eq((long)result, i);
	}
	cr_assert_eq(trial_events(0), 0);
	cr_assert_eq(trial_calls(2, deeper), 3);
	last_is(0, 3, 2, 3);
}

Test(once, child_of_fork_returns_too)
{
	pid_t self = getpid();

	begin(&trial_calls_wish);
	cr_assert_eq(trial_calls(3, trial_forks), 6);
	if (getpid() != self)
		_exit(trial_calls(10, deeper) != 55);
	last_is(0, 1, 3, 6);
}

/* ---- a handler at one instruction after the other of a call ---- */

#define STRIDE 23    /* of some 1,700 instructions */
#define HANDLED 1000 /* from here on are arguments of handlers' calls */
#define TRAP_FLAG 0x100

static long steps_left, handled;
static int is_leaving;
static sigjmp_buf way_out;

static void at_step(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (--steps_left)
		return;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	cr_assert_eq(trial_victim(HANDLED + handled), HANDLED + handled + 1);
	handled++;
	if (is_leaving)
		siglongjmp(way_out, 1);
}

/* While it is set, every instruction raises SIGTRAP; a handler begins without it. */
#define TRAP_FLAG_CHANGE(insn)                                                                     \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"                                              \
			 "pushfq\n\t" insn ", (%%rsp)\n\t"                                         \
			 "popfq\n\t"                                                               \
			 "lea 128(%%rsp), %%rsp" ::                                                \
				 : "memory", "cc")

static uint64_t events;

static uint64_t three_words(uint32_t id, const unsigned char *fields)
{
	(void)id;
	(void)fields;
	return 24;
}

static void is_one_calls(const struct fixture_event *event, void *data)
{
	uint64_t words[3];

	(void)data;
	memcpy(words, event->fields, sizeof words);
	cr_assert_eq(words[1], words[0] + 1, "the result of %lu is %lu", words[0], words[1]);
	events++;
}

/* Interrupt a call at its n-th instruction. Returns 0: it has fewer. */
static __attribute__((noinline)) int interrupt(long n)
{
	long before = handled;

	steps_left = n;
	if (!sigsetjmp(way_out, 1)) {
		TRAP_FLAG_CHANGE("orq $0x100");
		cr_assert_eq(trial_victim(n), n + 1);
		TRAP_FLAG_CHANGE("andq $~0x100");
	}
	return handled > before;
}

static void interrupt_all(void)
{
	struct sigaction action = { .sa_sigaction = at_step, .sa_flags = SA_SIGINFO };

	begin(&trial_victim_wish);
	cr_assert_eq(trial_victim(5), 6);
	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	for (long n = 1; interrupt(n); n += STRIDE)
		;
	cr_assert_gt(handled, 20);
	fixture_read(TRIAL_LANE, three_words, is_one_calls, NULL);
}

Test(once, handlers_calls_do_not_take_the_place_of_the_one_they_interrupt, .timeout = 60)
{
	interrupt_all();
	/* the first, those of the handlers, all that they interrupted, the last */
	cr_assert_eq(events + fixture_discarded(TRIAL_LANE), 2 * (uint64_t)handled + 2);
	/* only from the entry to its return's does a handler's call cost the other one its event */
	cr_assert_lt(fixture_discarded(TRIAL_LANE), (uint64_t)handled);
	cr_assert_eq(return_live(), 0);
}

Test(once, handlers_that_leave_by_a_jump_leave_the_next_call_whole, .timeout = 60)
{
	uint64_t before;

	is_leaving = 1;
	interrupt_all();
	before = events;
	cr_assert_geq(before + fixture_discarded(TRIAL_LANE), (uint64_t)handled + 2);
	cr_assert_leq(return_live(), 4);
	cr_assert_eq(trial_victim(7), 8);
	events = 0;
	fixture_read(TRIAL_LANE, three_words, is_one_calls, NULL);
	cr_assert_eq(events, before + 1);
}

/* ---- the unit of a call is in use until its event is written ---- */

static uint32_t left;
static int hits;

static void sweep(const struct hit_registers *here, const struct hit_at *at,
		  struct hit_callers *callers)
{
	static const struct return_near none;

	(void)here;
	(void)at;
	callers->all[0] = 1;
	callers->count = 1;
	callers->state = FIELD_WHOLE;
	hits++;
	/* as the janitor does, which knows only the threads in return.c's own code */
	left = return_look_for_left(getpid());
	return_free_left(getpid(), &none);
}

Test(once, unit_is_not_swept_while_its_event_is_written)
{
	struct trial_wish wish = trial_calls_wish;

	trial_begin();
	hit_callers_find = sweep;
	return_limit(2);
	wish.callers = 1;
	arm(&wish, NULL);
	cr_assert_eq(trial_calls(0, deeper), 0);
	cr_assert_eq(hits, 1);
	cr_assert_eq(left, 0);
	cr_assert_eq(return_live(), 0);
	/* the one unit there is serves one call at a time */
	return_limit(RETURN_UNITS);
	cr_assert_eq(trial_calls(20, deeper), 210);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
}
