/* SPDX-License-Identifier: MIT */
/* The thread of a live trail: it takes what the origin sends, until that is over or it is told to end. */
#include "session/trail/trail.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define PUMP_MS 20
#define FULL_NS 2000000 /* between looks at a store that is full */

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

static void *run(void *data)
{
	struct wm_trail *trail = data;
	uint64_t unfollowed = 0;
	int more = 1, err;

	trail->origin->go(trail->live);
	while (more > 0 && !must_end(trail))
		if (await_room(trail))
			more = trail->origin->pump(trail->live, PUMP_MS);
	err = trail->origin->close(trail->live, &unfollowed);
	pthread_mutex_lock(&trail->lock);
	trail->unfollowed = unfollowed;
	trail->live = NULL;
	trail->error = more < 0 ? more : err;
	trail->state = trail->error ? WM_TRAIL_FAILED : WM_TRAIL_OVER;
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
	err = pthread_create(&trail->thread, NULL, run, trail);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	trail->has_thread = !err;
	return -err;
}

void trail_thread_stop(struct wm_trail *trail)
{
	if (!trail->has_thread)
		return;
	pthread_mutex_lock(&trail->lock);
	trail->must_end = 1;
	pthread_cond_broadcast(&trail->changed);
	pthread_mutex_unlock(&trail->lock);
	pthread_join(trail->thread, NULL);
	trail->has_thread = 0;
}
