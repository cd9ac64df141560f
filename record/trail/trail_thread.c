/* SPDX-License-Identifier: MIT */
/*
 * The thread of a live trail: it takes what the tracer sends, until that is over or the trail is
 * closed. Between tracer and store is a sink, which takes the lock and leaves out what was not
 * requested; where that would leave blocks that can't follow each other, it puts a gap
 * (abi/trail.h).
 */
#include "record/trail/trail.h"

#include "target/process/ticks.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#define PUMP_MS 20
#define FULL_NS 2000000 /* between looks at a store that is full */
/* A fetch at most so long ago is recent enough: one of a busy program takes about that long. */
#define FRESH_NS 100000000

/* ---- the sink ---- */

static struct wm_trail *trail_of(struct trail_sink *sink)
{
	return (struct wm_trail *)((char *)sink - offsetof(struct wm_trail, sink));
}

static struct trail_sink *begin(struct wm_trail *trail)
{
	pthread_mutex_lock(&trail->lock);
	return trail_store_sink(trail->store);
}

static int end(struct wm_trail *trail, int result)
{
	pthread_mutex_unlock(&trail->lock);
	return result;
}

/* The same, with a record more. */
static int end_record(struct wm_trail *trail, int result)
{
	trail_fd_raise(trail);
	return end(trail, result);
}

static int sink_begin(struct trail_sink *sink, pid_t pid)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->begin(to, pid));
}

static int sink_module(struct trail_sink *sink, const struct control_module *module,
		       const char *path)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, trail->tracer.wire.pid);
	return end(trail, to->calls->module(to, module, path));
}

static int sink_thread_begin(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			     const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, trail->tracer.wire.pid);
	return end(trail, to->calls->thread_begin(to, thread, tid, comm, origin, ticks));
}

static int sink_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->thread_name(to, thread, comm));
}

static int sink_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->since(to, thread, from));
}

static int sink_block(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = thread;
	trail->last_next = entry->start + entry->bytes;
	return end_record(trail, to->calls->block(to, thread, entry, code, ticks));
}

static uint32_t flag_of(const struct trail_between *between)
{
	switch (between->event) {
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
		return WM_TRAIL_FLAG_SWITCHES;
	case TRAIL_SIGNAL: /* 0: an interrupt, which is part of the kernel's trail */
		return between->values[0] ? WM_TRAIL_FLAG_SIGNALS : 0;
	case TRAIL_SYSCALLED:
		return WM_TRAIL_FLAG_SYSCALLS;
	default:
		return 0;
	}
}

static int sink_event(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_between *between, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);
	uint32_t flag = flag_of(between);
	struct trail_between gap = { .event = TRAIL_GAP,
				     .at = between->at,
				     .left = between->left,
				     .values = { TRAIL_GAP_KERNEL } };
	int is_straight = trail->last == thread && between->at == trail->last_next &&
			  between->event != TRAIL_SIGNAL && !between->left;

	if (between->event == TRAIL_VALUE) /* the library's events have none */
		return end(trail, 0);
	if (!flag || trail->options.flags & flag)
		return end_record(trail, to->calls->event(to, thread, between, ticks));
	if (is_straight)
		return end(trail, 0);
	if (between->event == TRAIL_SIGNAL && between->values[1])
		gap.at = between->values[1];
	return end_record(trail, to->calls->event(to, thread, &gap, ticks));
}

static int sink_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = NULL;
	return end_record(trail, to->calls->thread_end(to, thread, ticks));
}

static int sink_is_full(struct trail_sink *sink)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, !trail->must_end && to->calls->is_full(to));
}

static const struct trail_sink_calls calls = {
	.begin = sink_begin,
	.module = sink_module,
	.thread_begin = sink_thread_begin,
	.thread_name = sink_thread_name,
	.since = sink_since,
	.block = sink_block,
	.event = sink_event,
	.thread_end = sink_thread_end,
	.is_full = sink_is_full,
};

void trail_sink_init(struct wm_trail *trail)
{
	trail->sink.calls = &calls;
}

/* What children did goes where it goes of the first process. */
static int on_child(void *data, const struct sink_process *process, struct trail_sink **out)
{
	(void)process;
	*out = ((struct tracer *)data)->wire.to;
	return 0;
}

/* ---- the thread ---- */

/* Whether there is room; waits a little where there is not. */
static int await_room(struct wm_trail *trail)
{
	struct timespec until;
	int is_full = sink_is_full(&trail->sink);

	if (!is_full)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += FULL_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&trail->lock);
	pthread_cond_broadcast(&trail->changed); /* pairs with is_stuck() in trail_fetch() */
	pthread_cond_timedwait(&trail->changed, &trail->lock, &until);
	pthread_mutex_unlock(&trail->lock);
	return 0;
}

/* What other threads' calls want and wait for. Whether the trail is to end. */
static int calls_serve(struct wm_trail *trail)
{
	uint64_t now_ns = ticks_monotonic_ns();
	int must_end;

	pthread_mutex_lock(&trail->lock);
	if (trail->tracer.fetched != trail->fetch_done) {
		trail->fetch_done = trail->tracer.fetched;
		trail->fetched_ns = now_ns;
		pthread_cond_broadcast(&trail->changed);
	}
	/* with WM_TRAIL_ORIGIN_SOFT nothing comes by itself: look for what a caller polls for */
	if (trail->fd >= 0 && !trail->is_raised && trail->options.origin == WM_TRAIL_ORIGIN_SOFT &&
	    trail->fetch_asked == trail->fetch_done && now_ns - trail->fetched_ns >= FRESH_NS &&
	    tracer_fetch(&trail->tracer))
		trail->fetch_asked++;
	must_end = trail->must_end;
	pthread_mutex_unlock(&trail->lock);
	return must_end;
}

static void *run(void *data)
{
	struct wm_trail *trail = data;
	struct pollfd ready = { .fd = trail->tracer.fd, .events = POLLIN };
	int more = 1, err;

	do {
		if (!await_room(trail))
			continue;
		more = tracer_pump(&trail->tracer);
		if (more > 0)
			poll(&ready, 1, PUMP_MS);
	} while (!calls_serve(trail) && more > 0);
	/* no call uses the tracer from here on */
	pthread_mutex_lock(&trail->lock);
	trail->is_traced = 0;
	pthread_mutex_unlock(&trail->lock);
	err = tracer_stop(&trail->tracer);
	pthread_mutex_lock(&trail->lock);
	trail->unfollowed = trail->tracer.result.unfollowed;
	trail->error = more < 0 ? more : err;
	trail->state = trail->error ? WM_TRAIL_STATE_FAILED : WM_TRAIL_STATE_OVER;
	trail_fd_raise(trail);
	pthread_cond_broadcast(&trail->changed);
	pthread_mutex_unlock(&trail->lock);
	return NULL;
}

int trail_thread_start(struct wm_trail *trail)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	trail->tracer.wire.on_child = on_child;
	/* the thread stops the tracer at its end, for which it needs the lock */
	pthread_mutex_lock(&trail->lock);
	err = pthread_create(&trail->thread, NULL, run, trail);
	trail->has_thread = !err;
	if (!err)
		tracer_go(&trail->tracer);
	pthread_mutex_unlock(&trail->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

void trail_thread_stop(struct wm_trail *trail)
{
	if (!trail->has_thread)
		return;
	pthread_mutex_lock(&trail->lock);
	trail->must_end = 1;
	if (trail->is_traced)
		tracer_discard(&trail->tracer);
	pthread_cond_broadcast(&trail->changed);
	pthread_mutex_unlock(&trail->lock);
	pthread_join(trail->thread, NULL);
	trail->has_thread = 0;
}

/* ---- what was recorded until now ---- */

static int is_stuck(const struct wm_trail *trail)
{
	return trail->options.policy == WM_POLICY_BLOCK && trail_store_is_full(trail->store);
}

/* `joins`: a fetch in progress will do, though it began earlier. */
static int fetch(struct wm_trail *trail, int timeout_ms, int joins)
{
	uint64_t until_ns = ticks_monotonic_ns() + (uint64_t)timeout_ms * 1000000;
	struct timespec until = { (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
	uint32_t wanted;
	int err = 0;

	/* no tracer: the trail is ending, and all records come by themselves */
	if (trail->state == WM_TRAIL_STATE_LIVE && trail->is_traced) {
		if (is_stuck(trail))
			return 0;
		if (!joins || trail->fetch_asked == trail->fetch_done) {
			if (!tracer_fetch(&trail->tracer))
				return 0;
			trail->fetch_asked++;
		}
	}
	wanted = trail->fetch_asked;
	while (trail->state == WM_TRAIL_STATE_LIVE && !err &&
	       (!trail->is_traced || (int32_t)(trail->fetch_done - wanted) < 0) && !is_stuck(trail))
		err = timeout_ms < 0
			      ? pthread_cond_wait(&trail->changed, &trail->lock)
			      : pthread_cond_timedwait(&trail->changed, &trail->lock, &until);
	return trail->state != WM_TRAIL_STATE_LIVE ||
	       (trail->is_traced && (int32_t)(trail->fetch_done - wanted) >= 0);
}

int trail_fetch(struct wm_trail *trail, int timeout_ms)
{
	return fetch(trail, timeout_ms, 0);
}

int trail_enter_reading(struct wm_trail *trail, int *state)
{
	int err = trail_enter(trail, state);

	/* other origins send their records all the time */
	if (!err && trail->options.origin == WM_TRAIL_ORIGIN_SOFT &&
	    ticks_monotonic_ns() - trail->fetched_ns >= FRESH_NS && !fetch(trail, READ_MS, 1))
		trail->fetched_ns = ticks_monotonic_ns(); /* only one call waits for a slow fetch */
	return err;
}
