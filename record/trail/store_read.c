/* SPDX-License-Identifier: MIT */
/* A store read, oldest first: record by record, or into another sink. */
#include "record/trail/store_own.h"

#include <errno.h>
#include <stdlib.h>

/* What a thread's trail consists of, in this order. */
enum stage { STAGE_BEFORE, STAGE_RUNS, STAGE_BEHIND, STAGE_END, STAGES };

/* Before a record. Zeroed but for `thread`: before the oldest. */
struct place {
	const struct store_thread *thread;
	enum stage stage;
	uint32_t run; /* NO_CHUNK: the oldest */
	uint32_t word;
	uint32_t seen;	/* words of the run that were looked through for an event */
	uint64_t ticks; /* of blocks before `seen` */
};

static void event_set(struct store_record *record, const struct trail_between *between,
		      uint64_t ticks)
{
	*record = (struct store_record){ .between = *between, .ticks = ticks };
}

/* A block's time: that of the next event, or of the run's end. */
static uint64_t block_ticks(struct place *place, const struct store_run *run)
{
	struct trail_between between;
	uint32_t i = place->word;

	if (i < place->seen)
		return place->ticks;
	place->ticks = run->ticks;
	while (i < run->end && !(run->words[i] & IS_EVENT))
		i++;
	if (i < run->end)
		store_event_read(run->words + i, &between, &place->ticks);
	place->seen = i;
	return place->ticks;
}

static void run_record(const struct trail_store *store, struct place *place,
		       const struct store_run *run, struct store_record *record)
{
	uint32_t word = run->words[place->word];
	const struct store_block *block;

	if (word & IS_EVENT) {
		*record = (struct store_record){ 0 };
		store_event_read(run->words + place->word, &record->between, &record->ticks);
		if (place->run == place->thread->oldest && place->word == run->begin)
			record->between.left = 0; /* of a block that is not there */
		place->word += EVENT_WORDS;
		return;
	}
	block = store_blocks_at(&store->blocks, word);
	*record = (struct store_record){ .entry = &block->entry, .ticks = block_ticks(place, run) };
	record->code = block->entry.flags & TRAIL_HAS_CODE ? block->code : NULL;
	record->id = word;
	record->from = block->from;
	place->word++;
}

/* Before the first record of a run. */
static void place_run(const struct trail_store *store, struct place *place, uint32_t run)
{
	place->run = run;
	place->word = run ? store_run_at(store, run)->begin : 0;
	place->seen = 0;
}

/* Step over a record: 1, or 0 at the end. */
static int step_over(const struct trail_store *store, struct place *place,
		     struct store_record *record)
{
	const struct store_thread *thread = place->thread;
	struct trail_between lost;

	if (place->stage == STAGE_BEFORE) {
		place->stage = STAGE_RUNS;
		place_run(store, place, thread->oldest);
		lost = store_loss_event(&thread->before);
		event_set(record, &lost, thread->ticks);
		if (store_loss_is_any(&thread->before))
			return 1;
	}
	while (place->stage == STAGE_RUNS && place->run) {
		const struct store_run *run = store_run_at(store, place->run);

		if (place->word < run->end) {
			run_record(store, place, run, record);
			return 1;
		}
		place_run(store, place, run->newer);
	}
	if (place->stage == STAGE_RUNS) {
		place->stage = STAGE_BEHIND;
		lost = store_loss_event(&thread->behind);
		event_set(record, &lost, thread->end_ticks);
		if (store_loss_is_any(&thread->behind))
			return 1;
	}
	if (place->stage == STAGE_BEHIND) {
		place->stage = STAGE_END;
		event_set(record, &thread->end, thread->end_ticks);
		if (thread->has_end)
			return 1;
	}
	return 0;
}

void trail_store_status(const struct trail_store *store, struct trail_store_status *status)
{
	*status = (struct trail_store_status){
		.bytes = store->bytes,
		.used_bytes = store_used_bytes(store),
		.table_bytes = (uint64_t)store->blocks.chunks * store->pool.chunk_bytes,
		.lost_blocks = store->lost_blocks,
		.lost_events = store->lost_events,
		.missing_blocks = store->missing_blocks,
		.lost_threads = store->lost_threads,
		.lost_modules = store->lost_modules,
		.live = store->live,
	};
	for (const struct store_thread *thread = store->threads; thread; thread = thread->next) {
		status->blocks += thread->blocks;
		status->events += thread->events;
		status->threads++;
		status->is_full |= store_loss_is_any(&thread->behind);
	}
}

/* ---- record by record ---- */

struct store_thread *trail_store_thread(struct trail_store *store, struct store_thread *before)
{
	return before ? before->next : store->threads;
}

pid_t store_thread_pid(const struct store_thread *thread)
{
	return thread->pid;
}

pid_t store_thread_tid(const struct store_thread *thread)
{
	return thread->tid;
}

uint64_t store_thread_number(const struct store_thread *thread)
{
	return thread->number;
}

int store_thread_is_over(const struct store_thread *thread)
{
	return thread->is_over;
}

uint64_t store_thread_records(const struct store_thread *thread)
{
	return thread->blocks + thread->events + (uint64_t)store_loss_is_any(&thread->before) +
	       (uint64_t)store_loss_is_any(&thread->behind) + (uint64_t)thread->has_end;
}

int store_thread_record(struct trail_store *store, const struct store_thread *thread,
			uint64_t index, struct store_record *record)
{
	struct place place = { .thread = thread };
	uint64_t records = store_thread_records(thread), skip;

	if (index >= records)
		return 0;
	skip = records - 1 - index;
	if (skip && store_loss_is_any(&thread->before))
		skip--;
	else if (store_loss_is_any(&thread->before))
		return step_over(store, &place, record);
	place.stage = STAGE_RUNS;
	place_run(store, &place, thread->oldest);
	while (place.run) {
		const struct store_run *run = store_run_at(store, place.run);

		if (skip < (uint64_t)run->blocks + run->events)
			break;
		skip -= (uint64_t)run->blocks + run->events;
		place_run(store, &place, run->newer);
	}
	/* the time of a block is looked for once only, from the run's begin on */
	while (step_over(store, &place, record))
		if (!skip--)
			return 1;
	return 0;
}

const struct trail_entry *store_thread_taken(const struct store_thread *thread)
{
	return thread->has_taken && !store_loss_is_any(&thread->before) ? &thread->taken : NULL;
}

uint32_t trail_store_ids(const struct trail_store *store)
{
	return store->blocks.ids;
}

int store_thread_each(struct trail_store *store, const struct store_thread *thread,
		      int (*each)(const struct store_record *record, void *data), void *data)
{
	struct place place = { .thread = thread };
	struct store_record record;
	int result = 0;

	while (!result && step_over(store, &place, &record))
		result = each(&record, data);
	return result;
}

/* The record is out: the run before the place has it no more. */
static void take_out(struct trail_store *store, struct store_thread *thread, uint32_t end,
		     const struct store_record *record)
{
	struct store_run *run = store_run_at(store, thread->oldest);

	if (record->entry) {
		store_blocks_drop(&store->blocks, run->words[run->begin]);
		run->blocks--;
		thread->blocks--;
	} else {
		run->events--;
		thread->events--;
	}
	run->begin = end;
	thread->ticks = record->ticks;
	if (run->begin == run->end)
		store_run_remove(store, thread);
}

int store_thread_take(struct trail_store *store, struct store_thread *thread,
		      struct store_record *record)
{
	struct place place = { .thread = thread };

	if (!step_over(store, &place, record)) {
		if (thread->is_over)
			store_thread_remove(store, thread);
		store_mark_rewind(store);
		return 0;
	}
	thread->has_taken = !!record->entry;
	if (record->entry)
		thread->taken = *record->entry;
	if (store_loss_is_any(&thread->before))
		thread->before = (struct store_loss){ 0 };
	else if (place.stage == STAGE_RUNS)
		take_out(store, thread, place.word, record);
	else if (place.stage == STAGE_BEHIND)
		thread->behind = (struct store_loss){ 0 };
	else
		thread->has_end = 0;
	return 1;
}

/* ---- into another sink ---- */

/* A thread being written, and its next record. */
struct writing {
	struct place place;
	struct store_record next;
	int has_next, is_begun;
	uint32_t from; /* the epoch that `to` was given last */
	struct sink_thread *to;
};

/* The thread's values at the signal that killed it. */
static int values_put(const struct trail_store *store, const struct writing *writing,
		      struct trail_sink *to)
{
	const struct store_record *end = &writing->next;
	int err = 0;

	if (store->valued != writing->place.thread || end->between.event != TRAIL_END ||
	    end->between.values[0] != TRAIL_KILLED)
		return 0;
	for (uint32_t i = 0; i < TRAIL_VALUES && !err; i++) {
		const struct trail_between value = { .event = TRAIL_VALUE,
						     .values = { i, store->values[i] } };

		if (store->has_value[i])
			err = to->calls->event(to, writing->to, &value, end->ticks);
	}
	return err;
}

static int writing_put(const struct trail_store *store, struct writing *writing,
		       struct trail_sink *to)
{
	const struct store_thread *thread = writing->place.thread;
	const struct store_record *record = &writing->next;
	int err = 0;

	if (!writing->is_begun)
		err = to->calls->thread_begin(to, &writing->to, thread->tid, thread->comm,
					      thread->origin, thread->ticks);
	writing->is_begun = 1;
	if (err)
		return err;
	if (record->entry && record->from != writing->from && to->calls->since)
		err = to->calls->since(to, writing->to, record->from);
	writing->from = record->entry ? record->from : writing->from;
	if (err)
		return err;
	if (record->entry)
		err = to->calls->block(to, writing->to, record->entry, record->code, record->ticks);
	else
		err = values_put(store, writing, to);
	if (!record->entry && !err)
		err = to->calls->event(to, writing->to, &record->between, record->ticks);
	writing->has_next = step_over(store, &writing->place, &writing->next);
	return err;
}

/* Whose next record is the oldest; *until: the time of the next thread's. NULL: all is written. */
static struct writing *oldest(struct writing *all, uint32_t count, uint64_t *until)
{
	struct writing *first = NULL;

	*until = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++) {
		if (!all[i].has_next)
			continue;
		if (!first || all[i].next.ticks < first->next.ticks) {
			*until = first ? first->next.ticks : UINT64_MAX;
			first = &all[i];
		} else if (all[i].next.ticks < *until) {
			*until = all[i].next.ticks;
		}
	}
	return first;
}

int trail_store_write(struct trail_store *store, struct trail_sink *to)
{
	uint32_t count = 0, i = 0;
	struct writing *all, *first;
	struct store_log_place reported;
	uint64_t until;
	int err;

	for (struct store_thread *thread = store->threads; thread; thread = thread->next)
		count++;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (struct store_thread *thread = store->threads; thread; thread = thread->next, i++) {
		all[i].place.thread = thread;
		all[i].from = STORE_NO_EPOCH;
		all[i].has_next = step_over(store, &all[i].place, &all[i].next);
	}
	store_modules_begin(store, 0, &reported);
	/* where blocks have epochs, modules need not come at their times */
	err = store->has_epochs ? store_modules_tell(store, &reported, UINT64_MAX, to) : 0;
	while (!err && (first = oldest(all, count, &until)))
		while (!err && first->has_next && first->next.ticks <= until) {
			err = store_modules_tell(store, &reported, first->next.ticks, to);
			if (!err)
				err = writing_put(store, first, to);
		}
	if (!err)
		err = store_modules_tell(store, &reported, UINT64_MAX, to);
	for (i = 0; i < count; i++) {
		int ended = all[i].to ? to->calls->thread_end(to, all[i].to, all[i].next.ticks) : 0;

		err = err ? err : ended;
	}
	free(all);
	return err;
}
