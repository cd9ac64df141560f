/* SPDX-License-Identifier: MIT */
/*
 * The thread of a live trail: it takes what the origin sends, until that is over or the trail is
 * closed.
 */
#include "record/trail/trail.h"

#include "target/process/ticks.h"

#include <signal.h>
#include <time.h>

#define PUMP_MS 20
#define FULL_NS 2000000 /* between looks at a store that is full */
/* A fetch at most so long ago is recent enough: one of a busy program takes about that long. */
#define FRESH_NS 100000000

/* Whether there is room; waits a little where there is not. */
static int await_room(struct wm_trail *trail)
{
	struct timespec until;
	int is_full = trail->source.sink.calls->is_full(&trail->source.sink);

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

static int must_end(struct wm_trail *trail)
{
	int must;

	pthread_mutex_lock(&trail->lock);
	must = trail->must_end;
	pthread_mutex_unlock(&trail->lock);
	return must;
}

/* Wake the threads that wait for a fetch. */
static void note_fetched(struct wm_trail *trail, const struct live_origin *live)
{
	uint32_t done = trail->origin->fetched(live);

	pthread_mutex_lock(&trail->lock);
	if (done != trail->fetch_done) {
		trail->fetch_done = done;
		trail->fetched_ns = ticks_monotonic_ns();
		pthread_cond_broadcast(&trail->changed);
	}
	pthread_mutex_unlock(&trail->lock);
}

/* With WM_TRAIL_ORIGIN_SOFT nothing comes by itself: look for what a caller polls for. */
static void fetch_news(struct wm_trail *trail, struct live_origin *live)
{
	pthread_mutex_lock(&trail->lock);
	if (trail->fd >= 0 && !trail->is_raised && trail->options.origin == WM_TRAIL_ORIGIN_SOFT &&
	    trail->fetch_asked == trail->fetch_done &&
	    ticks_monotonic_ns() - trail->fetched_ns >= FRESH_NS && trail->origin->fetch(live))
		trail->fetch_asked++;
	pthread_mutex_unlock(&trail->lock);
}

static void *run(void *data)
{
	struct wm_trail *trail = data;
	struct live_origin *live = trail->live;
	uint64_t unfollowed = 0;
	int more = 1, err;

	while (more > 0 && !must_end(trail)) {
		if (await_room(trail))
			more = trail->origin->pump(live, PUMP_MS);
		note_fetched(trail, live);
		fetch_news(trail, live);
	}
	/* no call uses it from here on */
	pthread_mutex_lock(&trail->lock);
	trail->live = NULL;
	pthread_mutex_unlock(&trail->lock);
	err = trail->origin->close(live, &unfollowed);
	pthread_mutex_lock(&trail->lock);
	trail->unfollowed = unfollowed;
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
	/* the thread releases `live` at its end, for which it needs the lock */
	pthread_mutex_lock(&trail->lock);
	err = pthread_create(&trail->thread, NULL, run, trail);
	trail->has_thread = !err;
	if (!err)
		trail->origin->go(trail->live);
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
	if (trail->live)
		trail->origin->discard(trail->live);
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

	/* no origin: the trail is ending, and all records come by themselves */
	if (trail->state == WM_TRAIL_STATE_LIVE && trail->live) {
		if (is_stuck(trail))
			return 0;
		if (!joins || trail->fetch_asked == trail->fetch_done) {
			if (!trail->origin->fetch(trail->live))
				return 0;
			trail->fetch_asked++;
		}
	}
	wanted = trail->fetch_asked;
	while (trail->state == WM_TRAIL_STATE_LIVE && !err &&
	       (!trail->live || (int32_t)(trail->fetch_done - wanted) < 0) && !is_stuck(trail))
		err = timeout_ms < 0
			      ? pthread_cond_wait(&trail->changed, &trail->lock)
			      : pthread_cond_timedwait(&trail->changed, &trail->lock, &until);
	return trail->state != WM_TRAIL_STATE_LIVE ||
	       (trail->live && (int32_t)(trail->fetch_done - wanted) >= 0);
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
