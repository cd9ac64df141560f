/* SPDX-License-Identifier: MIT */
/* Specs of markers, and what they count: marker:SUBSYS:EVENT/count=NAME+NAME/. */
#ifndef RECORD_SPEC_MARKER_SPEC_H
#define RECORD_SPEC_MARKER_SPEC_H

#define COST_NAMES_MAX 4 /* in one spec */

/*
 * Make the system calls that the agent will make for counts. Returns how many seccomp filters let
 * the calling thread do so: one that does not may end us, and no target.
 */
long marker_calls_try(void);

#endif
