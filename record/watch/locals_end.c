/* SPDX-License-Identifier: MIT */
/* How local variables' watches are counted and ended. */
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/watch/locals_own.h"
#include "record/watch/pending_hits.h"
#include "record/watch/watching_own.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <waymark/error.h>

static void let_go(const struct slot *slot)
{
	uint32_t *state = &row_of(slot)->state, now = __atomic_load_n(state, __ATOMIC_SEQ_CST);

	if (FRAME_STEP(now) == FRAME_ASKED)
		__atomic_compare_exchange_n(state, &now, FRAME_TO(now, FRAME_OVER), 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	locals_futex(state, FUTEX_WAKE, INT_MAX, NULL);
}

void locals_quiet(struct locals *locals)
{
	if (!locals)
		return;
	for (unsigned int i = 0; i < locals->group_count; i++)
		if (locals->groups[i].entry)
			perf_object_quiet(locals->groups[i].entry);
	locals_serve_no_more(locals);
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		if (locals->table)
			let_go(&locals->slots[i]);
		if (locals->slots[i].object)
			perf_object_quiet(locals->slots[i].object);
	}
}

static void count_slot(const struct slot *slot, struct watch_counts *counts)
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count && slot->object; i++) {
		const struct watch_row *row = &slot->of->table->rows[number_of(slot, i)];
		uint64_t hits = 0;

		perf_object_count(slot->object, i, &hits);
		watch_counts_add(counts, row, hits);
	}
}

/* Add the counts of the kernel and of the agent for a spec's variable. NULL is allowed. */
static void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts)
{
	if (!locals)
		return;
	pthread_mutex_lock(&locals->lock);
	for (unsigned int i = 0; i < locals->group_count && locals->table; i++) {
		const struct frame_group *from = &locals->table->frames.groups[i];

		if (locals->groups[i].spec != spec)
			continue;
		counts->frames.entered += from->entered;
		counts->frames.watched += from->watched + locals->groups[i].lived;
		counts->frames.busy += from->busy + locals->groups[i].unplaced;
		counts->frames.late += from->late;
		counts->frames.unended += from->unended;
		counts->frames.over += from->over;
		counts->frames.outside += from->outside;
		counts->frames.unsure += from->unsure;
		for (unsigned int j = 0; j < locals->slot_count; j++)
			if (locals->slots[j].group == i)
				count_slot(&locals->slots[j], counts);
	}
	pthread_mutex_unlock(&locals->lock);
}

static const struct group *group_of(const struct locals *locals, size_t spec)
{
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		if (locals->groups[i].spec == spec)
			return &locals->groups[i];
	return NULL;
}

int locals_has(const struct locals *locals, size_t spec)
{
	return group_of(locals, spec) != NULL;
}

void locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result)
{
	const struct group *group = group_of(locals, spec);

	result->is_local = 1;
	result->unlooked = locals->unlooked;
	result->frames = group->frames;
	result->pieces = group->asked.count;
	result->skew = group->asked.about[0].address % 8;
	result->processes++;
}

unsigned int locals_registers(const struct locals *locals)
{
	unsigned int count = locals ? locals->group_count : 0;

	for (unsigned int i = 0; locals && i < locals->slot_count; i++)
		count += locals->groups[locals->slots[i].group].asked.count;
	return count;
}

uint64_t locals_numbers(const struct locals *locals)
{
	return locals ? locals->numbers : 0;
}

void locals_module_gone(struct locals *locals, struct wm_session *session, uint64_t base)
{
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		if (locals->groups[i].module == base)
			watched_result(session, locals->groups[i].spec)
				->lost = -WM_E_WATCH_LOCAL_GONE;
}

static void close_all(struct locals *locals)
{
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		perf_object_release(locals->slots[i].object);
		locals->slots[i].object = NULL;
	}
	for (unsigned int i = 0; i < locals->group_count; i++) {
		perf_object_release(locals->groups[i].entry);
		locals->groups[i].entry = NULL;
	}
}

void locals_release(struct locals *locals)
{
	if (!locals)
		return;
	locals_quiet(locals);
	close_all(locals);
	for (unsigned int i = 0; i < locals->group_count; i++)
		free(locals->groups[i].text);
	pthread_mutex_destroy(&locals->lock);
	free(locals);
}

static void unask(struct locals *locals, struct process *process, uint32_t number)
{
	struct control_unwatch one = { number, number };
	struct iovec part = { &one, sizeof(one) };

	if (locals->numbers & UINT64_C(1) << number && process->link.fd >= 0)
		process_request(process, CONTROL_UNWATCH, &part, 1);
	locals->numbers &= ~(UINT64_C(1) << number);
}

void locals_unask(struct locals *locals, struct process *process)
{
	/* entries first: after that no thread waits for a frame's watches */
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		unask(locals, process, locals->groups[i].number);
	for (uint32_t number = 0; locals && number < WATCH_ROWS_MAX; number++)
		unask(locals, process, number);
}

static int is_told(void *data)
{
	struct locals *locals = data;
	struct watch_counts counts = { 0 };

	for (unsigned int i = 0; i < locals->group_count; i++)
		locals_count(locals, locals->groups[i].spec, &counts);
	return !counts.missed;
}

static void count_starved(const struct locals *locals, struct wm_session *session)
{
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		const struct slot *slot = &locals->slots[i];
		const struct group *group = &locals->groups[slot->group];

		struct watched_spec *watch = watched_result(session, group->spec);

		for (unsigned int j = 0; j < group->asked.count && slot->object; j++)
			watch->counts.starved += perf_object_starved(slot->object, j);
	}
	for (unsigned int i = 0; i < locals->group_count; i++)
		if (locals->groups[i].entry)
			watched_result(session, locals->groups[i].spec)
				->counts.starved += perf_object_starved(locals->groups[i].entry, 0);
}

void locals_end(struct locals *locals, struct wm_session *session, struct process *process, int why)
{
	if (!locals)
		return;
	locals_quiet(locals);
	pending_hits_wait(process, is_told, locals);
	for (uint32_t number = 0; number < WATCH_ROWS_MAX; number++)
		if (locals->numbers & UINT64_C(1) << number)
			locals->table->rows[number].gate = WATCH_OFF;
	for (unsigned int i = 0; i < locals->group_count; i++) {
		struct watched_spec *result = watched_result(session, locals->groups[i].spec);

		locals_count(locals, locals->groups[i].spec, &result->counts);
		result->lost = why ? why : result->lost;
	}
	count_starved(locals, session);
	close_all(locals);
	locals_unask(locals, process);
	locals_release(locals);
}
