/* SPDX-License-Identifier: MIT */
/* Threads by number. The kernel gives the number of a thread that ended to another. */
#include "base/array.h"
#include "read/states/thread_states_own.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_FIRST 256
/* A zombie may wait once more while it exits. Its number is in use again later. */
#define RESUMED_NS 100000000

static uint32_t *slot_of(const struct thread_states *states, uint32_t tid)
{
	size_t slot = (size_t)(tid * 0x9e3779b97f4a7c15u >> 32) & (states->slot_count - 1);

	while (states->slots[slot] && states->threads[states->slots[slot] - 1].tid != tid)
		slot = (slot + 1) & (states->slot_count - 1);
	return &states->slots[slot];
}

static int slots_grow(struct thread_states *states)
{
	size_t want = states->slot_count ? states->slot_count * 2 : SLOTS_FIRST;
	uint32_t *old = states->slots;

	if (states->count < states->slot_count / 2)
		return 0;
	states->slots = calloc(want, sizeof(*states->slots));
	if (!states->slots) {
		states->slots = old;
		return -ENOMEM;
	}
	states->slot_count = want;
	/* of several with one number, the latest */
	for (size_t i = 0; i < states->count; i++)
		*slot_of(states, states->threads[i].tid) = (uint32_t)i + 1;
	free(old);
	return 0;
}

/* A thread that is here for the first time; `is_later`: another had its number. */
static struct thread_record *thread_new(struct thread_states *states, uint32_t pid, uint32_t tid,
					uint64_t ns, int is_later)
{
	int is_beside_loss = states->lost_events && ns <= states->lost_until_ns;
	struct thread_record *thread;

	if (states->count == UINT32_MAX - 1 || slots_grow(states) ||
	    array_grow(&states->threads, &states->room, states->count + 1, sizeof(*thread)))
		return NULL;
	thread = &states->threads[states->count++];
	*thread = (struct thread_record){
		.pid = pid,
		.tid = tid,
		.state = is_later || states->lost_switches ? THREAD_UNKNOWN : THREAD_UNSEEN,
		.begin_ns = ns,
		.since_ns = ns,
		.cpu = -1,
		.crossed_cpu = -1,
		.lost_events = is_beside_loss ? states->before_events : states->lost_events,
		.lost_switches = states->lost_switches,
		.lost_ns = is_beside_loss ? states->before_ns : states->lost_ns,
	};
	*slot_of(states, tid) = (uint32_t)states->count;
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

uint32_t thread_index(const struct thread_states *states, uint32_t tid)
{
	return states->slot_count ? *slot_of(states, tid) : 0;
}

struct thread_record *thread_of(struct thread_states *states, const struct thread_event *event)
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
	return thread_new(states, event->pid, event->tid, event->ns, 1);
}
