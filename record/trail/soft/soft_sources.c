/* SPDX-License-Identifier: MIT */
/* What a reader knows of its process: its modules; it executes other programs, and goes. */
#include "record/trail/soft/soft_reader_own.h"

#include <string.h>

int soft_reader_moment(struct soft_reader *reader, struct soft_thread *thread, uint32_t moment)
{
	const struct module_epochs *epochs = reader->source.epochs;
	struct trail_sink *sink = reader->source.sink;

	thread->moment = moment > thread->moment ? moment : thread->moment;
	thread->has_moment = 1;
	return epochs && sink->calls->since
		       ? sink->calls->since(sink, thread->trail,
					    module_epochs_after(epochs, thread->moment))
		       : 0;
}

int soft_reader_init_child(struct soft_reader *reader, struct soft_reader *of, uint32_t first_id)
{
	*reader = (struct soft_reader){ .first = of->first };
	if (!first_id)
		return 0;
	reader_paths(of);
	return soft_paths_copy(&reader->source.paths, &of->source.paths, first_id);
}

/* Whether a slot has something. */
static int has(const struct soft_reader *reader, uint32_t slot)
{
	uint32_t state = __atomic_load_n(&soft_channel_slot(reader->channel, slot)->state,
					 __ATOMIC_ACQUIRE);

	return reader->threads[slot].is_begun || state == ENGINE_SLOT_LIVE ||
	       state == ENGINE_SLOT_ENDED;
}

/* Whether a thread got the signal that `end` names, and had no handler for it. */
static int is_killed(const struct soft_thread *thread, const struct trail_between *end)
{
	return thread->is_dying && thread->dying.values[0] == end->values[1];
}

/*
 * A signal killed the process. Read all that its threads wrote: whether one of them got that
 * signal.
 */
static int has_killed(struct soft_reader *reader, const struct trail_between *end)
{
	int killed = 0;

	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!has(reader, i) || reader_begin(reader, i))
			continue;
		reader_rest(reader, i);
		killed |= is_killed(&reader->threads[i], end);
	}
	return killed;
}

int soft_reader_finish(struct soft_reader *reader, const struct trail_between *end_with)
{
	struct trail_between other;
	int killed;

	if (!reader->source.sink)
		return reader->first->error;
	soft_clock_look(&reader->first->clock);
	reader_paths(reader);
	killed = end_with && end_with->event == TRAIL_END && end_with->values[0] == TRAIL_KILLED &&
		 has_killed(reader, end_with);
	if (killed) {
		other = *end_with;
		other.values[0] = TRAIL_ENDED_WITH;
	}
	for (uint32_t i = 0; i < soft_reader_used(reader); i++)
		if (has(reader, i))
			reader_finish(reader, i,
				      killed && !is_killed(&reader->threads[i], end_with)
					      ? &other
					      : end_with);
	soft_reader_drop_carried(reader, end_with);
	return reader->first->error;
}

/* A trail that says no more than that it was not recorded. */
static void begin_and_end(struct soft_reader *reader, const struct trail_between *end_with)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	struct soft_source *source = &reader->source;
	struct soft_thread thread = { 0 };

	if (reader->first->error ||
	    reader_failed(reader, source->sink->calls->thread_begin(
					  source->sink, &source->carried, source->pid, source->comm,
					  TRAIL_SOFT,
					  reader_time(reader, &thread,
						      soft_clock_latest(&reader->first->clock)))))
		return;
	source->carried_ns = thread.last_ns;
	soft_reader_drop_carried(reader, end_with ? end_with : &gone);
}

int soft_reader_end(struct soft_reader *reader, const struct trail_between *end_with)
{
	reader->first->killed_tid = 0;
	soft_reader_finish(reader, end_with);
	if (reader->source.sink && reader != reader->first && !reader->source.is_seen)
		begin_and_end(reader, end_with);
	return reader->first->error;
}

int soft_reader_executed(struct soft_reader *reader, pid_t former, pid_t tid, const char *comm)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	const struct trail_between left = { .event = TRAIL_EXEC };
	const struct trail_between over = { .event = TRAIL_END, .values = { TRAIL_EXITED } };
	struct soft_source *source = &reader->source;
	struct soft_thread carried = { 0 };

	soft_clock_look(&reader->first->clock);
	reader_paths(reader);
	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!has(reader, i) || reader_begin(reader, i))
			continue;
		if ((pid_t)soft_channel_slot(reader->channel, i)->tid != former || carried.trail) {
			reader_finish(reader, i, &over);
			continue;
		}
		reader_rest(reader, i);
		carried = reader->threads[i];
		reader->threads[i] = (struct soft_thread){ 0 };
	}
	if (!carried.trail) {
		reader_failed(reader,
			      source->sink->calls->thread_begin(
				      source->sink, &carried.trail, tid, comm, TRAIL_SOFT,
				      reader_time(reader, &carried,
						  soft_clock_latest(&reader->first->clock))));
		reader_event(reader, &carried, &gap, carried.last_ns);
	}
	carried.has_left = 1; /* it has come to something */
	reader_event(reader, &carried, &left, carried.last_ns);
	source->is_seen = 1;
	source->carried = carried.trail;
	source->carried_ns = carried.last_ns;
	soft_paths_renew(&source->paths);
	memset(reader->threads, 0, reader->room * sizeof(*reader->threads));
	reader->used = 0;
	return reader->first->error;
}

void soft_reader_drop_carried(struct soft_reader *reader, const struct trail_between *end_with)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	struct soft_source *source = &reader->source;
	struct soft_thread thread = { .trail = source->carried, .last_ns = source->carried_ns };

	source->carried = NULL;
	if (!thread.trail)
		return;
	reader_event(reader, &thread, &gap, thread.last_ns);
	reader_end(reader, &thread, end_with);
	reader_failed(reader,
		      source->sink->calls->thread_end(source->sink, thread.trail, thread.last_ns));
}
