/* SPDX-License-Identifier: MIT */
/* What a reader knows of processes: they come, execute other programs, and go. */
#include "branch/soft/soft_reader_own.h"

/* Whether a slot is a process's, and has something. */
static int is_of(const struct soft_reader *reader, uint32_t slot, const struct soft_source *source)
{
	uint32_t state = __atomic_load_n(&soft_channel_slot(reader->channel, slot)->state,
					 __ATOMIC_ACQUIRE);

	if (reader->threads[slot].is_begun)
		return reader->threads[slot].source == source;
	return (state == ENGINE_SLOT_LIVE || state == ENGINE_SLOT_ENDED) &&
	       reader_source(reader, slot) == source;
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
static int has_killed(struct soft_reader *reader, struct soft_source *source,
		      const struct trail_between *end)
{
	int has = 0;

	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!is_of(reader, i, source) || reader_begin(reader, i))
			continue;
		reader_rest(reader, i);
		has |= is_killed(&reader->threads[i], end);
	}
	return has;
}

static void finish_all(struct soft_reader *reader, struct soft_source *source,
		       const struct trail_between *end_with)
{
	struct trail_between other;
	int has;

	soft_clock_look(&reader->clock);
	reader_paths(reader, source);
	has = end_with && end_with->event == TRAIL_END && end_with->values[0] == TRAIL_KILLED &&
	      has_killed(reader, source, end_with);
	if (has) {
		other = *end_with;
		other.values[0] = TRAIL_ENDED_WITH;
	}
	for (uint32_t i = 0; i < soft_reader_used(reader); i++)
		if (is_of(reader, i, source))
			reader_finish(reader, i,
				      has && !is_killed(&reader->threads[i], end_with) ? &other
										       : end_with);
}

int soft_reader_finish(struct soft_reader *reader, const struct trail_between *end_with)
{
	for (uint32_t n = 0; n < reader->channel->pages; n++) {
		if (!reader->sources[n].sink)
			continue;
		finish_all(reader, &reader->sources[n], end_with);
		soft_reader_drop_carried(reader, n, end_with);
	}
	return reader->error;
}

int soft_reader_expect(struct soft_reader *reader, uint32_t process, uint32_t of, uint32_t first_id)
{
	struct soft_source *source = &reader->sources[process];

	*source = (struct soft_source){ 0 };
	if (!first_id || of >= reader->channel->sizes.processes || of == process)
		return 0;
	reader_paths(reader, &reader->sources[of]);
	return soft_paths_copy(&source->paths, &reader->sources[of].paths, first_id);
}

/* The process is gone, or executed another program: free its slots, which no thread will end. */
static void slots_free(struct soft_reader *reader, uint32_t process)
{
	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		const struct engine_slot *slot = soft_channel_slot(reader->channel, i);

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ENGINE_SLOT_FREE &&
		    slot->process == process && !reader->threads[i].is_begun)
			reader_slot_free(reader, i);
	}
}

/* A trail that says no more than that it was not recorded. */
static void begin_and_end(struct soft_reader *reader, uint32_t process,
			  const struct trail_between *end_with)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	struct soft_source *source = &reader->sources[process];
	struct soft_thread thread = { .source = source };

	if (reader->error ||
	    reader_failed(reader,
			  source->sink->calls->thread_begin(
				  source->sink, &source->carried, source->pid, source->comm,
				  TRAIL_SOFT,
				  reader_time(reader, &thread, soft_clock_latest(&reader->clock)))))
		return;
	source->carried_ns = thread.last_ns;
	soft_reader_drop_carried(reader, process, end_with ? end_with : &gone);
}

int soft_reader_end(struct soft_reader *reader, uint32_t process,
		    const struct trail_between *end_with)
{
	struct soft_source *source = &reader->sources[process];

	reader->killed_tid = 0;
	if (source->sink) {
		finish_all(reader, source, end_with);
		soft_reader_drop_carried(reader, process, end_with);
		if (process && !source->is_seen)
			begin_and_end(reader, process, end_with);
	}
	slots_free(reader, process);
	soft_paths_release(&source->paths);
	*source = (struct soft_source){ 0 };
	return reader->error;
}

int soft_reader_executed(struct soft_reader *reader, uint32_t process, pid_t former, pid_t tid,
			 const char *comm)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	const struct trail_between left = { .event = TRAIL_EXEC };
	const struct trail_between over = { .event = TRAIL_END, .values = { TRAIL_EXITED } };
	struct soft_source *source = &reader->sources[process];
	struct soft_thread carried = { .source = source };

	soft_clock_look(&reader->clock);
	reader_paths(reader, source);
	for (uint32_t i = 0; i < soft_reader_used(reader); i++) {
		if (!is_of(reader, i, source) || reader_begin(reader, i))
			continue;
		if ((pid_t)soft_channel_slot(reader->channel, i)->tid != former || carried.trail) {
			reader_finish(reader, i, &over);
			continue;
		}
		reader_rest(reader, i);
		carried = reader->threads[i];
		reader->threads[i] = (struct soft_thread){ 0 };
	}
	slots_free(reader, process);
	if (!carried.trail) {
		reader_failed(reader, source->sink->calls->thread_begin(
					      source->sink, &carried.trail, tid, comm, TRAIL_SOFT,
					      reader_time(reader, &carried,
							  soft_clock_latest(&reader->clock))));
		reader_event(reader, &carried, &gap, carried.last_ns);
	}
	carried.has_left = 1; /* it has come to something */
	reader_event(reader, &carried, &left, carried.last_ns);
	source->is_seen = 1;
	source->carried = carried.trail;
	source->carried_ns = carried.last_ns;
	soft_paths_renew(&source->paths);
	return reader->error;
}

void soft_reader_drop_carried(struct soft_reader *reader, uint32_t process,
			      const struct trail_between *end_with)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	struct soft_source *source = &reader->sources[process];
	struct soft_thread thread = { .source = source,
				      .trail = source->carried,
				      .last_ns = source->carried_ns };

	source->carried = NULL;
	if (!thread.trail)
		return;
	reader_event(reader, &thread, &gap, thread.last_ns);
	reader_end(reader, &thread, end_with);
	reader_failed(reader,
		      source->sink->calls->thread_end(source->sink, thread.trail, thread.last_ns));
}
