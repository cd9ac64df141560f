/* SPDX-License-Identifier: MIT */
/* Returns, however a function is left. */
#include "inside/detour/return.h"
#include "inside/detour/testing/fixture.h"

#include "base/testing/await.h"
#include "inside/detour/testing/return_throw.h"
#include "inside/marker/testing/fixture.h"
#include "inside/runtime/lock.h"
#include "inside/store/event_store.h"

#include <criterion/criterion.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ids are given in order: of a detour's entry, of its return, of the next's entry. */

Test(returns, tells_the_result)
{
	trial_begin();
	trial_arm_return(&trial_victim_wish);
	cr_assert_str_eq(trial_told.event[1].text, "ed\ntrial\nvictim\n?\n0\nvalue");
	cr_assert_eq(trial_victim(6), 7);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_last[0], 6);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_last[0], 7);
	cr_assert_eq(return_live(), 0);
	cr_assert_eq(trial_let_go(), 0);
	cr_assert_eq(trial_victim(6), 7);
	cr_assert_eq(trial_events(1), 1);
}

Test(returns, tells_a_floating_point_result)
{
	struct trial_wish wish = trial_float_wish;
	double reported;

	trial_begin();
	wish.flags |= DETOUR_SECRETIVE;
	trial_arm_return(&wish);
	cr_assert_eq(trial_told.events, 1);
	cr_assert(trial_float(1.25) == 2.5);
	cr_assert_eq(trial_events(0), 1);
	memcpy(&reported, trial_last, sizeof reported);
	cr_assert(reported == 2.5);
}

Test(returns, of_tail_calls_share_one_return_address)
{
	trial_begin();
	trial_arm_return(&trial_victim_wish);
	trial_arm_return(&trial_tail_wish);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(trial_tail(6), 8);
	cr_assert_eq(trial_events(0), 1000);
	cr_assert_eq(trial_last[0], 7);
	cr_assert_eq(trial_events(1), 1000);
	cr_assert_eq(trial_last[0], 8);
	cr_assert_eq(trial_events(3), 1000);
	cr_assert_eq(trial_last[0], 8);
	cr_assert_eq(return_live(), 0);
}

static long deeper(long value)
{
	return value ? trial_calls(value - 1, deeper) : 0;
}

Test(returns, recursion_twenty_thousand_deep)
{
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(trial_calls(20000, deeper), 20000L * 20001 / 2);
	cr_assert_eq(trial_events(0), 20001);
	cr_assert_eq(trial_events(1), 20001);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
	cr_assert_eq(return_live(), 0);
}

Test(returns, recursion_beyond_all_units_loses_returns_and_counts_them)
{
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(trial_calls(40000, deeper), 40000L * 40001 / 2);
	cr_assert_eq(trial_events(0), 40001);
	cr_assert_gt(fixture_discarded(TRIAL_LANE), 0);
	cr_assert_eq(trial_events(1) + fixture_discarded(TRIAL_LANE), 40001);
	cr_assert_eq(return_live(), 0);
}

/* Events of one thread in their order; calls do not nest here. */
struct pairs {
	uint64_t events, unbegun;
	uint32_t slot, id;
};

static uint64_t word_wide(uint32_t id, const unsigned char *fields)
{
	(void)id;
	(void)fields;
	return 8;
}

static void pair(const struct fixture_event *event, void *data)
{
	struct pairs *pairs = data;

	/* the first may belong to a begin that was drained */
	pairs->unbegun += pairs->events && pairs->slot == event->slot && event->id % 2 &&
			  pairs->id % 2;
	pairs->events++;
	pairs->slot = event->slot;
	pairs->id = event->id;
}

Test(returns, disarmed_while_threads_call_have_a_begin_each, .timeout = 60)
{
	unsigned int whole = 0;

	trial_begin();
	trial_runners_start(trial_victim, 2);
	for (unsigned int turn = 0; turn < 1000; turn++) {
		uint64_t calls, discarded = fixture_discarded(TRIAL_LANE);
		struct pairs pairs = { 0 };

		trial_arm_return(&trial_victim_wish);
		calls = trial_runners_calls();
		cr_assert(AWAIT(trial_runners_calls() >= calls + 200));
		cr_assert_eq(trial_let_go(), 0);
		fixture_read(TRIAL_LANE, word_wide, pair, &pairs);
		if (fixture_discarded(TRIAL_LANE) == discarded) {
			cr_assert_eq(pairs.unbegun, 0, "turn %u", turn);
			whole += pairs.events != 0;
		}
		fixture_drain(TRIAL_LANE);
	}
	cr_assert_gt(whole, 0);
	trial_runners_end();
}

static void other_begin_and_arm(const struct trial_wish *wish)
{
	struct trial_wish returning = *wish;

	returning.flags |= DETOUR_RETURN;
	trial_other_begin();
	trial_other_arm(&returning);
}

static void other_end(void)
{
	cr_assert_eq(trial_other_let_go(), 0);
	cr_assert_eq(store_quiet(TRIAL_OTHER_LANE, 5000), 0);
	cr_assert_eq(store_close(TRIAL_OTHER_LANE), 0);
}

static long arm_other(long value)
{
	other_begin_and_arm(&trial_calls_wish);
	return value;
}

static long replace_other(long value)
{
	other_end();
	return arm_other(value);
}

static long be_deeper(long value)
{
	return trial_calls(value, replace_other);
}

Test(returns, session_started_within_call_gets_no_end)
{
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(trial_calls(5, arm_other), 10);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_events(1), 1);
	cr_assert_eq(trial_other_events(), 0);
	cr_assert_eq(trial_calls(1, be_deeper), 3);
	cr_assert_eq(trial_events(1), 3);
	cr_assert_eq(trial_other_events(), 0, "another session in the same lane had the begins");
	cr_assert_eq(trial_calls(1, deeper), 1);
	cr_assert_eq(trial_other_events(), 4);
	cr_assert_eq(trial_other_last, 1);
	cr_assert_eq(fixture_discarded(TRIAL_LANE) + fixture_discarded(TRIAL_OTHER_LANE), 0);
}

static long drain_all(long value)
{
	fixture_drain(TRIAL_LANE);
	return value;
}

Test(returns, end_of_lost_begin_is_lost)
{
	uint64_t discarded;

	trial_begin();
	trial_arm_return(&trial_calls_wish);
	while (!fixture_discarded(TRIAL_LANE))
		trial_calls(0, deeper);
	discarded = fixture_discarded(TRIAL_LANE);
	cr_assert_eq(trial_calls(5, drain_all), 10);
	cr_assert_eq(trial_events(1), 0);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), discarded + 2);
	cr_assert_eq(trial_calls(5, drain_all), 10);
	cr_assert_eq(trial_events(0), 1);
	cr_assert_eq(trial_events(1), 1);
}

static jmp_buf there;

static long jump(long value)
{
	longjmp(there, (int)value);
}

Test(returns, longjmp_leaves_nothing_behind_for_good)
{
	volatile int i;

	trial_begin();
	trial_arm_return(&trial_calls_wish);
	for (i = 0; i < 100000; i++) {
		if (!setjmp(there))
			trial_calls(1, jump);
	}
	cr_assert_leq(return_live(), 1);
	cr_assert_eq(trial_calls(1, deeper), 1);
	cr_assert_leq(return_live(), 1);
	cr_assert_eq(trial_events(1), 2);
}

static __attribute__((noinline)) void jump_from(unsigned int depth)
{
	if (depth)
		jump_from(depth - 1);
	else if (!setjmp(there))
		trial_calls(1, jump);
	__asm__ volatile("");
}

static __attribute__((noinline)) void overwrite(void)
{
	char room[65536];

	memset(room, 0, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void *jump_many(void *data)
{
	(void)data;
	for (unsigned int i = 0; i < 200; i++)
		jump_from(i);
	overwrite();
	return NULL;
}

static void *be_within(void *data)
{
	return (void *)trial_calls(5, (long (*)(long))data);
}

static int within, let_on;

static long wait_within(long value)
{
	trial_tell(&within);
	trial_stay(&let_on);
	return value;
}

Test(returns, units_that_were_left_are_found_when_they_run_low)
{
	pthread_t thread;
	uint32_t live;
	void *result;

	trial_begin();
	return_limit(256);
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(pthread_create(&thread, NULL, be_within, (void *)wait_within), 0);
	trial_await(&within);
	jump_many(NULL);
	live = return_live();
	cr_assert_gt(live, 150);
	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	detour_tick(&trial_text);
	lock_release(&agent_lock);
	cr_assert_lt(return_live(), live / 4);
	cr_assert_geq(return_live(), 1);
	trial_tell(&let_on);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_assert_eq((long)result, 10);
	/* and what was found can be used */
	cr_assert_eq(trial_calls(100, deeper), 5050);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 0);
}

/*
 * A continuation, as interpreters make them: the stack below `high` is copied away, and back again.
 */
static char kept[16384], *high, *low;
static volatile int coming, wrong;

/* As memcpy(3) does, which AddressSanitizer forbids between a frame's variables. */
static void stack_copy(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static __attribute__((noinline)) long capture(long value)
{
	low = (char *)__builtin_frame_address(0) - 1024;
	if (!setjmp(there))
		stack_copy(kept, low, (size_t)(high - low));
	return value;
}

static __attribute__((noinline)) void reinstate(void)
{
	/* the copy's own frame must be outside the bytes that it overwrites */
	size_t bytes = (size_t)((char *)__builtin_frame_address(0) - low) + 4096;
	char *room = __builtin_alloca(bytes);

	__asm__ volatile("" : : "r"(room) : "memory");
	stack_copy(low, kept, (size_t)(high - low));
	longjmp(there, 1);
}

static __attribute__((noinline)) long capture_late(long value)
{
	return_stop(); /* the library is loaded */
	return capture(value);
}

static __attribute__((noinline)) void come_back(void)
{
	high = (char *)__builtin_frame_address(0);
	wrong += trial_calls(5, capture_late) != 10;
	wrong += trial_calls(20, deeper) != 210;
	if (++coming < 1000)
		reinstate();
}

Test(returns, stack_copied_back_returns_again_and_later_returns_are_discarded)
{
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(trial_calls(20, deeper), 210);
	come_back();
	cr_assert_eq(coming, 1000);
	cr_assert_eq(wrong, 0);
	cr_assert_eq(trial_events(0), 21 + 1 + 21 * 1000);
	cr_assert_eq(trial_events(1), 21 + 1000);
	cr_assert_eq(fixture_discarded(TRIAL_LANE), 21 * 1000);
	cr_assert_eq(return_check(), -WM_E_STACKS_COPIED);
}

static long throws(long value)
{
	return_throw(value);
	return 0;
}

static long throws_deeper(long value)
{
	return value ? trial_calls(value - 1, throws_deeper) : throws(42);
}

Test(returns, exceptions_pass_through)
{
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	trial_arm_return(&trial_victim_wish);
	trial_arm_return(&trial_tail_wish);
	for (int i = 0; i < 20000; i++)
		cr_assert_eq(return_catch(7, throws), 7);
	for (int i = 0; i < 1000; i++)
		cr_assert_eq(return_catch_directly(7, throws), 7);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(return_catch(20, throws_deeper), 42);
	cr_assert_eq(return_destroyed, 20100);
	cr_assert_eq(trial_tail(1), 3);
	cr_assert_leq(return_live(), 64);
}

static void *frames[64];
static int frame_count;

static long look(long value)
{
	frame_count = backtrace(frames, 64);
	return value;
}

static __attribute__((noinline)) int count_frames(void)
{
	trial_calls(1, look);
	__asm__ volatile("");
	return frame_count;
}

static __attribute__((noinline)) int has_frame_in(void (*function)(void), size_t bytes)
{
	for (int i = 0; i < frame_count; i++) {
		if ((uintptr_t)frames[i] - (uintptr_t)function < bytes)
			return 1;
	}
	return 0;
}

Test(returns, backtraces_pass_through)
{
	int before;

	trial_begin();
	before = count_frames();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(count_frames(), before + 1);
	cr_assert(has_frame_in((void (*)(void))count_frames, 64));
}

static long leave(long value)
{
	pthread_exit((void *)value);
}

static long sleep_long(long value)
{
	trial_tell(&within);
	pause();
	return value;
}

static int cleaned;

static void clean(void *data)
{
	(void)data;
	__atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *leaver(void *data)
{
	pthread_cleanup_push(clean, NULL);
	trial_calls(5, (long (*)(long))data);
	pthread_cleanup_pop(0);
	return NULL;
}

Test(returns, threads_that_exit_or_are_cancelled_within)
{
	pthread_t thread;
	void *result;

	trial_begin();
	trial_arm_return(&trial_calls_wish);
	for (int i = 0; i < 200; i++) {
		cr_assert_eq(pthread_create(&thread, NULL, leaver, (void *)leave), 0);
		cr_assert_eq(pthread_join(thread, &result), 0);
		cr_assert_eq((long)result, 5);
		within = 0;
		cr_assert_eq(pthread_create(&thread, NULL, leaver, (void *)sleep_long), 0);
		if (i % 2)
			trial_await(&within);
		cr_assert_eq(pthread_cancel(thread), 0);
		cr_assert_eq(pthread_join(thread, &result), 0);
		cr_assert_eq(result, PTHREAD_CANCELED);
	}
	cr_assert_geq(cleaned, 200);
}

static void *work(void *data)
{
	long sum = 0;

	(void)data;
	for (long i = 0; i < 2000; i++)
		sum += trial_calls(i % 20, deeper);
	return (void *)sum;
}

Test(returns, many_threads)
{
	pthread_t threads[16];
	long expected = 0;
	void *sum;

	for (long i = 0; i < 2000; i++)
		expected += (i % 20) * (i % 20 + 1) / 2;
	trial_begin();
	trial_arm_return(&trial_calls_wish);
	for (int i = 0; i < 16; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, work, NULL), 0);
	for (int i = 0; i < 16; i++) {
		cr_assert_eq(pthread_join(threads[i], &sum), 0);
		cr_assert_eq((long)sum, expected);
	}
	cr_assert_eq(return_live(), 0);
}

Test(returns, a_child_of_fork_returns_too)
{
	pid_t self = getpid();

	trial_begin();
	trial_arm_return(&trial_calls_wish);
	cr_assert_eq(trial_calls(3, trial_forks), 6);
	if (getpid() != self)
		_exit(trial_calls(10, deeper) != 55);
}
