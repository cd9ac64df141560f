/* SPDX-License-Identifier: MIT */
/* The session of `waymark top`: what it records by default, and the program that it starts. */
#ifndef CLI_TOP_SESSION_H
#define CLI_TOP_SESSION_H

#include "cli/targets.h"
#include "record/session/session.h"

struct top_options {
	struct targets targets;
	struct command_texts specs; /* none: the default ones */
	const char *output;	    /* where the program's output goes; NULL: nowhere */
	uint64_t interval_ns, for_ns, row_max;
	int json;
};

struct top_session {
	struct wm_session *session;
	struct child child; /* the program; pid 0: none */
	char what[256];
	char left_out[512]; /* default events, and why they are not recorded; "" */
	int has_switches, has_kernel;
	const char *output; /* where the program's output goes */
	int says_output;    /* there is a program */
};

/*
 * Open and start it. Default events that are not permitted are left out, with a line on stderr. 0;
 * else the exit status, with all said and all closed.
 */
int top_session_begin(struct top_session *recorded, const struct top_options *options);

/*
 * Close it and wait for the program. Returns the exit status: the program's, if `result` is
 * CLI_FINE and it has one.
 */
int top_session_end(struct top_session *recorded, int result);

#endif
