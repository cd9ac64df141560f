/* SPDX-License-Identifier: MIT */
#include "cli/top_threads.h"

#include "base/array.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void top_threads_release(struct top_threads *threads)
{
	free(threads->all);
	free(threads->slots.all);
	free(threads->switches);
	*threads = (struct top_threads){ 0 };
}

struct top_thread *top_threads_get(struct top_threads *threads, uint32_t tid, int is_new)
{
	uint32_t hash = slots_hash(tid), number;

	if (slots_fit(&threads->slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&threads->slots, hash, &at, &number);)
		if (threads->all[number].tid == tid)
			return &threads->all[number];
	if (!is_new || threads->count == TOP_THREADS_MAX ||
	    array_grow(&threads->all, &threads->room, threads->count + 1, sizeof(*threads->all)))
		return NULL;
	slots_add(&threads->slots, hash, (uint32_t)threads->count);
	threads->all[threads->count] = (struct top_thread){ .tid = tid };
	return &threads->all[threads->count++];
}

int top_threads_take(struct top_threads *threads, struct top_switch *one)
{
	if (threads->switch_count == TOP_SWITCHES_MAX) {
		threads->other_switches++;
		return 0;
	}
	if (array_grow(&threads->switches, &threads->switch_room, threads->switch_count + 1,
		       sizeof(*threads->switches)))
		return -ENOMEM;
	one->number = (uint32_t)threads->switch_count;
	threads->switches[threads->switch_count++] = *one;
	return 0;
}

static int by_time(const void *one, const void *other)
{
	const struct top_switch *a = one, *b = other;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* The state that it was in until then is accounted for. */
static void turn(struct top_thread *thread, enum top_state state, uint64_t time_ns)
{
	if (thread->state != TOP_ENDED)
		thread->ns[thread->state] += (int64_t)(time_ns - thread->since_ns);
	thread->state = state;
	thread->since_ns = time_ns;
}

static void step(struct top_threads *threads, const struct top_switch *one)
{
	/* threads that ours wake need not be recorded */
	struct top_thread *thread = top_threads_get(
		threads, one->tid, one->step != TOP_STEP_WAKE && one->step != TOP_STEP_EXIT);
	int runs = one->step == TOP_STEP_DEPART || one->step == TOP_STEP_SAMPLE;

	if (!thread) {
		threads->other_switches += one->step == TOP_STEP_DEPART;
		return;
	}
	thread->pid = one->pid ? one->pid : thread->pid;
	if (!thread->since_ns) {
		thread->since_ns = runs ? threads->begin_ns : one->time_ns;
		thread->state = runs ? TOP_RUNNING : TOP_UNKNOWN;
	}
	thread->is_seen = 1;
	thread->switches += one->step == TOP_STEP_DEPART;
	if (one->step == TOP_STEP_DEPART)
		turn(thread, (enum top_state)one->state, one->time_ns);
	else if (one->step == TOP_STEP_EXIT)
		turn(thread, TOP_ENDED, one->time_ns);
	else if (one->step != TOP_STEP_WAKE)
		turn(thread, TOP_RUNNING, one->time_ns);
	else if (thread->state == TOP_ASLEEP || thread->state == TOP_UNKNOWN)
		turn(thread, TOP_READY, one->time_ns);
}

void top_threads_settle(struct top_threads *threads, uint64_t until_ns)
{
	size_t count = threads->switch_count, done = 0;

	if (until_ns < threads->end_ns)
		until_ns = threads->end_ns;
	if (count)
		qsort(threads->switches, count, sizeof(*threads->switches), by_time);
	while (done < count && threads->switches[done].time_ns <= until_ns)
		step(threads, &threads->switches[done++]);
	for (size_t i = done; i < count; i++) {
		threads->switches[i - done] = threads->switches[i];
		threads->switches[i - done].number = (uint32_t)(i - done);
	}
	threads->switch_count = count - done;
	for (size_t i = 0; i < threads->count; i++)
		if (threads->all[i].state != TOP_ENDED)
			turn(&threads->all[i], threads->all[i].state, until_ns);
	threads->end_ns = until_ns;
}

void top_thread_waited(struct top_thread *thread, uint64_t waited_ns)
{
	int64_t fresh = thread->has_times ? (int64_t)(waited_ns - thread->waited_ns)
					  : thread->ns[TOP_READY];
	int64_t more = fresh - thread->ns[TOP_READY];

	thread->has_times = 1;
	if (more > thread->ns[TOP_ASLEEP])
		more = thread->ns[TOP_ASLEEP];
	if (more > 0) {
		thread->ns[TOP_READY] += more;
		thread->ns[TOP_ASLEEP] -= more;
	}
	/* a wait that lasts is accounted for, and is added there later */
	thread->waited_ns = waited_ns;
	if (thread->ns[TOP_READY] > fresh)
		thread->waited_ns += (uint64_t)(thread->ns[TOP_READY] - fresh);
}

void top_threads_next(struct top_threads *threads)
{
	size_t kept = 0;

	for (size_t i = 0; i < threads->count; i++) {
		struct top_thread *thread = &threads->all[i];

		if (thread->state == TOP_ENDED)
			continue;
		memset(thread->ns, 0, sizeof(thread->ns));
		thread->switches = 0;
		thread->is_seen = 0;
		threads->all[kept++] = *thread;
	}
	if (kept != threads->count) {
		threads->count = kept;
		memset(threads->slots.all, 0, threads->slots.room * sizeof(*threads->slots.all));
		threads->slots.count = 0;
		for (size_t i = 0; i < kept; i++)
			slots_add(&threads->slots, slots_hash(threads->all[i].tid), (uint32_t)i);
	}
	threads->named = threads->count;
	threads->begin_ns = threads->end_ns;
	threads->other_switches = 0;
}

/* ---- /proc ---- */

void top_threads_begin(struct top_threads *threads, pid_t pid, uint64_t now_ns)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++) {
		struct top_thread *thread = top_threads_get(threads, (uint32_t)tids[i], 1);
		char state = target_thread_state(pid, tids[i]);
		struct target_times times;

		if (!thread || !state)
			continue;
		thread->pid = (uint32_t)pid;
		thread->state = state == 'R' ? TOP_RUNNING : TOP_ASLEEP;
		thread->since_ns = now_ns;
		thread->has_times = !target_thread_times(pid, tids[i], &times);
		if (thread->has_times)
			thread->waited_ns = times.waited_ns;
	}
	free(tids);
	top_threads_name(threads);
}

void top_threads_name(struct top_threads *threads)
{
	for (; threads->named < threads->count; threads->named++) {
		struct top_thread *thread = &threads->all[threads->named];

		if (!thread->comm[0])
			target_comm((pid_t)thread->pid, (pid_t)thread->tid, thread->comm);
	}
}

void top_threads_check(struct top_threads *threads, int reads_waits)
{
	for (size_t i = 0; i < threads->count; i++) {
		struct top_thread *thread = &threads->all[i];
		pid_t pid = (pid_t)thread->pid, tid = (pid_t)thread->tid;
		struct target_times times;

		if (!thread->is_seen && !target_state_lives(target_thread_state(pid, tid))) {
			thread->state = TOP_ENDED;
			thread->ns[TOP_ASLEEP] = 0;
			continue;
		}
		if (!reads_waits || !thread->is_seen || target_thread_times(pid, tid, &times))
			continue;
		top_thread_waited(thread, times.waited_ns);
	}
}

/*
 * Whether it has not slept since it was last read: then it was ready at that time, too. One that is
 * not ready is not read.
 */
static int has_not_slept(struct top_thread *thread, pid_t pid, pid_t tid)
{
	int is_ready = target_thread_state(pid, tid) == 'R';
	long before = thread->sleeps;

	thread->sleeps = is_ready ? target_status_number(tid, "voluntary_ctxt_switches") : -1;
	return is_ready && thread->sleeps >= 0 && thread->sleeps == before;
}

/*
 * The kernel adds a wait for a CPU to schedstat when it is over. So of a thread that has not slept,
 * what it has not run is taken as such a wait, and comes off that later.
 */
static void times_add(struct top_thread *thread, const struct target_times *times, int is_ready,
		      uint64_t now_ns)
{
	int64_t ran = (int64_t)(times->ran_ns - thread->ran_ns);
	int64_t waited = (int64_t)(times->waited_ns - thread->waited_ns);
	int64_t rest = (int64_t)(now_ns - thread->since_ns) - ran - waited;

	thread->waited_ns = times->waited_ns;
	if (is_ready || rest < 0) {
		waited += rest;
		thread->waited_ns += (uint64_t)rest;
		rest = 0;
	}
	thread->ns[TOP_RUNNING] += ran;
	thread->ns[TOP_READY] += waited;
	thread->ns[TOP_ASLEEP] += rest;
}

static void times_take(struct top_threads *threads, pid_t pid, pid_t tid, uint64_t now_ns)
{
	struct top_thread *thread = top_threads_get(threads, (uint32_t)tid, 1);
	struct target_times times;
	char comm[16] = "";
	int is_ready;

	if (!thread) {
		threads->other_switches++;
		return;
	}
	if (target_thread_times(pid, tid, &times))
		return; /* it has just ended */
	is_ready = has_not_slept(thread, pid, tid);
	if (thread->has_times)
		times_add(thread, &times, is_ready, now_ns);
	else
		thread->waited_ns = times.waited_ns;
	target_comm(pid, tid, comm); /* it may have another since */
	if (comm[0])
		memcpy(thread->comm, comm, sizeof(comm));
	thread->pid = (uint32_t)pid;
	thread->state = TOP_ASLEEP;
	thread->ran_ns = times.ran_ns;
	thread->has_times = 1;
	thread->since_ns = now_ns;
	thread->is_seen = 1;
}

void top_threads_times(struct top_threads *threads, pid_t pid, uint64_t now_ns)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++)
		times_take(threads, pid, tids[i], now_ns);
	free(tids);
	threads->end_ns = now_ns;
}
