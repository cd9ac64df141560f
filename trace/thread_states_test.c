/* SPDX-License-Identifier: MIT */
#include "trace/thread_states.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PID 10
#define WAKER 99
#define SECOND 1000000000u

static struct thread_states states;

static void begin(uint64_t ns)
{
	thread_states_init(&states, ns);
}

static void add(const struct thread_event *event)
{
	cr_assert_eq(thread_states_add(&states, event), 0);
}

static void arrive(uint32_t tid, int32_t cpu, uint64_t ns)
{
	add(&(struct thread_event){
		.kind = THREAD_ARRIVES, .ns = ns, .pid = PID, .tid = tid, .cpu = cpu });
}

/* It waits in the state of that letter. */
static void wait_in(char letter, uint32_t tid, int32_t cpu, uint64_t ns)
{
	add(&(struct thread_event){ .kind = THREAD_DEPARTS,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = cpu,
				    .letter = letter,
				    .place = 0x1000 });
}

static void preempt(uint32_t tid, int32_t cpu, uint64_t ns)
{
	add(&(struct thread_event){ .kind = THREAD_DEPARTS,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = cpu,
				    .is_preempted = 1,
				    .letter = 'R',
				    .place = 0x2000 });
}

static void wake(uint32_t tid, int32_t cpu, uint64_t ns)
{
	add(&(struct thread_event){ .kind = THREAD_WOKEN,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = cpu,
				    .other_pid = PID,
				    .other_tid = WAKER });
}

static void delay(uint32_t tid, uint64_t ns, uint64_t delay_ns)
{
	add(&(struct thread_event){ .kind = THREAD_RUN_DELAY,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = -1,
				    .delay_ns = delay_ns });
}

static void fork_of(uint32_t parent, uint32_t tid, uint64_t ns)
{
	add(&(struct thread_event){ .kind = THREAD_IS_BORN,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = 3,
				    .other_pid = PID,
				    .other_tid = parent });
}

static void leave(uint32_t tid, int32_t cpu, uint64_t ns)
{
	add(&(struct thread_event){
		.kind = THREAD_EXITS, .ns = ns, .pid = PID, .tid = tid, .cpu = cpu });
}

static void name(uint32_t tid, int32_t cpu, uint64_t ns, const char *text)
{
	add(&(struct thread_event){ .kind = THREAD_IS_NAMED,
				    .ns = ns,
				    .pid = PID,
				    .tid = tid,
				    .cpu = cpu,
				    .name = text });
}

static void lose(int32_t cpu, uint64_t ns, uint64_t events)
{
	cr_assert_eq(thread_states_lost(&states, cpu, ns, events), 0);
}

static void is_here(uint32_t tid, uint64_t ns)
{
	uint64_t times[THREAD_TIMES];

	cr_assert_eq(thread_states_times(&states, PID, tid, ns, times), 0);
}

/* The latest thread of that number. */
static const struct thread_record *thread(uint32_t tid)
{
	for (size_t i = states.count; i--;)
		if (states.threads[i].tid == tid)
			return &states.threads[i];
	cr_assert_fail("no thread %u", tid);
	return NULL;
}

static void expect_times(uint32_t tid, uint64_t running, uint64_t runnable, uint64_t asleep,
			 uint64_t waiting, uint64_t unknown)
{
	const uint64_t wanted[THREAD_TIMES] = { running, runnable, asleep, waiting, unknown };
	const struct thread_record *of = thread(tid);

	for (int i = 0; i < THREAD_TIMES; i++)
		cr_expect_eq(of->ns[i], wanted[i], "%u: time %d is %lu and not %lu", tid, i,
			     of->ns[i], wanted[i]);
}

static void expect_whole(uint32_t tid)
{
	const struct thread_record *of = thread(tid);

	cr_expect_eq(of->missing, 0);
	cr_expect_eq(of->lost_events, 0);
	cr_expect_eq(of->lost_ns, 0);
}

static void end(void)
{
	thread_states_release(&states);
}

Test(thread_states, a_thread_runs_is_preempted_waits_and_is_woken)
{
	begin(1000);
	arrive(1, 0, 1100);
	preempt(1, 0, 1150);
	arrive(1, 0, 1157);
	wait_in('S', 1, 0, 1200);
	wake(1, 1, 1300);
	arrive(1, 1, 1311);
	wait_in('D', 1, 1, 1320);
	wake(1, 1, 1325);
	arrive(1, 1, 1326);
	thread_states_finish(&states, 1330);
	expect_times(1, 50 + 43 + 9 + 4, 7 + 11 + 1, 100 + 5, 0, 0);
	expect_whole(1);
	cr_expect_eq(thread(1)->begin_ns, 1100);
	cr_expect_eq(thread(1)->end_ns, 1330);
	cr_expect_eq(thread(1)->switches, 3);
	cr_expect_eq(thread(1)->preempted, 1);
	cr_expect_eq(thread(1)->migrations, 1);
	cr_expect_eq(thread(1)->wakes, 2);
	cr_expect_eq(thread(1)->waits[0].ns, 100, "S");
	cr_expect_eq(thread(1)->waits[1].ns, 5, "D");
	end();
}

Test(thread_states, wakers_and_places_are_counted)
{
	begin(0);
	arrive(1, 0, 100);
	for (uint64_t i = 1; i < 4; i++) {
		wait_in('S', 1, 0, 100 * i + 50);
		wake(1, 1, 100 * i + 60);
		arrive(1, 0, 100 * i + 70);
	}
	preempt(1, 0, 480);
	arrive(1, 0, 485);
	thread_states_finish(&states, 500);
	cr_assert_eq(thread(1)->wakers.count, 1);
	cr_expect_eq(thread(1)->wakers.all[0].value, WAKER);
	cr_expect_eq(thread(1)->wakers.all[0].of, PID);
	cr_expect_eq(frequent_least(&thread(1)->wakers.all[0]), 3);
	cr_assert_eq(thread(1)->places.count, 2);
	cr_expect_eq(thread(1)->places.all[0].value, 0x1000);
	cr_expect_eq(frequent_least(&thread(1)->places.all[0]), 3);
	cr_expect_eq(thread(1)->places.all[0].preempted, 0);
	cr_expect_eq(thread(1)->places.all[0].ns, 60);
	cr_expect_eq(thread(1)->places.all[1].preempted, 1);
	cr_expect_eq(thread(1)->places.all[1].ns, 5);
	end();
}

Test(thread_states, a_wake_a_little_after_the_arrival_ends_the_wait)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('S', 1, 0, 200);
	arrive(1, 0, 300);
	wake(1, 1, 300 + THREAD_REVERSED_NS);
	wait_in('S', 1, 0, 20000);
	wake(1, 1, 20100); /* it is not taken for an early one of this wait */
	arrive(1, 0, 20150);
	thread_states_finish(&states, 20150);
	expect_times(1, 100 + 19700, 50, 100 + 100, 0, 0);
	expect_whole(1);
	end();
}

Test(thread_states, a_wake_long_after_the_arrival_is_for_the_next_wait)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('S', 1, 0, 200);
	arrive(1, 0, 300);
	wake(1, 1, 301 + THREAD_REVERSED_NS);
	wait_in('S', 1, 0, 20000);
	arrive(1, 0, 20150);
	thread_states_finish(&states, 20150);
	expect_times(1, 100 + 19700, 150, 0, 100, 0);
	end();
}

/* The kernel wakes a thread that has decided to wait, and is on its CPU still. */
Test(thread_states, a_wake_before_the_departure_makes_it_runnable)
{
	begin(0);
	arrive(1, 0, 100);
	wake(1, 1, 195);
	wait_in('S', 1, 0, 200);
	arrive(1, 0, 300);
	thread_states_finish(&states, 400);
	expect_times(1, 200, 100, 0, 0, 0);
	end();
}

Test(thread_states, a_wake_that_kept_it_running_is_not_for_a_wait_that_has_its_own)
{
	begin(0);
	arrive(1, 0, 100);
	wake(1, 1, 150);
	wait_in('S', 1, 0, 200);
	wake(1, 1, 280);
	arrive(1, 0, 300);
	wake(1, 1, 20000); /* it was preempted, and not asleep: the wake is used up */
	preempt(1, 0, 20001);
	arrive(1, 0, 20002);
	wait_in('S', 1, 0, 20003);
	arrive(1, 0, 20013);
	thread_states_finish(&states, 20013);
	expect_times(1, 100 + 19701 + 1, 20 + 1, 80, 10, 0);
	end();
}

Test(thread_states, without_wakes_a_wait_is_asleep_or_runnable)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('S', 1, 0, 200);
	arrive(1, 0, 300);
	preempt(1, 0, 310);
	arrive(1, 0, 330);
	wait_in('S', 1, 0, 340);
	thread_states_finish(&states, 400);
	expect_times(1, 100 + 10 + 10, 20, 0, 100 + 60, 0);
	cr_expect_eq(thread(1)->waits[0].ns, 160);
	end();
}

Test(thread_states, run_delay_divides_the_waits_between_its_readings)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('?', 1, 0, 200);
	arrive(1, 0, 300); /* before the first reading: it can't be divided */
	delay(1, 300, 5000);
	preempt(1, 0, 310);
	arrive(1, 0, 330);
	wait_in('?', 1, 0, 340);
	arrive(1, 0, 440);
	delay(1, 450, 5000 + 20 + 30);
	wait_in('?', 1, 0, 460);
	thread_states_finish(&states, 500);
	expect_times(1, 100 + 10 + 10 + 20, 20 + 30, 70, 100, 0);
	cr_expect_eq(thread(1)->end_ns, 460, "nothing shows that it lived");
	end();
}

Test(thread_states, run_delay_that_makes_no_sense_divides_no_more_than_there_is)
{
	static const uint64_t readings[][2] = { { 1000, 5 }, { 0, UINT64_MAX }, { 7, 8 } };
	static const uint64_t runnable[] = { 20, 20 + 100, 20 };

	for (int i = 0; i < 3; i++) {
		begin(0);
		arrive(1, 0, 100);
		delay(1, 100, readings[i][0]);
		wait_in('?', 1, 0, 200);
		arrive(1, 0, 300);
		preempt(1, 0, 310);
		arrive(1, 0, 330);
		delay(1, 330, readings[i][1]);
		thread_states_finish(&states, 330);
		expect_times(1, 110, runnable[i], 120 - runnable[i], 0, 0);
		end();
	}
}

Test(thread_states, run_delay_shows_that_a_thread_lived)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('?', 1, 0, 200);
	delay(1, 290, 0);
	thread_states_finish(&states, 300);
	expect_times(1, 100, 0, 0, 100, 0);
	cr_expect_eq(thread(1)->end_ns, 300);
	end();
}

Test(thread_states, the_first_event_shows_what_was_before)
{
	begin(1000);
	preempt(1, 0, 1100); /* it ran */
	wake(2, 0, 1200);    /* it slept */
	arrive(2, 0, 1210);
	wait_in('S', 2, 0, 1220);
	arrive(3, 0, 1230); /* it may be new */
	delay(4, 1050, 0);
	arrive(4, 1, 1260); /* it was there, asleep or runnable */
	delay(5, 1050, 0);  /* it was there, and never switched */
	is_here(6, 1070);
	wait_in('S', 6, 2, 1080);
	thread_states_finish(&states, 1300);
	expect_times(1, 100, 200, 0, 0, 0);
	expect_times(2, 10, 10, 200 + 80, 0, 0);
	expect_times(3, 70, 0, 0, 0, 0);
	expect_times(4, 40, 0, 0, 210, 0);
	expect_times(5, 0, 0, 0, 0, 250);
	expect_times(6, 80, 0, 220, 0, 0);
	cr_expect_eq(thread(1)->begin_ns, 1000);
	cr_expect_eq(thread(2)->begin_ns, 1000);
	cr_expect_eq(thread(3)->begin_ns, 1230);
	cr_expect_eq(thread(4)->begin_ns, 1050);
	cr_expect_eq(thread(6)->begin_ns, 1000);
	end();
}

Test(thread_states, what_is_open_at_the_end_is_closed)
{
	begin(0);
	arrive(1, 0, 10);
	arrive(2, 1, 10);
	preempt(2, 1, 20);
	arrive(3, 1, 20);
	wait_in('T', 3, 1, 30);
	arrive(4, 1, 30);
	wait_in('X', 4, 1, 40);
	wake(5, 1, 45);
	thread_states_finish(&states, 100);
	expect_times(1, 90, 0, 0, 0, 0);
	expect_times(2, 10, 80, 0, 0, 0);
	expect_times(3, 10, 0, 70, 0, 0);
	expect_times(4, 10, 0, 0, 0, 0);
	cr_expect_eq(thread(4)->end_ns, 40);
	expect_times(5, 0, 55, 45, 0, 0);
	end();
}

Test(thread_states, a_departure_a_little_after_the_arrival_elsewhere_is_no_gap)
{
	begin(0);
	arrive(1, 0, 100);
	arrive(1, 1, 199);
	preempt(1, 0, 201);
	wait_in('S', 1, 1, 300);
	wake(1, 0, 350);
	thread_states_finish(&states, 350);
	expect_times(1, 99 + 101, 0, 50, 0, 0);
	expect_whole(1);
	cr_expect_eq(thread(1)->switches, 2);
	cr_expect_eq(thread(1)->preempted, 1);
	end();
}

Test(thread_states, a_departure_a_little_after_the_next_threads_arrival_is_no_gap)
{
	begin(0);
	arrive(1, 0, 100);
	arrive(2, 0, 200);
	preempt(1, 0, 200);
	wait_in('S', 2, 0, 250);
	arrive(1, 0, 250);
	thread_states_finish(&states, 300);
	expect_times(1, 150, 50, 0, 0, 0);
	expect_whole(1);
	expect_whole(2);
	end();
}

Test(thread_states, contradictions_are_missing_switches_and_unknown_time)
{
	begin(0);
	arrive(1, 0, 100);
	arrive(1, 0, 200); /* a departure is missing */
	preempt(1, 0, 300);
	preempt(1, 0, 400); /* an arrival */
	arrive(1, 0, 500);
	arrive(1, 1, 50000);
	preempt(1, 0, 50001 + THREAD_REVERSED_NS); /* too late for the departure from CPU 0 */
	arrive(2, 3, 100);
	arrive(3, 3, 200); /* where thread 2 ran */
	arrive(2, 3, 50000); /* where thread 3 ran */
	thread_states_finish(&states, 100000);
	expect_times(1, 100 + 49500, 100 + 39999 - THREAD_REVERSED_NS + 10000, 0, 0,
		     100 + 100 + THREAD_REVERSED_NS + 1);
	cr_expect_eq(thread(1)->missing, 4);
	expect_times(2, 100 + 50000, 0, 0, 0, 49800);
	cr_expect_eq(thread(2)->missing, 1);
	cr_expect_eq(thread(3)->missing, 1);
	end();
}

Test(thread_states, after_losses_the_running_threads_time_is_unknown)
{
	begin(0);
	arrive(1, 0, 100);
	arrive(2, 1, 100);
	cr_assert_eq(thread_states_cpu(&states, 0, 150), 0); /* another event of that CPU */
	lose(0, 300, 7);
	wait_in('S', 1, 0, 320);
	wake(1, 1, 330);
	arrive(1, 0, 340);
	preempt(2, 1, 400);
	arrive(3, 1, 400); /* it comes after the losses */
	thread_states_finish(&states, 500);
	expect_times(1, 50 + 160, 10, 10, 0, 170);
	expect_times(2, 300, 100, 0, 0, 0);
	cr_expect_eq(thread(1)->lost_events, 7);
	cr_expect_eq(thread(1)->lost_ns, 150);
	cr_expect_eq(thread(2)->lost_events, 7, "it may have been there");
	expect_whole(3);
	end();
}

Test(thread_states, after_losses_a_first_event_shows_nothing)
{
	begin(0);
	delay(4, 5, 0);
	lose(0, 100, 1);
	preempt(1, 0, 200);
	wake(2, 0, 200);
	is_here(3, 200);
	wait_in('S', 4, 1, 300);
	thread_states_finish(&states, 300);
	expect_times(1, 0, 100, 0, 0, 0);
	expect_times(2, 0, 100, 0, 0, 0);
	expect_times(3, 100, 0, 0, 0, 0);
	expect_times(4, 0, 0, 0, 0, 295);
	cr_expect_eq(thread(1)->begin_ns, 200);
	end();
}

Test(thread_states, losses_of_no_cpu_are_counted)
{
	begin(0);
	arrive(1, 0, 100);
	lose(-1, 200, 3);
	lose(INT32_MAX, 200, 3);
	thread_states_finish(&states, 300);
	expect_times(1, 200, 0, 0, 0, 0);
	cr_expect_eq(thread(1)->lost_events, 6);
	end();
}

Test(thread_states, a_wake_that_was_lost_leaves_the_wait_undecided)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('S', 1, 0, 200);
	wake(1, 1, 210);
	arrive(1, 0, 220);
	wait_in('S', 1, 0, 300);
	lose(1, 350, 1);
	arrive(1, 0, 400);
	thread_states_finish(&states, 400);
	expect_times(1, 100 + 80, 10, 10, 100, 0);
	cr_expect_eq(thread(1)->lost_events, 1);
	end();
}

Test(thread_states, a_new_thread_is_runnable_until_it_arrives)
{
	begin(0);
	name(1, -1, 5, "parent");
	fork_of(1, 2, 100);
	fork_of(1, 2, 100); /* recorded twice */
	arrive(2, 1, 130);
	fork_of(1, 3, 200);
	arrive(4, 2, 300);
	fork_of(1, 4, 301); /* a little after its arrival */
	name(4, 2, 310, "renamed for the rest of it");
	thread_states_finish(&states, 400);
	expect_times(1, 0, 0, 0, 0, 395);
	expect_times(2, 170, 30, 0, 0, 0);
	expect_times(3, 0, 200, 0, 0, 0);
	expect_times(4, 100, 0, 0, 0, 0);
	cr_assert_eq(states.count, 4);
	cr_expect_eq(thread(2)->begin_ns, 100);
	cr_expect_str_eq(thread(2)->name, "parent");
	cr_expect_str_eq(thread(4)->name, "renamed for the");
	cr_expect_eq(thread_states_find(&states, 4), thread(4));
	cr_expect_null(thread_states_find(&states, 5));
	end();
}

Test(thread_states, a_thread_that_exits_ran_until_then)
{
	begin(0);
	arrive(1, 0, 100);
	leave(1, 0, 150);
	arrive(2, 0, 5000);
	leave(2, 0, 6000); /* a CPU's events: it departs */
	wait_in('D', 2, 0, 6010);
	wake(2, 1, 6020);
	arrive(2, 0, 6030);
	wait_in('X', 2, 0, 6040);
	leave(3, 1, 200); /* it ran from the begin on */
	arrive(4, 2, 10);
	wait_in('S', 4, 2, 20);
	leave(4, 2, 50); /* an arrival is missing */
	thread_states_finish(&states, 9000);
	expect_times(1, 50, 0, 0, 0, 0);
	cr_expect_eq(thread(1)->end_ns, 150);
	expect_whole(1);
	expect_times(2, 1000 + 10 + 10, 10, 10, 0, 0);
	cr_expect_eq(thread(2)->end_ns, 6040);
	expect_whole(2);
	expect_times(3, 200, 0, 0, 0, 0);
	expect_times(4, 10, 0, 0, 0, 30);
	cr_expect_eq(thread(4)->missing, 1);
	end();
}

Test(thread_states, a_new_thread_may_have_the_number_of_one_that_exited)
{
	begin(0);
	arrive(1, 0, 100);
	leave(1, 0, 150);
	fork_of(7, 1, 160);
	arrive(1, 0, 170);
	wait_in('S', 1, 0, 180);
	fork_of(7, 1, 300); /* its exit was lost */
	thread_states_finish(&states, 310);
	cr_assert_eq(states.count, 3);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_RUNNING], 50);
	cr_expect_eq(states.threads[0].end_ns, 150);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNABLE], 10);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNING], 10);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(states.threads[1].end_ns, 180, "when it ended is not known");
	expect_times(1, 0, 10, 0, 0, 0);
	end();
}

Test(thread_states, where_exits_are_recorded_a_wait_without_an_end_is_one)
{
	begin(0);
	name(2, -1, 5, "other");
	arrive(1, 0, 100);
	wait_in('?', 1, 0, 200);
	thread_states_finish(&states, 300);
	expect_times(1, 100, 0, 0, 100, 0);
	end();
}

Test(thread_states, a_thread_of_which_only_wakes_are_recorded_is_none)
{
	begin(0);
	wake(1, 0, 100);
	wake(2, 0, 100);
	name(2, -1, 200, "there");
	thread_states_finish(&states, 300);
	cr_expect_not(thread(1)->is_recorded);
	cr_expect(thread(2)->is_recorded);
	end();
}

Test(thread_states, a_number_in_use_again_is_another_thread)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('X', 1, 0, 200);
	wake(1, 0, SECOND); /* not the dead one */
	arrive(1, 0, 2 * SECOND);
	wait_in('S', 1, 0, 2 * SECOND + 5);
	add(&(struct thread_event){
		.kind = THREAD_DEPARTS, .ns = 3 * SECOND, .pid = 77, .tid = 1, .letter = 'S' });
	thread_states_finish(&states, 3 * SECOND + 1);
	cr_assert_eq(states.count, 3);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_RUNNING], 100);
	cr_expect_eq(states.threads[0].ns[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(states.threads[1].ns[THREAD_TIME_RUNNING], 5);
	cr_expect_eq(states.threads[2].pid, 77);
	cr_expect_eq(states.threads[2].ns[THREAD_TIME_RUNNING], 0, "it was not there before");
	end();
}

Test(thread_states, a_zombie_that_waits_while_it_exits_is_the_same_thread)
{
	begin(0);
	arrive(1, 0, 100);
	wait_in('Z', 1, 0, 200);
	arrive(1, 0, 250);
	wait_in('X', 1, 0, 260);
	thread_states_finish(&states, 1000);
	cr_assert_eq(states.count, 1);
	expect_times(1, 110, 0, 0, 50, 0);
	cr_expect_eq(thread(1)->end_ns, 260);
	end();
}

Test(thread_states, an_unknown_pid_is_filled_in)
{
	begin(0);
	add(&(struct thread_event){
		.kind = THREAD_WOKEN, .ns = 10, .tid = 1, .cpu = 0, .other_tid = 0 });
	arrive(1, 0, 20);
	thread_states_finish(&states, 30);
	cr_assert_eq(states.count, 1);
	cr_expect_eq(thread(1)->pid, PID);
	expect_times(1, 10, 10, 10, 0, 0);
	end();
}

Test(thread_states, idle_threads_are_left_out)
{
	begin(0);
	arrive(1, 0, 10);
	arrive(0, 0, 20);
	preempt(0, 0, 30);
	thread_states_finish(&states, 40);
	cr_assert_eq(states.count, 1);
	expect_times(1, 10, 0, 0, 0, 20);
	cr_expect_eq(thread(1)->missing, 1);
	end();
}

Test(thread_states, sums_at_a_time_include_the_state_then)
{
	uint64_t times[THREAD_TIMES];

	begin(0);
	arrive(1, 0, 100);
	cr_assert_eq(thread_states_times(&states, PID, 1, 130, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 30);
	wait_in('S', 1, 0, 150);
	cr_assert_eq(thread_states_times(&states, PID, 1, 170, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 50);
	cr_expect_eq(times[THREAD_TIME_ASLEEP], 20);
	arrive(1, 0, 200);
	cr_assert_eq(thread_states_times(&states, PID, 1, 201, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 51);
	cr_expect_eq(times[THREAD_TIME_ASLEEP], 0);
	cr_expect_eq(times[THREAD_TIME_WAITING], 50);
	cr_assert_eq(thread_states_times(&states, 0, 0, 201, times), 0);
	cr_expect_eq(times[THREAD_TIME_RUNNING], 0);
	end();
}

/* Any events: the times of a thread add up to its life. */
Test(thread_states, times_add_up_whatever_comes)
{
	static const char letters[] = "SDXZR?\0";
	uint64_t ns = 1000, sum;

	srand(7);
	for (int round = 0; round < 200; round++) {
		begin(ns);
		for (int i = 0; i < 300; i++) {
			uint32_t tid = (uint32_t)rand() % 5;
			int32_t cpu = rand() % 4 - 1;

			ns += (uint64_t)(rand() % 4 ? rand() % 50 : rand() % 2000000);
			switch (rand() % 10) {
			case 0:
			case 1:
				arrive(tid, cpu, ns);
				break;
			case 2:
				wait_in(letters[rand() % 7], tid, cpu, ns);
				break;
			case 3:
				preempt(tid, cpu, ns);
				break;
			case 4:
				wake(tid, cpu, ns);
				break;
			case 5:
				delay(tid, ns, (uint64_t)rand());
				break;
			case 6:
				fork_of(1, tid, ns);
				break;
			case 7:
				if (rand() % 4 == 0)
					leave(tid, cpu, ns);
				break;
			case 8:
				name(tid, cpu, ns, "name");
				break;
			default:
				if (rand() % 4)
					is_here(tid, ns);
				else
					lose(cpu, ns, 1);
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
		end();
	}
}

Test(thread_states, ten_thousand_threads_are_found)
{
	begin(0);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t i = 1; i <= 10000; i++) {
			uint64_t ns = (uint64_t)round * SECOND + i * 100;

			arrive(i * 8, 0, ns);
			wait_in(round == 2 ? 'X' : 'S', i * 8, 0, ns + 50);
			if (round < 2)
				wake(i * 8, 1, ns + SECOND / 2);
		}
	thread_states_finish(&states, 4ul * SECOND);
	cr_assert_eq(states.count, 10000);
	for (uint32_t i = 0; i < 10000; i++) {
		cr_assert_eq(states.threads[i].switches, 3);
		cr_assert_eq(states.threads[i].ns[THREAD_TIME_RUNNING], 150);
		cr_assert_eq(states.threads[i].ns[THREAD_TIME_ASLEEP], SECOND - 100);
	}
	end();
}
