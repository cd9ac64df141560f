/* SPDX-License-Identifier: MIT */
/* The command line of `waymark record`. */
#ifndef CLI_RECORD_OPTIONS_H
#define CLI_RECORD_OPTIONS_H

#include "cli/flight.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/session.h>

struct record_options {
	const char **specs;
	pid_t *pids;
	size_t spec_count, pid_count, pid_room;
	char dir[PATH_MAX];
	char **command;	 /* NULL with -p */
	uint64_t for_ns; /* 0: no end */
	int json, verbose, tree, wait_all, compress;
	int is_default; /* no spec was given */
	int made_dir;	/* dir[] is the default name, and we made that folder */
	struct wm_session_options session;
	struct flight flight; /* --on; the caller that records releases it */
};

/*
 * Read the command line. Returns -1 when there is something to record, else the exit status to end
 * with, all being said. Release in either case; the texts stay argv's.
 */
int record_options_parse(struct record_options *options, int argc, char **argv);
void record_options_release(struct record_options *options);

#endif
