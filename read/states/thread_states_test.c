/* SPDX-License-Identifier: MIT */
#include "read/states/testing/states.h"
#include "read/states/waits.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(thread_states, .fini = states_end);

Test(thread_states, a_thread_runs_is_preempted_waits_and_is_woken)
{
	states_begin(1000);
	states_arrive(1, 0, 1100);
	states_preempt(1, 0, 1150);
	states_arrive(1, 0, 1157);
	states_wait('S', 1, 0, 1200);
	states_wake(1, 1, 1300);
	states_arrive(1, 1, 1311);
	states_wait('D', 1, 1, 1320);
	states_wake(1, 1, 1325);
	states_arrive(1, 1, 1326);
	thread_states_finish(&states, 1330);
	states_expect(1, 50 + 43 + 9 + 4, 7 + 11 + 1, 100 + 5, 0, 0);
	states_expect_whole(1);
	cr_expect_eq(states_thread(1)->begin_ns, 1100);
	cr_expect_eq(states_thread(1)->end_ns, 1330);
	cr_expect_eq(states_thread(1)->switches, 3);
	cr_expect_eq(states_thread(1)->preempted, 1);
	cr_expect_eq(states_thread(1)->migrations, 1);
	cr_expect_eq(states_thread(1)->wakes, 2);
	cr_expect_eq(states_thread(1)->waits[0].ns, 100, "S");
	cr_expect_eq(states_thread(1)->waits[1].ns, 5, "D");
}

static struct waits waits;

static int wait_take(const struct thread_off *off, void *data)
{
	return waits_add(data, off);
}

/* What those of a state, a place and a waker came to. */
static const struct wait_sum *sum_of(char letter, uint64_t place, uint32_t waker)
{
	uint8_t as = letter == 'R' ? THREAD_LETTER_COUNT
				   : (uint8_t)(strchr(THREAD_LETTERS, letter) - THREAD_LETTERS);

	for (size_t i = 0; i < waits.count; i++)
		if (waits.all[i].as == as && waits.all[i].place == place &&
		    waits.all[i].waker_tid == waker)
			return &waits.all[i];
	cr_assert_fail("no sum of %c at %lx by %u", letter, place, waker);
	return NULL;
}

Test(thread_states, times_off_a_cpu_are_by_state_place_and_waker)
{
	states_begin(0);
	states.take_off = wait_take;
	states.take_data = &waits;
	states_arrive(1, 0, 100);
	for (uint64_t i = 1; i < 4; i++) {
		states_wait('S', 1, 0, 100 * i + 50);
		states_wake(1, 1, 100 * i + 60);
		states_arrive(1, 0, 100 * i + 70);
	}
	states_preempt(1, 0, 480);
	states_arrive(1, 0, 485);
	for (uint64_t i = 0; i < 90; i += 10) {
		states_preempt(1, 0, 490 + i);
		states_arrive(1, 0, 491 + i);
	}
	states_wait('D', 1, 0, 580);
	cr_assert_eq(thread_states_finish(&states, 700), 0);
	cr_assert_eq(waits.count, 3);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->count, 3);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->off_ns, 60);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->asleep_ns, 30);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->waker_pid, STATES_PID);
	cr_expect_eq(sum_of('D', STATES_WAITS_AT, THREAD_NO_WAKER)->off_ns, 120, "until the end");
	cr_expect_eq(sum_of('R', STATES_PREEMPTED_AT, THREAD_NO_WAKER)->count, 10);
	cr_expect_eq(sum_of('R', STATES_PREEMPTED_AT, THREAD_NO_WAKER)->off_ns, 14);
	cr_expect_eq(sum_of('R', STATES_PREEMPTED_AT, THREAD_NO_WAKER)->max_ns, 5);
	waits_release(&waits);
}

/* Events of CPUs whose clocks differ: the wake of a wait comes behind its arrival; or before it. */
Test(thread_states, wakers_are_of_the_wait_that_they_ended)
{
	states_begin(0);
	states.take_off = wait_take;
	states.take_data = &waits;
	states_arrive(1, 0, 100);
	states_wait('S', 1, 0, 200);
	states_arrive(1, 0, 300);
	states_wake(1, 1, 300 + THREAD_REVERSED_NS);
	states_wait('S', 1, 0, 20000);
	states_arrive(1, 0, 20150);
	states_wake(1, 1, 40000);
	states_wait('D', 1, 0, 40010);
	states_arrive(1, 0, 40030);
	cr_assert_eq(thread_states_finish(&states, 50000), 0);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->off_ns, 100);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, STATES_WAKER)->asleep_ns, 100);
	cr_expect_eq(sum_of('S', STATES_WAITS_AT, THREAD_NO_WAKER)->off_ns, 150);
	cr_expect_eq(sum_of('D', STATES_WAITS_AT, STATES_WAKER)->off_ns, 20);
	cr_expect_eq(sum_of('D', STATES_WAITS_AT, STATES_WAKER)->asleep_ns, 0);
	waits_release(&waits);
}

Test(thread_states, waits_beyond_the_most_are_one_for_each_state)
{
	struct thread_off off = { .thread = 1, .to_ns = 20, .waker_tid = 7 };

	for (off.from_ns = 10; off.place < WAITS_MAX + 50u; off.place++)
		cr_assert_eq(waits_add(&waits, &off), 0);
	cr_expect_eq(waits.count, WAITS_MAX + 1u);
	cr_expect_eq(waits.all[WAITS_MAX].count, 50);
	cr_expect_eq(waits.all[WAITS_MAX].waker_tid, THREAD_NO_WAKER);
	waits_release(&waits);
}

Test(thread_states, a_wake_a_little_after_the_arrival_ends_the_wait)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('S', 1, 0, 200);
	states_arrive(1, 0, 300);
	states_wake(1, 1, 300 + THREAD_REVERSED_NS);
	states_wait('S', 1, 0, 20000);
	states_wake(1, 1, 20100); /* it is not taken for an early one of this wait */
	states_arrive(1, 0, 20150);
	thread_states_finish(&states, 20150);
	states_expect(1, 100 + 19700, 50, 100 + 100, 0, 0);
	states_expect_whole(1);
}

Test(thread_states, a_wake_long_after_the_arrival_is_for_the_next_wait)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('S', 1, 0, 200);
	states_arrive(1, 0, 300);
	states_wake(1, 1, 301 + THREAD_REVERSED_NS);
	states_wait('S', 1, 0, 20000);
	states_arrive(1, 0, 20150);
	thread_states_finish(&states, 20150);
	states_expect(1, 100 + 19700, 150, 0, 100, 0);
}

/* The kernel wakes a thread that has decided to wait, and is on its CPU still. */
Test(thread_states, a_wake_before_the_departure_makes_it_runnable)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wake(1, 1, 195);
	states_wait('S', 1, 0, 200);
	states_arrive(1, 0, 300);
	thread_states_finish(&states, 400);
	states_expect(1, 200, 100, 0, 0, 0);
}

Test(thread_states, a_wake_that_kept_it_running_is_not_for_a_wait_that_has_its_own)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wake(1, 1, 150);
	states_wait('S', 1, 0, 200);
	states_wake(1, 1, 280);
	states_arrive(1, 0, 300);
	states_wake(1, 1, 20000); /* it was preempted, and not asleep: the wake is used up */
	states_preempt(1, 0, 20001);
	states_arrive(1, 0, 20002);
	states_wait('S', 1, 0, 20003);
	states_arrive(1, 0, 20013);
	thread_states_finish(&states, 20013);
	states_expect(1, 100 + 19701 + 1, 20 + 1, 80, 10, 0);
}

Test(thread_states, without_wakes_a_wait_is_asleep_or_runnable)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('S', 1, 0, 200);
	states_arrive(1, 0, 300);
	states_preempt(1, 0, 310);
	states_arrive(1, 0, 330);
	states_wait('S', 1, 0, 340);
	thread_states_finish(&states, 400);
	states_expect(1, 100 + 10 + 10, 20, 0, 100 + 60, 0);
	cr_expect_eq(states_thread(1)->waits[0].ns, 160);
}

Test(thread_states, run_delay_divides_the_waits_between_its_readings)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('?', 1, 0, 200);
	states_arrive(1, 0, 300); /* before the first reading: it can't be divided */
	states_delay(1, 300, 5000);
	states_preempt(1, 0, 310);
	states_arrive(1, 0, 330);
	states_wait('?', 1, 0, 340);
	states_arrive(1, 0, 440);
	states_delay(1, 450, 5000 + 20 + 30);
	states_wait('?', 1, 0, 460);
	thread_states_finish(&states, 500);
	states_expect(1, 100 + 10 + 10 + 20, 20 + 30, 70, 100, 0);
	cr_expect_eq(states_thread(1)->end_ns, 460, "nothing shows that it lived");
}

Test(thread_states, run_delay_that_makes_no_sense_divides_no_more_than_there_is)
{
	static const uint64_t readings[][2] = { { 1000, 5 }, { 0, UINT64_MAX }, { 7, 8 } };
	static const uint64_t runnable[] = { 20, 20 + 100, 20 };

	for (int i = 0; i < 3; i++) {
		states_begin(0);
		states_arrive(1, 0, 100);
		states_delay(1, 100, readings[i][0]);
		states_wait('?', 1, 0, 200);
		states_arrive(1, 0, 300);
		states_preempt(1, 0, 310);
		states_arrive(1, 0, 330);
		states_delay(1, 330, readings[i][1]);
		thread_states_finish(&states, 330);
		states_expect(1, 110, runnable[i], 120 - runnable[i], 0, 0);
		states_end();
	}
}

Test(thread_states, run_delay_shows_that_a_thread_lived)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('?', 1, 0, 200);
	states_delay(1, 290, 0);
	thread_states_finish(&states, 300);
	states_expect(1, 100, 0, 0, 100, 0);
	cr_expect_eq(states_thread(1)->end_ns, 300);
}

Test(thread_states, the_first_event_shows_what_was_before)
{
	states_begin(1000);
	states_preempt(1, 0, 1100); /* it ran */
	states_wake(2, 0, 1200);    /* it slept */
	states_arrive(2, 0, 1210);
	states_wait('S', 2, 0, 1220);
	states_arrive(3, 0, 1230); /* it may be new */
	states_delay(4, 1050, 0);
	states_arrive(4, 1, 1260); /* it was there, asleep or runnable */
	states_delay(5, 1050, 0);  /* it was there, and never switched */
	states_mark(6, 1070);
	states_wait('S', 6, 2, 1080);
	thread_states_finish(&states, 1300);
	states_expect(1, 100, 200, 0, 0, 0);
	states_expect(2, 10, 10, 200 + 80, 0, 0);
	states_expect(3, 70, 0, 0, 0, 0);
	states_expect(4, 40, 0, 0, 210, 0);
	states_expect(5, 0, 0, 0, 0, 250);
	states_expect(6, 80, 0, 220, 0, 0);
	cr_expect_eq(states_thread(1)->begin_ns, 1000);
	cr_expect_eq(states_thread(2)->begin_ns, 1000);
	cr_expect_eq(states_thread(3)->begin_ns, 1230);
	cr_expect_eq(states_thread(4)->begin_ns, 1050);
	cr_expect_eq(states_thread(6)->begin_ns, 1000);
}

Test(thread_states, what_is_open_at_the_end_is_closed)
{
	states_begin(0);
	states_arrive(1, 0, 10);
	states_arrive(2, 1, 10);
	states_preempt(2, 1, 20);
	states_arrive(3, 1, 20);
	states_wait('T', 3, 1, 30);
	states_arrive(4, 1, 30);
	states_wait('X', 4, 1, 40);
	states_wake(5, 1, 45);
	thread_states_finish(&states, 100);
	states_expect(1, 90, 0, 0, 0, 0);
	states_expect(2, 10, 80, 0, 0, 0);
	states_expect(3, 10, 0, 70, 0, 0);
	states_expect(4, 10, 0, 0, 0, 0);
	cr_expect_eq(states_thread(4)->end_ns, 40);
	states_expect(5, 0, 55, 45, 0, 0);
}

Test(thread_states, a_new_thread_is_runnable_until_it_arrives)
{
	states_begin(0);
	states_name(1, -1, 5);
	states_fork(2, 100);
	states_fork(2, 100); /* recorded twice */
	states_arrive(2, 1, 130);
	states_fork(3, 200);
	states_arrive(4, 2, 300);
	states_fork(4, 301); /* a little after its arrival */
	states_name(4, 2, 310);
	thread_states_finish(&states, 400);
	states_expect(1, 0, 0, 0, 0, 395);
	states_expect(2, 270, 30, 0, 0, 0);
	states_expect(3, 0, 200, 0, 0, 0);
	states_expect(4, 100, 0, 0, 0, 0);
	cr_assert_eq(states.count, 4);
	cr_expect_eq(states_thread(2)->begin_ns, 100);
}

Test(thread_states, a_thread_that_exits_ran_until_then)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_leave(1, 0, 150);
	states_arrive(2, 0, 5000);
	states_leave(2, 0, 6000); /* a CPU's events: it departs */
	states_wait('D', 2, 0, 6010);
	states_wake(2, 1, 6020);
	states_arrive(2, 0, 6030);
	states_wait('X', 2, 0, 6040);
	states_leave(3, 1, 200); /* it ran from the begin on */
	states_arrive(4, 2, 10);
	states_wait('S', 4, 2, 20);
	states_leave(4, 2, 50); /* an arrival is missing */
	thread_states_finish(&states, 9000);
	states_expect(1, 50, 0, 0, 0, 0);
	cr_expect_eq(states_thread(1)->end_ns, 150);
	states_expect_whole(1);
	states_expect(2, 1000 + 10 + 10, 10, 10, 0, 0);
	cr_expect_eq(states_thread(2)->end_ns, 6040);
	states_expect_whole(2);
	states_expect(3, 200, 0, 0, 0, 0);
	states_expect(4, 10, 0, 0, 0, 30);
	cr_expect_eq(states_thread(4)->missing, 1);
}

Test(thread_states, where_exits_are_recorded_a_wait_without_an_end_is_one)
{
	states_begin(0);
	states_name(2, -1, 5);
	states_arrive(1, 0, 100);
	states_wait('?', 1, 0, 200);
	thread_states_finish(&states, 300);
	states_expect(1, 100, 0, 0, 100, 0);
}

Test(thread_states, a_thread_that_woke_or_was_woken_is_not_recorded)
{
	states_begin(0);
	states_wake(1, 0, 100);
	states_name(2, -1, 100);
	states_name(3, -1, 100);
	states_arrive(3, 0, 200);
	states_wake(4, 0, 100);
	states_name(4, 0, 200);
	thread_states_finish(&states, 300);
	cr_expect_not(states_thread(1)->is_recorded);
	cr_expect_not(states_thread(2)->is_recorded);
	cr_expect(states_thread(3)->is_recorded);
	cr_expect(states_thread(4)->is_recorded);
}

/* As in a long trace of short processes. It took time with the square of how often it was used. */
Test(thread_states, a_number_that_is_used_again_and_again_costs_no_more, .timeout = 20)
{
	enum { TIMES = 100000 };

	states_begin(0);
	for (uint32_t i = 1; i <= TIMES; i++) {
		states_put(&(struct thread_event){
			.kind = THREAD_ARRIVES, .ns = 100 * i, .pid = i, .tid = 1, .cpu = 0 });
		states_put(&(struct thread_event){
			.kind = THREAD_EXITS, .ns = 100 * i + 50, .pid = i, .tid = 1, .cpu = 0 });
	}
	thread_states_finish(&states, 100 * TIMES + 60);
	cr_expect_eq(states.count, TIMES);
	states_expect(1, 50, 0, 0, 0, 0);
}

Test(thread_states, sums_at_a_time_include_the_state_then)
{
	uint64_t times[THREAD_TIMES];

	states_begin(0);
	states_arrive(1, 0, 100);
	cr_assert_eq(thread_states_times(&states, STATES_PID, 1, 130, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 30);
	states_wait('S', 1, 0, 150);
	cr_assert_eq(thread_states_times(&states, STATES_PID, 1, 170, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 50);
	cr_expect_eq(times[THREAD_TIME_ASLEEP], 20);
	states_arrive(1, 0, 200);
	cr_assert_eq(thread_states_times(&states, STATES_PID, 1, 201, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 51);
	cr_expect_eq(times[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(times[THREAD_TIME_WAITING], 50);
	cr_assert_eq(thread_states_times(&states, 0, 0, 201, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 0);
}
