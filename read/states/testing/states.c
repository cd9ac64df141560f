/* SPDX-License-Identifier: MIT */
#include "read/states/testing/states.h"

#include <criterion/criterion.h>

struct thread_states states;

void states_begin(uint64_t ns)
{
	thread_states_init(&states, ns);
}

void states_put(const struct thread_event *event)
{
	cr_assert_eq(thread_states_add(&states, event), 0);
}

void states_arrive(uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){
		.kind = THREAD_ARRIVES, .ns = ns, .pid = STATES_PID, .tid = tid, .cpu = cpu });
}

void states_wait(char letter, uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){ .kind = THREAD_DEPARTS,
					   .ns = ns,
					   .pid = STATES_PID,
					   .tid = tid,
					   .cpu = cpu,
					   .letter = letter,
					   .place = STATES_WAITS_AT });
}

void states_preempt(uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){ .kind = THREAD_DEPARTS,
					   .ns = ns,
					   .pid = STATES_PID,
					   .tid = tid,
					   .cpu = cpu,
					   .is_preempted = 1,
					   .letter = 'R',
					   .place = STATES_PREEMPTED_AT });
}

void states_wake(uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){ .kind = THREAD_WOKEN,
					   .ns = ns,
					   .pid = STATES_PID,
					   .tid = tid,
					   .cpu = cpu,
					   .waker_pid = STATES_PID,
					   .waker_tid = STATES_WAKER });
}

void states_delay(uint32_t tid, uint64_t ns, uint64_t delay_ns)
{
	states_put(&(struct thread_event){ .kind = THREAD_RUN_DELAY,
					   .ns = ns,
					   .pid = STATES_PID,
					   .tid = tid,
					   .cpu = -1,
					   .delay_ns = delay_ns });
}

void states_fork(uint32_t tid, uint64_t ns)
{
	states_put(&(struct thread_event){
		.kind = THREAD_IS_BORN, .ns = ns, .pid = STATES_PID, .tid = tid, .cpu = 3 });
}

void states_leave(uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){
		.kind = THREAD_EXITS, .ns = ns, .pid = STATES_PID, .tid = tid, .cpu = cpu });
}

void states_name(uint32_t tid, int32_t cpu, uint64_t ns)
{
	states_put(&(struct thread_event){
		.kind = THREAD_IS_NAMED, .ns = ns, .pid = STATES_PID, .tid = tid, .cpu = cpu });
}

void states_lose(int32_t cpu, uint64_t from_ns, uint64_t to_ns, uint64_t events)
{
	cr_assert_eq(thread_states_lost(&states, cpu, from_ns, to_ns, events), 0);
}

void states_mark(uint32_t tid, uint64_t ns)
{
	uint64_t times[THREAD_TIMES];

	cr_assert_eq(thread_states_times(&states, STATES_PID, tid, ns, times), 0);
}

const struct thread_record *states_thread(uint32_t tid)
{
	for (size_t i = states.count; i--;)
		if (states.threads[i].tid == tid)
			return &states.threads[i];
	cr_assert_fail("no thread %u", tid);
	return NULL;
}

void states_expect(uint32_t tid, uint64_t running, uint64_t runnable, uint64_t asleep,
		   uint64_t waiting, uint64_t unknown)
{
	const uint64_t wanted[THREAD_TIMES] = { running, runnable, asleep, waiting, unknown };
	const struct thread_record *of = states_thread(tid);

	for (int i = 0; i < THREAD_TIMES; i++)
		cr_expect_eq(of->ns[i], wanted[i], "%u: time %d is %lu and not %lu", tid, i,
			     of->ns[i], wanted[i]);
}

void states_expect_whole(uint32_t tid)
{
	const struct thread_record *of = states_thread(tid);

	cr_expect_eq(of->missing, 0);
	cr_expect_eq(of->lost_events, 0);
	cr_expect_eq(of->lost_ns, 0);
}

void states_end(void)
{
	thread_states_release(&states);
}
