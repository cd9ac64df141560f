/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_reader.h"

#include "session/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REMOVE_BYTES                                                                               \
	(UINT64_C(1)                                                                               \
	 << 20) /* from there on it is better to give the memory back than to clear it */
#define COPY_TRIES 3
#define NUMBERS_MAX (1u << 26)
#define EVENT_WORDS (sizeof(struct engine_event) / sizeof(uint32_t))

/* A segment at a moment. */
struct taken {
	uint32_t index;
	uint64_t number, began, ended; /* ticks; ended 0: it is being filled */
	uint32_t words;
};

static int failed(struct soft_reader *reader, int err)
{
	if (err < 0 && !reader->error)
		reader->error = err;
	return reader->error;
}

/* ---- into the sink ---- */

static uint64_t time_of(const struct soft_reader *reader, struct soft_thread *thread,
			uint64_t ticks)
{
	uint64_t ns = soft_clock_ns(&reader->clock, ticks);

	if (ns > thread->last_ns)
		thread->last_ns = ns;
	return thread->last_ns;
}

static void put_event(struct soft_reader *reader, struct soft_thread *thread,
		      const struct trail_between *between, uint64_t ns)
{
	if (thread->is_over || reader->error)
		return;
	/* it is said before execve(2), and has come to nothing where that comes back */
	if (between->event == TRAIL_EXEC && !thread->has_left) {
		thread->has_left = 1;
		return;
	}
	failed(reader, thread->source->sink->calls->event(thread->source->sink, thread->trail,
							  between, ns));
	thread->is_over = between->event == TRAIL_END;
	thread->has_left = 0;
	thread->is_lost = between->event == TRAIL_LOST;
	reader->losses += between->event == TRAIL_LOST;
}

static void put_lost(struct soft_reader *reader, struct soft_thread *thread)
{
	const struct trail_between lost = { .event = TRAIL_LOST };

	if (!thread->is_lost)
		put_event(reader, thread, &lost, thread->last_ns);
}

/* A path's blocks, one by one. */
static int put_blocks(struct soft_thread *thread, const struct soft_path *path, uint64_t ns)
{
	struct trail_sink *sink = thread->source->sink;
	int err = 0;

	for (uint32_t i = 0; i < path->count && !err; i++)
		err = sink->calls->block(sink, thread->trail, &path->blocks[i].entry,
					 path->blocks[i].code, ns);
	return err;
}

/* Lists go by the numbers: where a process has executed very many programs, it does without. */
static int put_path(struct soft_thread *thread, const struct soft_path *path, uint64_t ns)
{
	const struct trail_source_path whole = { path->number, path->first, path->count,
						 path->blocks };
	struct trail_sink *sink = thread->source->sink;

	return sink->calls->path && path->number < NUMBERS_MAX && path->first < NUMBERS_MAX
		       ? sink->calls->path(sink, thread->trail, &whole, ns)
		       : put_blocks(thread, path, ns);
}

/* Ids: the blocks of their paths. How many of them were put: all but for one that means nothing. */
static size_t put_ids(struct soft_reader *reader, struct soft_thread *thread, const uint32_t *words,
		      size_t count, uint64_t ns)
{
	int err = 0;
	uint64_t blocks = 0;
	size_t at = 0;

	for (; at < count && !err; at++) {
		const struct soft_path *path = soft_path_of(&thread->source->paths, words[at]);

		if (!path)
			break;
		err = put_path(thread, path, ns);
		blocks += path->count;
	}
	reader->blocks += blocks;
	thread->has_left = thread->has_left && !at;
	thread->is_lost = thread->is_lost && !at;
	failed(reader, err);
	return at;
}

static int take_event(const uint32_t *words, size_t room, struct trail_between *between,
		      uint64_t *ticks)
{
	struct engine_event event;

	if (ENGINE_EVENT_WORDS(words[0]) != EVENT_WORDS || room < 1 + EVENT_WORDS ||
	    ENGINE_EVENT_CLASS(words[0]) >= TRAIL_EVENTS)
		return 0;
	memcpy(&event, words + 1, sizeof(event));
	*ticks = (uint64_t)event.ticks[1] << 32 | event.ticks[0];
	*between = (struct trail_between){
		.at = (uint64_t)event.at[1] << 32 | event.at[0],
		.left = event.left,
		.event = (uint8_t)ENGINE_EVENT_CLASS(words[0]),
		.values = { (uint64_t)event.values[0][1] << 32 | event.values[0][0],
			    (uint64_t)event.values[1][1] << 32 | event.values[1][0] },
	};
	between->has_at = between->at != 0;
	return 1;
}

static size_t ids_from(const uint32_t *words, size_t count)
{
	size_t at = 0;

	while (at < count && words[at] < ENGINE_EVENT)
		at++;
	return at;
}

/* 1: all of them; 0: from somewhere on they can't be, or mean nothing. */
static int put_words(struct soft_reader *reader, struct soft_thread *thread, const uint32_t *words,
		     size_t count, uint64_t end_ticks)
{
	for (size_t at = 0; at < count && !reader->error && !thread->is_over;) {
		size_t ids = ids_from(words + at, count - at), event = at + ids;
		int has_event = event < count, is_event = 0;
		struct trail_between between;
		uint64_t ticks = end_ticks;

		if (has_event)
			is_event = take_event(words + event, count - event, &between, &ticks);
		if (put_ids(reader, thread, words + at, ids, time_of(reader, thread, ticks)) < ids)
			return 0;
		if (has_event && !is_event)
			return 0;
		if (has_event)
			put_event(reader, thread, &between, thread->last_ns);
		at = event + (has_event ? 1 + EVENT_WORDS : 0);
	}
	return 1;
}

/* ---- how far a segment was filled ---- */

/* Nothing tells where the writer was when it died but the words that are still 0. */
static size_t written(const uint32_t *words, size_t room)
{
	size_t at = 0;

	while (at < room && words[at]) {
		size_t whole = words[at] < ENGINE_EVENT ? 1 : 1 + ENGINE_EVENT_WORDS(words[at]);

		if (at + whole > room)
			break;
		at += whole;
	}
	return at;
}

/* 1: there was something, 0, or the first error. A child's log that breaks a rule is its own affair: nothing of it means anything from then on. */
static int take_paths(struct soft_reader *reader, struct soft_source *source)
{
	uint32_t process = (uint32_t)(source - reader->sources);
	int had = soft_paths_take(&source->paths, reader->channel, process);

	if (process && had == -EPROTO)
		return 0;
	failed(reader, had);
	return reader->error ? reader->error : had;
}

/* ---- segments ---- */

static struct engine_segment *segment_of(const struct soft_reader *reader, uint32_t slot,
					 uint32_t index)
{
	return &soft_channel_slot(reader->channel, slot)->segments[index];
}

/* What it says of itself now. 0: it has nothing. */
static int look_at(const struct soft_reader *reader, uint32_t slot, uint32_t index,
		   struct taken *taken)
{
	const struct engine_segment *segment = segment_of(reader, slot, index);
	uint64_t most = reader->channel->sizes.segment_bytes / sizeof(uint32_t);

	taken->index = index;
	taken->number = __atomic_load_n(&segment->number, __ATOMIC_ACQUIRE);
	taken->words = __atomic_load_n(&segment->words, __ATOMIC_ACQUIRE);
	taken->began = __atomic_load_n(&segment->began_ticks, __ATOMIC_RELAXED);
	taken->ended = __atomic_load_n(&segment->ended_ticks, __ATOMIC_RELAXED);
	if (taken->words > most)
		taken->words = (uint32_t)most;
	if (!taken->words)
		taken->ended = 0;
	return taken->number != 0;
}

/* The segment of that number, if it is there. */
static int find(const struct soft_reader *reader, uint32_t slot, uint64_t number,
		struct taken *taken)
{
	uint32_t segments = reader->channel->sizes.segments;

	/* most likely where the numbers go round */
	for (uint32_t i = 0; i < segments; i++)
		if (look_at(reader, slot, (uint32_t)((number - 1 + i) % segments), taken) &&
		    taken->number == number)
			return 1;
	return 0;
}

static int is_drained(const struct soft_reader *reader)
{
	return reader->channel->sizes.policy != ENGINE_CYCLIC;
}

/* Give it back, cleared: so it will be known how far it is filled, should its writer die. */
static void give_back(const struct soft_reader *reader, uint32_t slot, const struct taken *taken)
{
	memset(soft_channel_words(reader->channel, slot, taken->index), 0,
	       reader->channel->sizes.segment_bytes);
	soft_channel_give_segment(reader->channel, slot, taken->index, taken->number);
}

/* Copy it, and see whether it was overwritten meanwhile: where it was full, the mark at its head goes first. */
static int copy(const struct soft_reader *reader, uint32_t slot, const struct taken *taken)
{
	const uint32_t *words = soft_channel_words(reader->channel, slot, taken->index);
	uint64_t bytes = taken->words ? taken->words * sizeof(*words)
				      : reader->channel->sizes.segment_bytes;
	struct taken after;

	memcpy(reader->words, words, bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return look_at(reader, slot, taken->index, &after) && after.number == taken->number &&
	       after.words == taken->words && after.began == taken->began &&
	       (!taken->words || __atomic_load_n(words, __ATOMIC_ACQUIRE));
}

/* One that is complete. */
static void put_whole(struct soft_reader *reader, uint32_t slot, const struct taken *taken)
{
	struct soft_thread *thread = &reader->threads[slot];

	if (!put_words(reader, thread, reader->words, taken->words, taken->ended))
		put_lost(reader, thread);
}

/* One that was being filled. */
static void put_part(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	size_t room = reader->channel->sizes.segment_bytes / sizeof(uint32_t);

	if (!put_words(reader, thread, reader->words, written(reader->words, room),
		       soft_clock_latest(&reader->clock)))
		put_lost(reader, thread);
}

/* ---- threads ---- */

/* Of a slot's process, as it says; NULL: there is none such. */
static struct soft_source *source_of(const struct soft_reader *reader, uint32_t slot)
{
	uint32_t process = soft_channel_slot(reader->channel, slot)->process;

	return process < reader->channel->sizes.processes ? &reader->sources[process] : NULL;
}

/* 0; 1: it can't begin, or not yet; or the first error. */
static int begin(struct soft_reader *reader, uint32_t number)
{
	const struct engine_slot *slot = soft_channel_slot(reader->channel, number);
	struct soft_thread *thread = &reader->threads[number];
	struct soft_source *source = source_of(reader, number);
	char comm[sizeof(slot->comm) + 1] = "";
	struct trail_sink *sink;

	if (thread->is_begun)
		return 0;
	if (!source || !source->sink)
		return 1;
	sink = source->sink;
	source->is_seen = 1;
	*thread = (struct soft_thread){ .source = source, .is_begun = 1, .next = 1 };
	memcpy(comm, slot->comm, sizeof(slot->comm));
	if (source->carried) {
		thread->trail = source->carried;
		thread->last_ns = source->carried_ns;
		source->carried = NULL;
		return sink->calls->thread_name
			       ? failed(reader, sink->calls->thread_name(sink, thread->trail, comm))
			       : 0;
	}
	return failed(reader, sink->calls->thread_begin(
				      sink, &thread->trail, (pid_t)slot->tid, comm, TRAIL_SOFT,
				      time_of(reader, thread, slot->began_ticks)));
}

static void end(struct soft_reader *reader, uint32_t number)
{
	struct soft_thread *thread = &reader->threads[number];

	if (thread->is_begun && thread->trail)
		failed(reader, thread->source->sink->calls->thread_end(
				       thread->source->sink, thread->trail, thread->last_ns));
	*thread = (struct soft_thread){ 0 };
}

/* Segments that were left, in their order. How many. */
static int drain(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	struct taken taken;
	int had = 0;

	/* a round at most: others wait too */
	while (!reader->error && had < (int)reader->channel->sizes.segments &&
	       find(reader, slot, thread->next, &taken) && taken.words) {
		int is_whole = copy(reader, slot, &taken);

		give_back(reader, slot, &taken);
		/* what it means was logged before */
		if (take_paths(reader, thread->source) < 0)
			break;
		if (is_whole)
			put_whole(reader, slot, &taken);
		else
			put_lost(reader, thread);
		thread->next = taken.number + 1;
		had++;
	}
	return had;
}

/* What is there from thread->next on, by its numbers: those that follow each other up to the newest. */
static void take_rest(struct soft_reader *reader, uint32_t slot)
{
	struct soft_thread *thread = &reader->threads[slot];
	uint32_t segments = reader->channel->sizes.segments;
	uint64_t newest = 0, first;
	struct taken taken;

	for (uint32_t i = 0; i < segments; i++)
		if (look_at(reader, slot, i, &taken) && taken.number > newest)
			newest = taken.number;
	if (newest < thread->next)
		return;
	first = newest > segments && newest - segments + 1 > thread->next ? newest - segments + 1
									  : thread->next;
	for (uint64_t number = first; number <= newest && !reader->error; number++) {
		int has = 0;

		/* it may come to be full while it is copied */
		for (int i = 0; i < COPY_TRIES && !has; i++)
			has = find(reader, slot, number, &taken) && copy(reader, slot, &taken);

		if (take_paths(reader, thread->source) < 0)
			return;
		/* one that is not the newest and has no end is about to be that */
		has = has && (taken.words || number == newest);
		if (number != thread->next || !has)
			put_lost(reader, thread);
		if (has && taken.words)
			put_whole(reader, slot, &taken);
		else if (has)
			put_part(reader, slot);
		thread->next = number + 1;
	}
}

/* Nobody writes for a thread any more: what its trail ends with. */
static void put_end(struct soft_reader *reader, struct soft_thread *thread,
		    const struct trail_between *end_with)
{
	const struct trail_between gap = { .event = TRAIL_GAP, .values = { TRAIL_GAP_NATIVE } };
	const struct trail_between left = { .event = TRAIL_EXEC };
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };

	if (thread->has_left) { /* nobody wrote for the program that it executed */
		put_event(reader, thread, &left, thread->last_ns);
		put_event(reader, thread, &gap, thread->last_ns);
		put_event(reader, thread, &gone, thread->last_ns);
	}
	if (end_with)
		put_event(reader, thread, end_with,
			  time_of(reader, thread, soft_clock_latest(&reader->clock)));
	else if (!thread->is_over)
		put_lost(reader, thread);
}

/* A thread's trail, all of it. */
static void finish(struct soft_reader *reader, uint32_t slot, const struct trail_between *end_with)
{
	struct soft_thread *thread = &reader->threads[slot];

	if (begin(reader, slot))
		return;
	take_rest(reader, slot);
	put_end(reader, thread, end_with);
	end(reader, slot);
}

/* What a thread has written there, to 0. */
static void clear(const struct soft_reader *reader, uint32_t number, uint32_t index)
{
	const struct soft_sizes *sizes = &reader->channel->sizes;
	uint32_t *words = soft_channel_words(reader->channel, number, index);
	uint64_t bytes = sizes->segment_bytes;
	struct taken taken;

	if (!look_at(reader, number, index, &taken))
		return;
	if (taken.words)
		bytes = taken.words * sizeof(*words);
	if (bytes < REMOVE_BYTES || madvise(words, bytes, MADV_REMOVE))
		memset(words, 0, bytes);
}

/* For the next thread. */
static void slot_free(const struct soft_reader *reader, uint32_t number)
{
	struct engine_slot *slot = soft_channel_slot(reader->channel, number);

	for (uint32_t i = 0; i < reader->channel->sizes.segments; i++) {
		clear(reader, number, i);
		slot->segments[i] = (struct engine_segment){ 0 };
	}
	slot->lost_words = 0;
	soft_channel_give_slot(reader->channel, number);
}

static int take_slot(struct soft_reader *reader, uint32_t number)
{
	struct engine_slot *slot = soft_channel_slot(reader->channel, number);
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
	int had = 0;

	if (state != ENGINE_SLOT_LIVE && state != ENGINE_SLOT_ENDED)
		return 0;
	if (begin(reader, number))
		return 0;
	if (is_drained(reader))
		had = drain(reader, number);
	if (state == ENGINE_SLOT_ENDED && !reader->error) {
		finish(reader, number, NULL);
		slot_free(reader, number);
		had++;
	}
	return had;
}

/* ---- all ---- */

int soft_reader_init(struct soft_reader *reader, struct soft_channel *channel,
		     struct trail_sink *sink)
{
	*reader = (struct soft_reader){ .channel = channel };
	soft_clock_init(&reader->clock);
	reader->sources = calloc(channel->sizes.processes, sizeof(*reader->sources));
	if (reader->sources)
		reader->sources[0].sink = sink;
	reader->threads = calloc(channel->sizes.slots, sizeof(*reader->threads));
	reader->words = malloc(channel->sizes.segment_bytes);
	return reader->sources && reader->threads && reader->words ? 0 : -ENOMEM;
}

int soft_reader_take(struct soft_reader *reader)
{
	int had = 0;

	soft_clock_look(&reader->clock);
	for (uint32_t n = 0; n < reader->channel->sizes.processes && !reader->error; n++)
		if (reader->sources[n].sink)
			had |= take_paths(reader, &reader->sources[n]);
	for (uint32_t i = 0; i < reader->channel->sizes.slots && !reader->error; i++)
		had |= take_slot(reader, i);
	return reader->error ? reader->error : had != 0;
}

/* Whether a slot is a process's, and has something. */
static int is_of(const struct soft_reader *reader, uint32_t slot, const struct soft_source *source)
{
	uint32_t state = __atomic_load_n(&soft_channel_slot(reader->channel, slot)->state,
					 __ATOMIC_ACQUIRE);

	if (reader->threads[slot].is_begun)
		return reader->threads[slot].source == source;
	return (state == ENGINE_SLOT_LIVE || state == ENGINE_SLOT_ENDED) &&
	       source_of(reader, slot) == source;
}

static void finish_all(struct soft_reader *reader, struct soft_source *source,
		       const struct trail_between *end_with)
{
	soft_clock_look(&reader->clock);
	take_paths(reader, source);
	for (uint32_t i = 0; i < reader->channel->sizes.slots; i++)
		if (is_of(reader, i, source))
			finish(reader, i, end_with);
}

int soft_reader_finish(struct soft_reader *reader, const struct trail_between *end_with)
{
	for (uint32_t n = 0; n < reader->channel->sizes.processes; n++) {
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
	take_paths(reader, &reader->sources[of]);
	return soft_paths_copy(&source->paths, &reader->sources[of].paths, first_id);
}

/* The process is gone, or what it was: slots of it that nobody will end. */
static void slots_free(struct soft_reader *reader, uint32_t process)
{
	for (uint32_t i = 0; i < reader->channel->sizes.slots; i++) {
		const struct engine_slot *slot = soft_channel_slot(reader->channel, i);

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ENGINE_SLOT_FREE &&
		    slot->process == process && !reader->threads[i].is_begun)
			slot_free(reader, i);
	}
}

/* A trail that says no more than that it was not recorded. */
static void stub(struct soft_reader *reader, uint32_t process, const struct trail_between *end_with)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	struct soft_source *source = &reader->sources[process];
	struct soft_thread thread = { .source = source };

	if (reader->error ||
	    failed(reader,
		   source->sink->calls->thread_begin(
			   source->sink, &source->carried, source->pid, source->comm, TRAIL_SOFT,
			   time_of(reader, &thread, soft_clock_latest(&reader->clock)))))
		return;
	source->carried_ns = thread.last_ns;
	soft_reader_drop_carried(reader, process, end_with ? end_with : &gone);
}

int soft_reader_end(struct soft_reader *reader, uint32_t process,
		    const struct trail_between *end_with)
{
	struct soft_source *source = &reader->sources[process];

	if (source->sink) {
		finish_all(reader, source, end_with);
		soft_reader_drop_carried(reader, process, end_with);
		if (process && !source->is_seen)
			stub(reader, process, end_with);
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
	take_paths(reader, source);
	for (uint32_t i = 0; i < reader->channel->sizes.slots; i++) {
		if (!is_of(reader, i, source) || begin(reader, i))
			continue;
		if ((pid_t)soft_channel_slot(reader->channel, i)->tid != former || carried.trail) {
			finish(reader, i, &over);
			continue;
		}
		take_rest(reader, i);
		carried = reader->threads[i];
		reader->threads[i] = (struct soft_thread){ 0 };
	}
	slots_free(reader, process);
	if (!carried.trail) {
		failed(reader,
		       source->sink->calls->thread_begin(
			       source->sink, &carried.trail, tid, comm, TRAIL_SOFT,
			       time_of(reader, &carried, soft_clock_latest(&reader->clock))));
		put_event(reader, &carried, &gap, carried.last_ns);
	}
	carried.has_left = 1; /* it has come to something */
	put_event(reader, &carried, &left, carried.last_ns);
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
	put_event(reader, &thread, &gap, thread.last_ns);
	put_end(reader, &thread, end_with);
	failed(reader, source->sink->calls->thread_end(source->sink, thread.trail, thread.last_ns));
}

void soft_reader_release(struct soft_reader *reader)
{
	for (uint32_t n = 0; reader->sources && n < reader->channel->sizes.processes; n++)
		soft_paths_release(&reader->sources[n].paths);
	free(reader->sources);
	free(reader->threads);
	free(reader->words);
	reader->sources = NULL;
	reader->threads = NULL;
	reader->words = NULL;
}
