/* SPDX-License-Identifier: MIT */
/*
 * Programs that run unrecorded, though a recorded process or a descendant of one executed them.
 * Either the agent reports that it can't work in them, or it can't be loaded into them. The session
 * looks for the latter when a process hangs up, and at intervals. It misses one that ended before a
 * look.
 */
#ifndef RECORD_SESSION_UNRECORDED_H
#define RECORD_SESSION_UNRECORDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process;
struct wm_session;

struct unrecorded {
	char *program; /* its path, or its name if the path may not be read */
	char *detail;  /* about the first process; NULL: none */
	int error;     /* the reason */
	uint64_t processes;
};

/* Zeroed is empty. */
struct unrecorded_list {
	struct unrecorded *all;
	size_t count, room;
	struct unrecorded_process {
		pid_t pid;
		uint64_t start_time;
		size_t entry; /* its number in `all` */
	} * counted;	      /* the processes, so that each counts once */
	size_t counted_count, counted_room;
	uint64_t due_ns; /* when to look again */
	/* processes of further programs: there are too many, or there was no memory for the name */
	uint64_t unnamed;
};

#define UNRECORDED_UNNAMED "programs whose names were not kept"

/* Look for such programs, if it is time or `now`. Ignores errors: then some are not found. */
void unrecorded_look(struct wm_session *session, int now);

/*
 * Add a process that can't be recorded: the agent reported it, or a caller could not attach.
 * `program` NULL: the program that the process runs, unless it has ended. `detail` may be "".
 */
void unrecorded_add(struct wm_session *session, pid_t pid, const char *program, int error,
		    const char *detail);

/*
 * Add a process's forked children that neither shared its store nor reached us. Call it once, when
 * its store is finished.
 */
void unrecorded_add_unreached(struct wm_session *session, const struct process *parent);

void unrecorded_release(struct unrecorded_list *list);

#endif
