/* SPDX-License-Identifier: MIT */
#include "record/trail/kept.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct kept_thread {
	struct kept_thread *next;
	pid_t tid;
	/* the store's, of a thread that lived when it was put last; 0: not yet known */
	uint64_t number;
	uint64_t ticks; /* of the last that is known of it; another's may be later */
	int is_over;	/* its end is there */
	struct sink_thread *to;
};

static struct kept *kept_of(struct trail_sink *sink)
{
	return (struct kept *)((char *)sink - offsetof(struct kept, sink));
}

static struct kept_thread *thread_of(struct sink_thread *thread)
{
	return (struct kept_thread *)thread;
}

/* Of several that had the id, one after the other, the one that may still run. */
static struct kept_thread *find(struct kept *kept, pid_t tid)
{
	for (struct kept_thread *thread = kept->threads; thread; thread = thread->next)
		if (thread->tid == tid && !thread->is_over)
			return thread;
	return NULL;
}

/* What it did from here on is not known, or has its end there. */
static int close_one(struct kept *kept, struct kept_thread *thread,
		     const struct trail_between *last)
{
	struct kept_thread **at = &kept->threads;
	int err = 0, ended;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	if (last)
		err = kept->to->calls->event(kept->to, thread->to, last, thread->ticks);
	ended = kept->to->calls->thread_end(kept->to, thread->to, thread->ticks);
	free(thread);
	return err ? err : ended;
}

/* ---- as the store writes ---- */

static int on_module(struct trail_sink *sink, const struct control_module *module, const char *path)
{
	struct kept *kept = kept_of(sink);

	if (kept->at++ < kept->reported)
		return 0;
	kept->reported++;
	return kept->to->calls->module(kept->to, module, path);
}

static int on_thread_begin(struct trail_sink *sink, struct sink_thread **out, pid_t tid,
			   const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct kept *kept = kept_of(sink);
	struct kept_thread *thread = find(kept, tid);
	int err;

	*out = (struct sink_thread *)thread;
	if (thread)
		return 0;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	err = kept->to->calls->thread_begin(kept->to, &thread->to, tid, comm, origin, ticks);
	if (err) {
		free(thread);
		return err;
	}
	thread->tid = tid;
	thread->ticks = ticks;
	thread->next = kept->threads;
	kept->threads = thread;
	*out = (struct sink_thread *)thread;
	return 0;
}

static void note_ticks(struct kept_thread *thread, uint64_t ticks)
{
	thread->ticks = ticks > thread->ticks ? ticks : thread->ticks;
}

static int on_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	const struct kept *kept = kept_of(sink);

	return kept->to->calls->since
		       ? kept->to->calls->since(kept->to, thread_of(thread)->to, from)
		       : 0;
}

static int on_block(struct trail_sink *sink, struct sink_thread *thread,
		    const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct kept *kept = kept_of(sink);

	note_ticks(thread_of(thread), ticks);
	return kept->to->calls->block(kept->to, thread_of(thread)->to, entry, code, ticks);
}

static int on_event(struct trail_sink *sink, struct sink_thread *of,
		    const struct trail_between *between, uint64_t ticks)
{
	struct kept_thread *thread = thread_of(of);
	struct kept *kept = kept_of(sink);
	int err;

	note_ticks(thread, ticks);
	err = kept->to->calls->event(kept->to, thread->to, between, ticks);
	if (!err && between->event == TRAIL_END)
		thread->is_over = 1;
	return err;
}

/* The store has no more of it, now. */
static int on_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	(void)ticks;
	return thread_of(thread)->is_over ? close_one(kept_of(sink), thread_of(thread), NULL) : 0;
}

static const struct trail_sink_calls kept_calls = {
	.module = on_module,
	.thread_begin = on_thread_begin,
	.since = on_since,
	.block = on_block,
	.event = on_event,
	.thread_end = on_thread_end,
};

/* ---- */

static uint64_t live_number(struct trail_store *store, pid_t tid)
{
	uint64_t number = 0;

	for (struct store_thread *thread = trail_store_thread(store, NULL); thread && !number;
	     thread = trail_store_thread(store, thread))
		if (store_thread_tid(thread) == tid && !store_thread_is_over(thread))
			number = store_thread_number(thread);
	return number;
}

/*
 * Those that the store has forgotten since, with their ends: another thread may have that id by
 * now.
 */
static int close_forgotten(struct kept *kept, struct trail_store *store)
{
	const struct trail_between lost = { .event = TRAIL_LOST };
	int err = 0;

	for (struct kept_thread *thread = kept->threads, *next; thread && !err; thread = next) {
		struct store_thread *of = trail_store_thread(store, NULL);

		next = thread->next;
		while (of && store_thread_number(of) != thread->number)
			of = trail_store_thread(store, of);
		if (!of)
			err = close_one(kept, thread, &lost);
	}
	return err;
}

/* Live threads continue; close those that are no longer live. */
static int note_numbers(struct kept *kept, struct trail_store *store)
{
	int err = 0;

	for (struct kept_thread *thread = kept->threads, *next; thread && !err; thread = next) {
		next = thread->next;
		thread->number = live_number(store, thread->tid);
		if (!thread->number)
			err = close_one(kept, thread, NULL);
	}
	return err;
}

void kept_init(struct kept *kept, struct trail_sink *to)
{
	*kept = (struct kept){ .sink = { &kept_calls }, .to = to };
}

int kept_take(struct kept *kept, struct trail_store *store)
{
	int err = close_forgotten(kept, store);

	kept->at = 0;
	if (!err)
		err = trail_store_write(store, &kept->sink);
	if (!err)
		err = note_numbers(kept, store);
	if (!err)
		trail_store_clear(store);
	return err;
}

int kept_end(struct kept *kept)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	int err = 0;

	while (kept->threads) {
		int got = close_one(kept, kept->threads, &gone);

		err = err ? err : got;
	}
	return err;
}
