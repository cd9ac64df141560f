/* SPDX-License-Identifier: MIT */
/*
 * A recording of several folders (cli/folders.h): which one is written, and when.
 *
 *	--last		the newest events stay in memory; a trigger (--on) has them written
 *	--rotate	all are written; after a time or a size the next folder begins
 */
#ifndef CLI_FOLDER_PLAN_H
#define CLI_FOLDER_PLAN_H

#include "cli/command_line.h"
#include "cli/folders.h"
#include "read/rows/render.h"

#include <stdint.h>

#define SNAPSHOTS_AN_HOUR_MAX 3600

struct progress;
struct wm_session;
struct wm_session_status;

struct folder_plan {
	uint64_t last_bytes, last_ns;	  /* --last; both 0: not given */
	uint64_t rotate_bytes, rotate_ns; /* --rotate; likewise */
	uint64_t per_hour;
	/* of --on: */
	int at_exit, at_crash; /* the program's */
	int signal;	       /* to waymark itself; 0: none */
	struct command_texts specs;
	/* so far: */
	struct folders folders;
	uint64_t begin_ns, begin_bytes; /* of the recording, when the present folder began */
	uint64_t hits_seen;
	int signals_seen;
	uint64_t taken_ns[SNAPSHOTS_AN_HOUR_MAX]; /* when the last snapshots were, in turn */
	uint64_t taken;
	uint64_t passed_over; /* triggers without a snapshot of their own */
	uint64_t failed;      /* snapshots that could not be written whole */
};

/* ---- the command line ---- */

/* Whether --last was given; whether that or --rotate was. */
int folder_plan_keeps(const struct folder_plan *plan);
int folder_plan_is_used(const struct folder_plan *plan);

/* Read what --last and --rotate are followed by. CLI_FINE, or CLI_USAGE, all being said. */
int folder_plan_read_last(struct folder_plan *plan, const char *text);
int folder_plan_read_rotate(struct folder_plan *plan, const char *text);

/* Read all that --on is followed by, and whether the options go with each other. The same. */
int folder_plan_check(struct folder_plan *plan, const struct command_texts *on, int has_command);

/* ---- the recording ---- */

/* Before the session is started: it gets its first folder, or memory. 0, or an error as it has. */
int folder_plan_begin(struct folder_plan *plan, struct wm_session *session);

/*
 * Write a snapshot, or begin the next folder, if that is due. Failures are printed, and the
 * recording continues. 0, or an error that ends it.
 */
int folder_plan_attend(struct folder_plan *plan, struct wm_session *session,
		       const struct wm_session_status *status, struct progress *progress);

/*
 * Do so at once, and give the folder's name. 0; an error; -EOPNOTSUPP: it has no folders to begin,
 * or keeps nothing to write.
 */
int folder_plan_ask(struct folder_plan *plan, struct wm_session *session, int is_rotation,
		    const char **name);

/*
 * Before the session stops: write the events in memory if they are wanted then, and always after an
 * error that ended the recording. 0 or an error.
 */
int folder_plan_end(struct folder_plan *plan, struct wm_session *session, int has_crashed,
		    int has_error);

/* The closing words on stderr: where the traces are, what was not written. */
void folder_plan_sum_up(const struct folder_plan *plan, const struct wm_session *session,
			int has_error);

/* As a table of one row, or of none where it is not used. */
void folder_plan_rows(struct rows *rows, const struct folder_plan *plan);

/* After the session: unlock the folder. `is_given_up`: nothing was recorded, and nothing stays. */
void folder_plan_release(struct folder_plan *plan, int is_given_up);

#endif
