/* SPDX-License-Identifier: MIT */
/*
 * `waymark record --last`: the newest events are kept in memory, and written when a trigger (--on)
 * comes, each time to a new folder (cli/folders.h).
 */
#ifndef CLI_SNAPSHOTS_H
#define CLI_SNAPSHOTS_H

#include "cli/command_line.h"
#include "read/rows/render.h"

#include <stdint.h>

#define SNAPSHOTS_AN_HOUR 60	   /* at most, by default */
#define SNAPSHOTS_BYTES (1u << 30) /* of memory, where --last is a time alone */
#define SNAPSHOTS_AN_HOUR_MAX 3600

struct folders;
struct wm_session;

struct snapshots {
	uint64_t last_bytes, last_ns; /* --last; both 0: not given */
	uint64_t per_hour;
	/* of --on: */
	int at_exit, at_crash; /* the program's */
	int signal;	       /* to waymark itself; 0: none */
	struct command_texts specs;
	/* so far: */
	uint64_t hits_seen;
	int signals_seen;
	uint64_t taken_ns[SNAPSHOTS_AN_HOUR_MAX]; /* when the last ones were, in turn */
	uint64_t taken;
	uint64_t passed_over; /* triggers without a snapshot of their own */
	uint64_t failed;      /* snapshots that could not be written whole */
};

/*
 * Read a time, or a size of 1 MiB or more: a size if its last letter is in upper case. 0, or
 * a negative error; what is not read stays as it was.
 */
int snapshots_read_limit(const char *text, uint64_t min_ns, uint64_t *ns, uint64_t *bytes);

/* Read what --last is followed by: a time or a size. CLI_FINE, or CLI_USAGE, all being said. */
int snapshots_read_last(struct snapshots *snapshots, const char *text);

/* Read all that --on is followed by. The same. */
int snapshots_read_on(struct snapshots *snapshots, const struct command_texts *on, int has_command);

/* Before the session is started: add the triggers. 0 or an error, about which its detail is. */
int snapshots_begin(struct snapshots *snapshots, struct wm_session *session);

/* What came since the last call; NULL: nothing that a snapshot is due for. */
const char *snapshots_due(struct snapshots *snapshots, const struct wm_session *session);

/*
 * Write one, and say so on stderr, or why not; the recording continues. 0 or the
 * error.
 */
int snapshots_write(struct snapshots *snapshots, struct folders *folders,
		    struct wm_session *session, const char *why);

/* Whether what is left is to be written at the end. */
int snapshots_at_end(const struct snapshots *snapshots, int has_crashed);

#endif
