/* SPDX-License-Identifier: MIT */
/* A session checks here that a mechanism of the machine works, before it relies on it. */
#ifndef RECORD_SESSION_USE_H
#define RECORD_SESSION_USE_H

#include "record/spec/spec.h"
#include "target/process/target.h"

struct wm_session;

/*
 * Check before a spec is accepted: a watch needs debug registers that fire; markers and probes need
 * code that can be changed while it runs. Returns 0; -WM_E_BREAKPOINT_DEAD or -WM_E_CODE_CHANGE,
 * with the failed trial in detail.
 */
int use_spec(const struct spec *spec, struct detail detail);

/*
 * Check at a session's end: if an armed watch had no hit, repeat its trial, as a live migration may
 * have moved us to a machine whose debug registers don't fire. Returns 0; -WM_E_BREAKPOINT_DEAD; or
 * -WM_E_BREAKPOINT_UNTRIED, if the zero can't be confirmed. Keeps the error in
 * watched_list.unproven.
 */
int use_zero(struct wm_session *session, struct detail detail);

#endif
