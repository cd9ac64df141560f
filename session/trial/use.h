/* SPDX-License-Identifier: MIT */
/* Sessions and event objects ask here before they rely on a mechanism of the machine. */
#ifndef SESSION_TRIAL_USE_H
#define SESSION_TRIAL_USE_H

#include "session/event/object.h"
#include "session/spec.h"

struct wm_session;

/*
 * Before a spec is taken: a watch needs debug registers that fire, markers and probes need code that can be changed while it
 * runs. 0; -WM_E_BREAKPOINT_DEAD or -WM_E_CODE_CHANGE, with the trial that failed in detail.
 */
int use_spec(const struct spec *spec, struct detail detail);

/* Before an event object opens or changes its sources. 0 or -WM_E_BREAKPOINT_DEAD. */
int use_sources(const struct event_request *request, const struct event_source *sources,
		struct detail detail);

/*
 * At a session's end: where a watch that was armed had no hit, repeat its trial, as a live migration may have moved us to a
 * machine whose registers do not fire. 0; -WM_E_BREAKPOINT_DEAD, or -WM_E_BREAKPOINT_UNTRIED: the zero was not
 * measured. The session keeps that error (watched_list.unproven).
 */
int use_zero(struct wm_session *session, struct detail detail);

#endif
