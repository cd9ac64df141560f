/* SPDX-License-Identifier: MIT */
/*
 * Telling sessions what happens to markers and modules. Control thread only, under the agent's
 * lock.
 */
#ifndef INSIDE_CONTROL_REPORT_H
#define INSIDE_CONTROL_REPORT_H

#include "inside/marker/marker.h"

extern const struct registry_listener report_listener;

/* From here to report_end() each message to `lane` belongs to its request `serial`. */
void report_begin(unsigned int lane, uint32_t serial);

/*
 * Call it before any other work that may send to sessions. From here on each session may keep us
 * waiting for MESSAGE_PATIENCE_NS in all; one that takes longer is deaf. report_begin() does it
 * too.
 */
void report_renew(void);

/* Whether a request of this session is being served: its tool waits for the answer. */
int report_is_serving(unsigned int lane);

/* Returns -EPIPE if a message to the session was lost, else 0. */
int report_end(void);

/* In the child of a fork: no message is pending. */
void report_forked(void);

/* Send all queued messages. Returns the sessions, a bit each, that missed something. */
uint32_t report_flush(void);

/* Whether a session has missed a message since its connection was made. */
int report_is_deaf(unsigned int lane);

/*
 * The modules were looked at, or why not: without memory, open sessions hear of it once, since
 * markers may be missing until it is done again; those that are opened until then, too.
 */
void report_scanned(int error);

/* All modules, to one session. */
void report_modules_to(unsigned int lane);

/* The answer to LIST: a MARKER for each marker and module. 0 or an error of the connection. */
int report_list(unsigned int lane);

/* A new connection: what the lane's last one missed is forgotten. */
void report_lane_new(unsigned int lane);

/* From here on notify sessions when their watches can't stay. Control thread. */
void report_watches(void);

#endif
