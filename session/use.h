/* SPDX-License-Identifier: MIT */
/* A session asks here before it relies on a mechanism of the machine. */
#ifndef SESSION_USE_H
#define SESSION_USE_H

#include "session/spec.h"
#include "process/target.h"

struct wm_session;

/*
 * Before a spec is taken: a watch needs debug registers that fire, markers and probes need code that can be changed while it
 * runs. 0; -WM_E_BREAKPOINT_DEAD or -WM_E_CODE_CHANGE, with the trial that failed in detail.
 */
int use_spec(const struct spec *spec, struct detail detail);

/*
 * At a session's end: where a watch that was armed had no hit, repeat its trial, as a live migration may have moved us to a
 * machine whose registers do not fire. 0; -WM_E_BREAKPOINT_DEAD, or -WM_E_BREAKPOINT_UNTRIED: the zero was not
 * measured. The session keeps that error (watched_list.unproven).
 */
int use_zero(struct wm_session *session, struct detail detail);

#endif
