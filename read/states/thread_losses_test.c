/* SPDX-License-Identifier: MIT */
/* States of threads, where records are reversed, lost, or of other threads of one number. */
#include "read/states/testing/states.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define SECOND 1000000000u

TestSuite(thread_losses, .fini = states_end);

Test(thread_losses, a_departure_a_little_after_the_arrival_elsewhere_is_no_gap)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_arrive(1, 1, 199);
	states_preempt(1, 0, 201);
	states_wait('S', 1, 1, 300);
	states_wake(1, 0, 350);
	thread_states_finish(&states, 350);
	states_expect(1, 99 + 101, 0, 50, 0, 0);
	states_expect_whole(1);
	cr_expect_eq(states_thread(1)->switches, 2);
	cr_expect_eq(states_thread(1)->preempted, 1);
}

Test(thread_losses, a_departure_a_little_after_the_next_threads_arrival_is_no_gap)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_arrive(2, 0, 200);
	states_preempt(1, 0, 200);
	states_wait('S', 2, 0, 250);
	states_arrive(1, 0, 250);
	thread_states_finish(&states, 300);
	states_expect(1, 150, 50, 0, 0, 0);
	states_expect_whole(1);
	states_expect_whole(2);
}

Test(thread_losses, contradictions_are_missing_switches_and_unknown_time)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_arrive(1, 0, 200); /* a departure is missing */
	states_preempt(1, 0, 300);
	states_preempt(1, 0, 400); /* an arrival */
	states_arrive(1, 0, 500);
	states_arrive(1, 1, 50000);
	states_preempt(1, 0,
		       50001 + THREAD_REVERSED_NS); /* too late for the departure from CPU 0 */
	states_arrive(2, 3, 100);
	states_arrive(3, 3, 200);   /* where thread 2 ran */
	states_arrive(2, 3, 50000); /* where thread 3 ran */
	thread_states_finish(&states, 100000);
	states_expect(1, 100 + 49500, 100 + 39999 - THREAD_REVERSED_NS + 10000, 0, 0,
		      100 + 100 + THREAD_REVERSED_NS + 1);
	cr_expect_eq(states_thread(1)->missing, 4);
	states_expect(2, 100 + 50000, 0, 0, 0, 49800);
	cr_expect_eq(states_thread(2)->missing, 1);
	cr_expect_eq(states_thread(3)->missing, 1);
}

Test(thread_losses, after_losses_the_running_threads_time_is_unknown)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_arrive(2, 1, 100);
	states_lose(0, 150, 300, 7);
	states_wait('S', 1, 0, 320);
	states_wake(1, 1, 330);
	states_arrive(1, 0, 340);
	states_preempt(2, 1, 400);
	states_arrive(3, 1, 400); /* it comes after the losses */
	thread_states_finish(&states, 500);
	states_expect(1, 50 + 160, 10, 10, 0, 170);
	states_expect(2, 300, 100, 0, 0, 0);
	cr_expect_eq(states_thread(1)->lost_events, 7);
	cr_expect_eq(states_thread(1)->lost_ns, 150);
	cr_expect_eq(states_thread(2)->lost_events, 7, "it may have been there");
	states_expect_whole(3);
}

Test(thread_losses, after_losses_a_first_event_shows_nothing)
{
	states_begin(0);
	states_delay(4, 5, 0);
	states_lose(0, 0, 100, 1);
	states_preempt(1, 0, 200);
	states_wake(2, 0, 200);
	states_mark(3, 200);
	states_wait('S', 4, 1, 300);
	thread_states_finish(&states, 300);
	states_expect(1, 0, 100, 0, 0, 0);
	states_expect(2, 0, 100, 0, 0, 0);
	states_expect(3, 100, 0, 0, 0, 0);
	states_expect(4, 0, 0, 0, 0, 295);
	cr_expect_eq(states_thread(1)->begin_ns, 200);
}

Test(thread_losses, losses_of_no_cpu_are_counted)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_lose(-1, 150, 200, 3);
	states_lose(INT32_MAX, 150, 200, 3);
	thread_states_finish(&states, 300);
	states_expect(1, 200, 0, 0, 0, 0);
	cr_expect_eq(states_thread(1)->lost_events, 6);
}

Test(thread_losses, a_wake_that_was_lost_leaves_the_wait_undecided)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('S', 1, 0, 200);
	states_wake(1, 1, 210);
	states_arrive(1, 0, 220);
	states_wait('S', 1, 0, 300);
	states_lose(1, 340, 350, 1);
	states_arrive(1, 0, 400);
	thread_states_finish(&states, 400);
	states_expect(1, 100 + 80, 10, 10, 100, 0);
	cr_expect_eq(states_thread(1)->lost_events, 1);
}

Test(thread_losses, a_new_thread_may_have_the_number_of_one_that_exited)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_leave(1, 0, 150);
	states_fork(1, 160);
	states_arrive(1, 0, 170);
	states_wait('S', 1, 0, 180);
	states_fork(1, 300); /* its exit was lost */
	thread_states_finish(&states, 310);
	cr_assert_eq(states.count, 3);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_RUNNING], 50);
	cr_expect_eq(states.threads[0].end_ns, 150);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNABLE], 10);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNING], 10);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(states.threads[1].end_ns, 180, "when it ended is not known");
	states_expect(1, 0, 10, 0, 0, 0);
}

Test(thread_losses, a_number_in_use_again_is_another_thread)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('X', 1, 0, 200);
	states_wake(1, 0, SECOND); /* not the dead one */
	states_arrive(1, 0, 2 * SECOND);
	states_wait('S', 1, 0, 2 * SECOND + 5);
	states_put(&(struct thread_event){
		.kind = THREAD_DEPARTS, .ns = 3 * SECOND, .pid = 77, .tid = 1, .letter = 'S' });
	thread_states_finish(&states, 3 * SECOND + 1);
	cr_assert_eq(states.count, 3);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_RUNNING], 100);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNING], 5);
	cr_expect_eq(states.threads[2].pid, 77);
	cr_expect_eq(states.threads[2].ns[THREAD_TIME_RUNNING], 0, "it was not there before");
}

Test(thread_losses, a_zombie_that_waits_while_it_exits_is_the_same_thread)
{
	states_begin(0);
	states_arrive(1, 0, 100);
	states_wait('Z', 1, 0, 200);
	states_arrive(1, 0, 250);
	states_wait('X', 1, 0, 260);
	thread_states_finish(&states, 1000);
	cr_assert_eq(states.count, 1);
	states_expect(1, 110, 0, 0, 50, 0);
	cr_expect_eq(states_thread(1)->end_ns, 260);
}

Test(thread_losses, an_unknown_pid_is_filled_in)
{
	states_begin(0);
	states_put(&(struct thread_event){
		.kind = THREAD_WOKEN, .ns = 10, .tid = 1, .cpu = 0, .waker_tid = 0 });
	states_arrive(1, 0, 20);
	thread_states_finish(&states, 30);
	cr_assert_eq(states.count, 1);
	cr_expect_eq(states_thread(1)->pid, STATES_PID);
	states_expect(1, 10, 10, 10, 0, 0);
}

Test(thread_losses, idle_threads_are_left_out)
{
	states_begin(0);
	states_arrive(1, 0, 10);
	states_arrive(0, 0, 20);
	states_preempt(0, 0, 30);
	thread_states_finish(&states, 40);
	cr_assert_eq(states.count, 1);
	states_expect(1, 10, 0, 0, 0, 20);
	cr_expect_eq(states_thread(1)->missing, 1);
}

/* Any events: the times of a thread add up to its life. */
Test(thread_losses, times_add_up_whatever_comes)
{
	static const char letters[] = "SDXZR?\0";
	uint64_t ns = 1000, sum;

	srand(7);
	for (int round = 0; round < 200; round++) {
		states_begin(ns);
		for (int i = 0; i < 300; i++) {
			uint32_t tid = (uint32_t)rand() % 5;
			int32_t cpu = rand() % 4 - 1;

			ns += (uint64_t)(rand() % 4 ? rand() % 50 : rand() % 2000000);
			switch (rand() % 10) {
			case 0:
			case 1:
				states_arrive(tid, cpu, ns);
				break;
			case 2:
				states_wait(letters[rand() % 7], tid, cpu, ns);
				break;
			case 3:
				states_preempt(tid, cpu, ns);
				break;
			case 4:
				states_wake(tid, cpu, ns);
				break;
			case 5:
				states_delay(tid, ns, (uint64_t)rand());
				break;
			case 6:
				states_fork(tid, ns);
				break;
			case 7:
				if (rand() % 4 == 0)
					states_leave(tid, cpu, ns);
				break;
			case 8:
				states_name(tid, cpu, ns);
				break;
			default:
				if (rand() % 4)
					states_mark(tid, ns);
				else
					states_lose(cpu, ns - 20, ns, 1);
			}
		}
		thread_states_finish(&states, ns);
		for (size_t i = 0; i < states.count; i++) {
			const struct thread_record *of = &states.threads[i];

			sum = 0;
			for (int j = 0; j < THREAD_TIMES; j++)
				sum += of->ns[j];
			cr_assert_eq(sum, of->end_ns - of->begin_ns, "%d: %u: %lu of %lu", round,
				     of->tid, sum, of->end_ns - of->begin_ns);
		}
		states_end();
	}
}

Test(thread_losses, ten_thousand_threads_are_found)
{
	states_begin(0);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 1; i <= 10000; i++) {
			uint64_t ns = (uint64_t)round * SECOND + i * 100;

			states_arrive(i * 8, 0, ns);
			states_wait(round == 2 ? 'X' : 'S', i * 8, 0, ns + 50);
			if (round < 2)
				states_wake(i * 8, 1, ns + SECOND / 2);
		}
	thread_states_finish(&states, 4ul * SECOND);
	cr_assert_eq(states.count, 10000);
	for (uint32_t i = 0; i < 10000; i++) {
		cr_assert_eq(states.threads[i].switches, 3);
		cr_assert_eq(states.threads[i].ns[THREAD_TIME_RUNNING], 150);
		cr_assert_eq(states.threads[i].ns[THREAD_TIME_ASLEEP], SECOND - 100);
	}
}
