/* SPDX-License-Identifier: MIT */
/* Chooses the origin of a session's trails. */
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/trail/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <waymark/error.h>

static void leave_out_one(struct origin_state *state, int keeps)
{
	*state = (struct origin_state){ .error = -WM_E_TRAIL_ASKED };
	snprintf(state->detail, sizeof(state->detail), "it can't say when a %s came",
		 keeps ? "watch's hit" : "signal");
}

/*
 * Rule out origins that lack something the session needs. Hardware reports no signals, and the
 * times of its blocks are known only when all is decoded.
 */
static void leave_out(struct live *live, const struct spec_list *specs)
{
	for (size_t i = 0; i < specs->count; i++)
		if (specs->all[i].watch && specs->all[i].watch->options.is_outside &&
		    !live->origins[ORIGIN_SOFT].error)
			live->origins[ORIGIN_SOFT] = (struct origin_state){
				.error = -WM_E_TRAIL_ASKED,
				.detail = "a watch from outside would report the translation's addresses",
			};
	for (size_t i = 0; i < specs->count; i++)
		if (specs->all[i].watch && specs->all[i].watch->kind == WATCH_EXECUTE &&
		    !live->origins[ORIGIN_SOFT].error)
			live->origins[ORIGIN_SOFT] = (struct origin_state){
				.error = -WM_E_TRAIL_ASKED,
				.detail = "the code of a watch for calls (:x) runs as a translation, at another address",
			};
	if (live->trigger != TRIGGER_SIGNAL && !live->keeps)
		return;
	for (int i = 0; i < ORIGINS; i++)
		if (!live->origins[i].error && i != ORIGIN_SOFT)
			leave_out_one(&live->origins[i], live->keeps);
}

/* The origin to use; -1: none. In programs of tests that have the oracle, `auto` takes that. */
static int choose_of(const struct live *live, const struct trail_request *request)
{
	if (!request->is_auto)
		return (int)request->origin;
	return tracing_oracle ? ORIGIN_ORACLE : origin_best(live->origins);
}

static int choose(struct wm_session *session)
{
	struct live *live = session->live;
	int best;

	if (live->has_origin)
		return 0;
	origins_look(live->origins, &live->machine);
	leave_out(live, session->specs);
	if (spec_trail(session->specs)->has_kernel)
		origins_need_kernel(live->origins, &live->machine);
	best = choose_of(live, spec_trail(session->specs));
	if (best < 0) /* report why the origin with the fewest needs can't work */
		best = ORIGIN_SOFT;
	live->origin = (enum origin)best;
	if (best < ORIGINS && live->origins[best].error)
		return session_fail(session, live->origins[best].error, "%s%s%s",
				    origin_name(live->origin),
				    live->origins[best].detail[0] ? ": " : "",
				    live->origins[best].detail);
	live->has_origin = 1;
	return 0;
}

int live_ready(struct wm_session *session)
{
	int err;

	if (!live_is_wanted(session))
		return 0;
	if (!session->writer)
		return session_fail(
			session, -EINVAL,
			"a trail is written into a folder: open one with wm_session_output()");
	err = live_keep_ready(session);
	return err ? err : choose(session);
}

int live_launches(const struct wm_session *session)
{
	return live_is_wanted(session) && session->live->origin == ORIGIN_SOFT;
}

int live_joins(struct wm_session *session)
{
	int err = live_ready(session);

	if (err || !live_launches(session))
		return err;
	return session_fail(session, -WM_E_TRAIL_ASKED,
			    "soft takes no running program together with markers or probes");
}

/* Without a detail the error is of the folder, whose name wm_session_wait() knows. */
int live_broke_off(struct wm_session *session, const struct tracer *tracer, pid_t pid, int error)
{
	if (tracer->detail[0])
		session->live->error = error;
	return session_fail(session, error, "pid %d%s%s", (int)pid, tracer->detail[0] ? ": " : "",
			    tracer->detail);
}
