/* SPDX-License-Identifier: MIT */
#include "cli/top_proc.h"

#include "target/process/target.h"

#include <stdlib.h>
#include <string.h>

static pid_t id_of(uint32_t id)
{
	return (pid_t)id;
}

void top_proc_begin(struct top_threads *threads, pid_t pid, uint64_t now_ns)
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
	top_proc_names(threads);
}

void top_proc_names(struct top_threads *threads)
{
	for (; threads->named < threads->count; threads->named++) {
		struct top_thread *thread = &threads->all[threads->named];

		if (!thread->comm[0])
			target_comm(id_of(thread->pid), id_of(thread->tid), thread->comm);
	}
}

void top_proc_settle(struct top_threads *threads, int reads_waits)
{
	for (size_t i = 0; i < threads->count; i++) {
		struct top_thread *thread = &threads->all[i];
		pid_t pid = id_of(thread->pid), tid = id_of(thread->tid);
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
 * The kernel adds a wait for a CPU to schedstat when it is over. So what a thread that is ready now
 * has spent neither running nor asleep is taken as such a wait, and comes off that later.
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
	int is_ready = target_thread_state(pid, tid) == 'R';
	struct target_times times;
	char comm[16] = "";

	if (!thread) {
		threads->other_switches++;
		return;
	}
	if (target_thread_times(pid, tid, &times))
		return; /* it has just ended */
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

void top_proc_times(struct top_threads *threads, pid_t pid, uint64_t now_ns)
{
	pid_t *tids = NULL;
	int count = target_threads(pid, &tids);

	for (int i = 0; i < count; i++)
		times_take(threads, pid, tids[i], now_ns);
	free(tids);
	threads->end_ns = now_ns;
}
