/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_CONTROL_SESSION_REQUEST_H
#define INSIDE_CONTROL_SESSION_REQUEST_H

#include "abi/control.h"
#include "inside/control/session_table.h"
#include "inside/marker/marker.h"

/*
 * Serve one request; what it changed is counted in *change. Returns what to answer; 1: nothing.
 * Control thread.
 */
int request_serve(struct session *session, const struct wm_message *message, struct change *change);

#endif
