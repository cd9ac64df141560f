/* SPDX-License-Identifier: MIT */
#include "read/states/thread_states.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static inline void thread_spend(struct thread_record *thread, enum thread_time time, uint64_t ns)
{
	if (ns > thread->since_ns)
		thread->ns[time] += ns - thread->since_ns;
}

static inline void thread_wait_spend(struct thread_record *thread, uint64_t ns)
{
	if (ns > thread->since_ns)
		thread->waits[thread->letter].ns += ns - thread->since_ns;
}

static void off_give(struct thread_states *states, struct thread_record *thread)
{
	struct thread_off off = thread->off;

	thread->off.from_ns = thread->off.to_ns = 0;
	off.thread = (uint32_t)(thread - states->threads);
	if (states->take_off && off.to_ns > off.from_ns && !states->error)
		states->error = states->take_off(&off, states->take_data);
}

/* No wake comes any more for the wait that ended last. */
static inline void thread_settle(struct thread_states *states, struct thread_record *thread)
{
	thread->ns[THREAD_TIME_WAITING] += thread->pending_ns;
	thread->pending_ns = 0;
	if (thread->off.to_ns)
		off_give(states, thread);
}

static inline void thread_enter(struct thread_record *thread, enum thread_state state, uint64_t ns)
{
	thread->state = state;
	thread->since_ns = ns;
}

/* Threads by number. The kernel gives the number of a thread that ended to another. */

/* A zombie may wait once more while it exits. Its number is in use again later. */
#define RESUMED_NS 100000000

/*
 * A thread that is here for the first time; `former`: the index of the last one that had its
 * number, and 1; 0: none had.
 */
static struct thread_record *thread_new(struct thread_states *states, uint32_t pid, uint32_t tid,
					uint64_t ns, uint32_t former)
{
	int is_beside_loss = states->lost_events && ns <= states->lost_until_ns;
	struct thread_record *thread;

	if (states->count == UINT32_MAX - 1 || slots_fit(&states->slots) ||
	    array_grow(&states->threads, &states->room, states->count + 1, sizeof(*thread)))
		return NULL;
	thread = &states->threads[states->count++];
	*thread = (struct thread_record){
		.pid = pid,
		.tid = tid,
		.state = former || states->lost_switches ? THREAD_UNKNOWN : THREAD_UNSEEN,
		.begin_ns = ns,
		.since_ns = ns,
		.cpu = -1,
		.crossed_cpu = -1,
		.lost_events = is_beside_loss ? states->before_events : states->lost_events,
		.lost_switches = states->lost_switches,
		.lost_ns = is_beside_loss ? states->before_ns : states->lost_ns,
	};
	if (former)
		slots_replace(&states->slots, slots_hash(tid), former - 1,
			      (uint32_t)states->count - 1);
	else
		slots_add(&states->slots, slots_hash(tid), (uint32_t)states->count - 1);
	return thread;
}

static int is_gone(const struct thread_record *thread)
{
	return thread->state == THREAD_ENDED ||
	       (thread->state == THREAD_RUNNING && thread->is_exiting);
}

/* The fork may be recorded twice, or a little after the child's arrival on another CPU. */
static int is_birth_known(const struct thread_record *thread, const struct thread_event *event)
{
	return thread->is_born ||
	       (thread->state == THREAD_RUNNING && !thread->is_exiting && !thread->switches &&
		!thread->is_sighted && event->ns <= thread->begin_ns + THREAD_REVERSED_NS);
}

/* Whether an event is about another thread, of the same number. */
static int is_over(const struct thread_record *thread, const struct thread_event *event)
{
	if (event->pid && thread->pid && event->pid != thread->pid)
		return 1;
	if (event->kind == THREAD_IS_BORN)
		return !is_birth_known(thread, event);
	return is_gone(thread) && event->kind != THREAD_WOKEN &&
	       event->ns > thread->since_ns + RESUMED_NS;
}

/* The index of the last thread with that number, and 1; 0: none. */
static uint32_t thread_index(const struct thread_states *states, uint32_t tid)
{
	uint32_t hash = slots_hash(tid), number;

	for (uint64_t at = hash;
	     states->slots.all && slots_next(&states->slots, hash, &at, &number);)
		if (states->threads[number].tid == tid)
			return number + 1;
	return 0;
}

/* The thread that an event is about, made if it is new. NULL: no memory. */
static struct thread_record *thread_of(struct thread_states *states,
				       const struct thread_event *event)
{
	uint32_t found = thread_index(states, event->tid);
	struct thread_record *thread = found ? &states->threads[found - 1] : NULL;

	if (!thread)
		return thread_new(states, event->pid, event->tid, event->ns, 0);
	if (!is_over(thread, event)) {
		thread->pid = thread->pid ? thread->pid : event->pid;
		return thread;
	}
	/* how long its last state lasted is not known */
	thread->state = THREAD_ENDED;
	return thread_new(states, event->pid, event->tid, event->ns, found);
}

#define CPUS_MAX 8192 /* of others, it isn't known who runs there */

void thread_states_init(struct thread_states *states, uint64_t begin_ns)
{
	*states = (struct thread_states){ .begin_ns = begin_ns };
}

void thread_states_release(struct thread_states *states)
{
	free(states->threads);
	free(states->slots.all);
	free(states->cpus);
	*states = (struct thread_states){ 0 };
}

/* ---- events ---- */

/* Its first event shows what it did until then. */
static void seen(const struct thread_states *states, struct thread_record *thread,
		 enum thread_time time, uint64_t ns)
{
	if (!thread->is_sighted && time == THREAD_TIME_WAITING)
		return;
	if (!thread->is_sighted)
		thread->begin_ns = thread->since_ns = states->begin_ns < ns ? states->begin_ns : ns;
	thread_spend(thread,
		     states->lost_switches > thread->lost_switches ? THREAD_TIME_UNKNOWN : time,
		     ns);
}

/* The time in a state that a switch contradicts: one before it is missing. */
static void contradicted(struct thread_record *thread, uint64_t ns)
{
	thread->missing++;
	thread_spend(thread, THREAD_TIME_UNKNOWN, ns);
}

/* It waited until it arrived. */
static void wait_end(struct thread_record *thread, uint64_t ns)
{
	if (thread->is_woken_early) {
		thread_spend(thread, THREAD_TIME_RUNNABLE, ns);
		return;
	}
	thread_wait_spend(thread, ns);
	thread->pending_ns = ns > thread->since_ns ? ns - thread->since_ns : 0;
}

static void arrive(struct thread_states *states, struct thread_record *thread,
		   const struct thread_event *event)
{
	int32_t from = thread->cpu;

	thread_settle(states, thread);
	thread->crossed_cpu = -1;
	switch (thread->state) {
	case THREAD_UNSEEN:
		seen(states, thread, THREAD_TIME_WAITING, event->ns);
		break;
	case THREAD_UNKNOWN:
		thread_spend(thread, THREAD_TIME_UNKNOWN, event->ns);
		break;
	case THREAD_RUNNING:
		if (from < 0 || event->cpu < 0 || from == event->cpu) {
			contradicted(thread, event->ns);
			break;
		}
		thread->missing++;
		thread_spend(thread, THREAD_TIME_RUNNING, event->ns);
		thread->crossed_cpu = from;
		break;
	case THREAD_RUNNABLE:
		thread_spend(thread, THREAD_TIME_RUNNABLE, event->ns);
		break;
	case THREAD_ASLEEP:
	case THREAD_ENDED:
		wait_end(thread, event->ns);
		break;
	}
	thread->is_born = 0;
	thread->migrations += from >= 0 && event->cpu >= 0 && from != event->cpu;
	thread->cpu = event->cpu;
	thread->is_woken_early = 0;
	thread_enter(thread, THREAD_RUNNING, event->ns);
	if (thread->off.from_ns)
		thread->off.to_ns = event->ns;
}

static uint8_t letter_of(char letter)
{
	const char *found = letter ? strchr(THREAD_LETTERS, letter) : NULL;

	return (uint8_t)(found ? (size_t)(found - THREAD_LETTERS) : THREAD_LETTER_COUNT - 1);
}

static void departure_count(struct thread_record *thread, const struct thread_event *event)
{
	thread->switches++;
	thread->preempted += (uint64_t)(event->is_preempted != 0);
	if (!event->is_preempted && event->letter != 'R')
		thread->waits[letter_of(event->letter)].count++;
}

/* The departure that seemed to be missing: what came after it was recorded before. */
static int is_reversed(const struct thread_record *thread, const struct thread_event *event)
{
	return thread->crossed_cpu >= 0 && thread->crossed_cpu == event->cpu &&
	       event->ns - thread->since_ns <= THREAD_REVERSED_NS;
}

/* From now on it is off its CPU. */
static void off_begin(struct thread_record *thread, const struct thread_event *event)
{
	int is_runnable = event->is_preempted || event->letter == 'R';

	thread->off = (struct thread_off){
		.from_ns = event->ns,
		.place = event->place,
		.image = event->image,
		.stack = event->stack,
		.as = is_runnable ? THREAD_LETTER_COUNT : letter_of(event->letter),
		.waker_tid = THREAD_NO_WAKER,
	};
	if (is_runnable || !thread->is_woken_early)
		return;
	thread->off.woken_ns = event->ns;
	thread->off.waker_pid = thread->early_pid;
	thread->off.waker_tid = thread->early_tid;
}

static void depart(struct thread_states *states, struct thread_record *thread,
		   const struct thread_event *event)
{
	departure_count(thread, event);
	if (thread->state == THREAD_RUNNING && is_reversed(thread, event)) {
		thread->missing--;
		thread->crossed_cpu = -1;
		return;
	}
	thread_settle(states, thread);
	switch (thread->state) {
	case THREAD_UNSEEN:
		seen(states, thread, THREAD_TIME_RUNNING, event->ns);
		break;
	case THREAD_UNKNOWN:
		thread->missing -= is_reversed(thread, event);
		thread_spend(thread, THREAD_TIME_UNKNOWN, event->ns);
		break;
	case THREAD_RUNNING:
		if (thread->cpu >= 0 && event->cpu >= 0 && thread->cpu != event->cpu)
			contradicted(thread, event->ns);
		else
			thread_spend(thread, THREAD_TIME_RUNNING, event->ns);
		break;
	case THREAD_RUNNABLE:
	case THREAD_ASLEEP:
	case THREAD_ENDED:
		contradicted(thread, event->ns);
		break;
	}
	thread->cpu = event->cpu;
	thread->crossed_cpu = -1;
	thread->letter = letter_of(event->letter);
	off_begin(thread, event);
	if (thread->off.as == THREAD_LETTER_COUNT)
		thread_enter(thread, THREAD_RUNNABLE, event->ns);
	else
		thread_enter(thread,
			     event->letter == 'X' || event->letter == 'Z' ? THREAD_ENDED
									  : THREAD_ASLEEP,
			     event->ns);
}

static void off_wake(struct thread_off *off, const struct thread_event *event, uint64_t ns)
{
	off->woken_ns = ns;
	off->waker_pid = event->waker_pid;
	off->waker_tid = event->waker_tid;
}

static void wake(struct thread_states *states, struct thread_record *thread,
		 const struct thread_event *event)
{
	states->wakes++;
	thread->wakes++;
	switch (thread->state) {
	case THREAD_UNSEEN:
		seen(states, thread, THREAD_TIME_ASLEEP, event->ns);
		thread_enter(thread, THREAD_RUNNABLE, event->ns);
		break;
	case THREAD_UNKNOWN:
		thread_spend(thread, THREAD_TIME_UNKNOWN, event->ns);
		thread_enter(thread, THREAD_RUNNABLE, event->ns);
		break;
	case THREAD_ASLEEP:
		thread_spend(thread, THREAD_TIME_ASLEEP, event->ns);
		thread_wait_spend(thread, event->ns);
		thread_enter(thread, THREAD_RUNNABLE, event->ns);
		off_wake(&thread->off, event, event->ns);
		break;
	case THREAD_RUNNING:
		if (thread->pending_ns && event->ns - thread->since_ns <= THREAD_REVERSED_NS) {
			thread->ns[THREAD_TIME_ASLEEP] += thread->pending_ns;
			thread->pending_ns = 0;
			off_wake(&thread->off, event, thread->off.to_ns);
		} else {
			thread->is_woken_early = 1;
			thread->early_pid = event->waker_pid;
			thread->early_tid = event->waker_tid;
		}
		break;
	case THREAD_RUNNABLE:
	case THREAD_ENDED:
		break;
	}
}

static void sight(struct thread_record *thread, uint64_t ns)
{
	if (thread->state != THREAD_UNSEEN || thread->is_sighted)
		return;
	thread->is_sighted = 1;
	thread->begin_ns = thread->since_ns = ns;
}

/* The kernel adds to its sum when the thread arrives, and so do we. */
static void delay(struct thread_states *states, struct thread_record *thread,
		  const struct thread_event *event)
{
	thread_settle(states, thread);
	thread->delay_last = (struct thread_delay){
		.is_known = 1,
		.at_ns = event->ns,
		.ns = event->delay_ns,
		.runnable_ns = thread->ns[THREAD_TIME_RUNNABLE],
		.waiting_ns = thread->ns[THREAD_TIME_WAITING],
	};
	if (!thread->delay_first.is_known)
		thread->delay_first = thread->delay_last;
	sight(thread, event->ns);
}

/* It runs: an event that it recorded shows that. */
static void thread_be_here(const struct thread_states *states, struct thread_record *thread,
			   uint64_t ns)
{
	if (thread->state == THREAD_UNSEEN)
		seen(states, thread, THREAD_TIME_RUNNING, ns);
	else if (thread->state == THREAD_UNKNOWN && ns > states->lost_until_ns)
		thread_spend(thread, THREAD_TIME_UNKNOWN, ns);
	else
		return;
	thread->cpu = -1;
	thread_enter(thread, THREAD_RUNNING, ns);
}

/* A new thread. One that is known already is not. */
static void be_born(struct thread_states *states, struct thread_record *thread, uint64_t ns)
{
	states->has_tasks = 1;
	if (thread->begin_ns != ns || thread->is_born || thread->switches ||
	    (thread->state != THREAD_UNSEEN && thread->state != THREAD_UNKNOWN))
		return;
	thread->is_born = 1;
	thread_enter(thread, THREAD_RUNNABLE, ns);
}

/* It still runs for a little while, and where CPUs are recorded, it departs. */
static void leave(struct thread_states *states, struct thread_record *thread, uint64_t ns)
{
	states->has_tasks = 1;
	thread_settle(states, thread);
	thread->is_exiting = 1;
	switch (thread->state) {
	case THREAD_UNSEEN:
		seen(states, thread, THREAD_TIME_RUNNING, ns);
		break;
	case THREAD_UNKNOWN:
		thread_spend(thread, THREAD_TIME_UNKNOWN, ns);
		break;
	case THREAD_RUNNING:
		thread_spend(thread, THREAD_TIME_RUNNING, ns);
		break;
	case THREAD_RUNNABLE:
	case THREAD_ASLEEP:
		contradicted(thread, ns);
		break;
	case THREAD_ENDED:
		return;
	}
	thread_enter(thread, THREAD_RUNNING, ns);
}

static void be_named(struct thread_states *states, struct thread_record *thread,
		     const struct thread_event *event)
{
	states->has_tasks = 1;
	if (event->cpu < 0)
		sight(thread, event->ns);
	else
		thread_be_here(states, thread, event->ns);
}

static int thread_add(struct thread_states *states, const struct thread_event *event)
{
	struct thread_record *thread = thread_of(states, event);

	if (!thread)
		return -ENOMEM;
	/* the recorder names wakers too */
	thread->is_recorded |= event->kind != THREAD_WOKEN &&
			       (event->kind != THREAD_IS_NAMED || event->cpu >= 0);
	switch (event->kind) {
	case THREAD_DEPARTS:
		depart(states, thread, event);
		break;
	case THREAD_ARRIVES:
		arrive(states, thread, event);
		break;
	case THREAD_WOKEN:
		wake(states, thread, event);
		break;
	case THREAD_RUN_DELAY:
		delay(states, thread, event);
		break;
	case THREAD_IS_HERE:
		thread_be_here(states, thread, event->ns);
		break;
	case THREAD_IS_BORN:
		be_born(states, thread, event->ns);
		break;
	case THREAD_EXITS:
		leave(states, thread, event->ns);
		break;
	case THREAD_IS_NAMED:
		be_named(states, thread, event);
		break;
	}
	return states->error;
}

/* ---- CPUs ---- */

/* NULL: a CPU without a number, or with one that none has; *err: no memory. */
static struct thread_cpu *cpu_of(struct thread_states *states, int32_t cpu, int *err)
{
	size_t had = states->cpu_count;

	*err = 0;
	if (cpu < 0 || cpu >= CPUS_MAX)
		return NULL;
	if ((size_t)cpu >= had) {
		*err = array_grow(&states->cpus, &states->cpu_room, (size_t)cpu + 1,
				  sizeof(*states->cpus));
		if (*err)
			return NULL;
		states->cpu_count = (size_t)cpu + 1;
		memset(states->cpus + had, 0, (states->cpu_count - had) * sizeof(*states->cpus));
	}
	return &states->cpus[cpu];
}

/* The thread that runs on a CPU, by its events. */
static struct thread_record *runner_of(const struct thread_states *states,
				       const struct thread_cpu *cpu, int32_t number)
{
	struct thread_record *thread = cpu->thread ? &states->threads[cpu->thread - 1] : NULL;

	return thread && thread->state == THREAD_RUNNING && thread->cpu == number ? thread : NULL;
}

void thread_states_lost_wakes(struct thread_states *states, uint64_t from_ns, uint64_t to_ns,
			      uint64_t wakes)
{
	if (from_ns > states->lost_until_ns) {
		states->before_events = states->lost_events;
		states->before_ns = states->lost_ns;
	}
	states->lost_until_ns = to_ns > states->lost_until_ns ? to_ns : states->lost_until_ns;
	states->lost_events += wakes;
	if (to_ns > from_ns)
		states->lost_ns += to_ns - from_ns;
}

int thread_states_lost(struct thread_states *states, int32_t number, uint64_t from_ns,
		       uint64_t to_ns, uint64_t events)
{
	int err;
	struct thread_cpu *cpu = cpu_of(states, number, &err);
	struct thread_record *runner = cpu ? runner_of(states, cpu, number) : NULL;

	thread_states_lost_wakes(states, from_ns, to_ns, events);
	states->lost_switches += events;
	if (runner) {
		uint64_t until_ns = from_ns > runner->since_ns ? from_ns : runner->since_ns;

		thread_settle(states, runner);
		thread_spend(runner, THREAD_TIME_RUNNING, until_ns);
		thread_enter(runner, THREAD_UNKNOWN, until_ns);
	}
	if (cpu)
		cpu->thread = 0;
	return err;
}

/* A thread arrives where another has not departed. */
static void runner_replace(struct thread_states *states, const struct thread_cpu *cpu,
			   const struct thread_event *event)
{
	struct thread_record *runner = runner_of(states, cpu, event->cpu);

	if (!runner || runner->tid == event->tid)
		return;
	if (runner->is_exiting) {
		thread_enter(runner, THREAD_ENDED, runner->since_ns);
		return;
	}
	thread_settle(states, runner);
	thread_spend(runner, THREAD_TIME_RUNNING, event->ns);
	runner->missing++;
	runner->crossed_cpu = event->cpu;
	thread_enter(runner, THREAD_UNKNOWN, event->ns);
}

int thread_states_add(struct thread_states *states, const struct thread_event *event)
{
	int err = 0, is_switch = event->kind == THREAD_ARRIVES || event->kind == THREAD_DEPARTS;
	struct thread_cpu *cpu = cpu_of(states, event->cpu, &err);

	if (cpu && event->kind == THREAD_ARRIVES)
		runner_replace(states, cpu, event);
	if (!err && event->tid)
		err = thread_add(states, event);
	if (cpu && is_switch && !err)
		cpu->thread = event->kind == THREAD_ARRIVES && event->tid
				      ? thread_index(states, event->tid)
				      : 0;
	return err;
}

/* ---- the sums of threads' times: in between, and at the end ---- */

int thread_states_times(struct thread_states *states, uint32_t pid, uint32_t tid, uint64_t ns,
			uint64_t times[THREAD_TIMES])
{
	static const enum thread_time open[] = {
		[THREAD_UNSEEN] = THREAD_TIME_UNKNOWN,	[THREAD_UNKNOWN] = THREAD_TIME_UNKNOWN,
		[THREAD_RUNNING] = THREAD_TIME_RUNNING, [THREAD_RUNNABLE] = THREAD_TIME_RUNNABLE,
		[THREAD_ASLEEP] = THREAD_TIME_ASLEEP,	[THREAD_ENDED] = THREAD_TIME_UNKNOWN,
	};
	const struct thread_event event = {
		.kind = THREAD_IS_HERE, .ns = ns, .pid = pid, .tid = tid, .cpu = -1
	};
	struct thread_record *thread = tid ? thread_of(states, &event) : NULL;

	memset(times, 0, THREAD_TIMES * sizeof(*times));
	if (!thread)
		return tid ? -ENOMEM : 0;
	thread->is_recorded = 1;
	thread_be_here(states, thread, ns);
	thread_settle(states, thread);
	memcpy(times, thread->ns, sizeof(thread->ns));
	if (ns > thread->since_ns)
		times[open[thread->state]] += ns - thread->since_ns;
	return 0;
}

/* Divide the waits between the first and the last of the kernel's sums. */
static void delay_divide(struct thread_record *thread)
{
	const struct thread_delay *first = &thread->delay_first, *last = &thread->delay_last;
	uint64_t waiting_ns = last->waiting_ns - first->waiting_ns;
	uint64_t preempted_ns = last->runnable_ns - first->runnable_ns;
	uint64_t runnable_ns = last->ns > first->ns ? last->ns - first->ns : 0;

	/* the kernel counts the time after a wake and that after a preemption together */
	runnable_ns = runnable_ns > preempted_ns ? runnable_ns - preempted_ns : 0;
	runnable_ns = runnable_ns < waiting_ns ? runnable_ns : waiting_ns;
	thread->ns[THREAD_TIME_WAITING] -= waiting_ns;
	thread->ns[THREAD_TIME_RUNNABLE] += runnable_ns;
	thread->ns[THREAD_TIME_ASLEEP] += waiting_ns - runnable_ns;
}

/*
 * A wait that has no end. Where neither wakes, states nor exits are recorded, it may have been the
 * thread's end: only a later sum of the kernel's shows that it lived.
 */
static void wait_close(const struct thread_states *states, struct thread_record *thread,
		       uint64_t end_ns)
{
	int is_known = THREAD_LETTERS[thread->letter] != '?' || states->wakes ||
		       states->has_tasks || thread->delay_last.at_ns > thread->since_ns;

	if (thread->is_woken_early) {
		thread_spend(thread, THREAD_TIME_RUNNABLE, end_ns);
		return;
	}
	if (!is_known) {
		thread->end_ns = thread->since_ns;
		return;
	}
	thread_wait_spend(thread, end_ns);
	thread_spend(thread, states->wakes ? THREAD_TIME_ASLEEP : THREAD_TIME_WAITING, end_ns);
}

static void thread_finish(struct thread_states *states, struct thread_record *thread,
			  uint64_t end_ns)
{
	thread_settle(states, thread);
	thread->end_ns = end_ns;
	switch (thread->state) {
	case THREAD_UNSEEN:
	case THREAD_UNKNOWN:
		thread_spend(thread, THREAD_TIME_UNKNOWN, end_ns);
		break;
	case THREAD_RUNNING:
		if (thread->is_exiting)
			thread->end_ns = thread->since_ns;
		else
			thread_spend(thread, THREAD_TIME_RUNNING, end_ns);
		break;
	case THREAD_RUNNABLE:
		thread_spend(thread, THREAD_TIME_RUNNABLE, end_ns);
		break;
	case THREAD_ASLEEP:
		wait_close(states, thread, end_ns);
		break;
	case THREAD_ENDED:
		thread->end_ns = thread->since_ns;
		break;
	}
}

int thread_states_finish(struct thread_states *states, uint64_t end_ns)
{
	for (size_t i = 0; i < states->count; i++) {
		struct thread_record *thread = &states->threads[i];
		uint64_t lived_ns;

		thread_finish(states, thread, end_ns);
		if (thread->off.from_ns &&
		    (thread->state == THREAD_ASLEEP || thread->state == THREAD_RUNNABLE)) {
			thread->off.to_ns = thread->end_ns;
			off_give(states, thread);
		}
		if (thread->delay_first.is_known)
			delay_divide(thread);
		thread->lost_events = states->lost_events - thread->lost_events;
		thread->lost_ns = states->lost_ns - thread->lost_ns;
		lived_ns = thread->end_ns > thread->begin_ns ? thread->end_ns - thread->begin_ns
							     : 0;
		thread->lost_ns = thread->lost_ns < lived_ns ? thread->lost_ns : lived_ns;
	}
	return states->error;
}
