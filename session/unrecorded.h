/* SPDX-License-Identifier: MIT */
/*
 * Programs that recorded processes executed, or had executed, and that run unrecorded. Either the agent reports that it
 * can't work in them, or it can't come into them: these are looked for when a process hangs up, and now and then, and
 * one that ended before a look is not known of.
 */
#ifndef SESSION_UNRECORDED_H
#define SESSION_UNRECORDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process;
struct wm_session;

struct unrecorded {
	char *program; /* path; its name where that may not be read */
	char *detail;  /* of the first process; NULL: none */
	int error;     /* why */
	uint64_t processes;
};

/* Zeroed is empty. */
struct unrecorded_list {
	struct unrecorded *all;
	size_t count, room;
	struct unrecorded_process {
		pid_t pid;
		uint64_t start_time;
		size_t entry; /* of `all` */
	} * counted;	      /* processes that are in it, so that each is counted once */
	size_t counted_count, counted_room;
	uint64_t due_ns; /* of the next look */
};

/* Look, if it is due or `now`. Errors are ignored: more than this can't be said then. */
void unrecorded_look(struct wm_session *session, int now);

/*
 * A process that can't be recorded, and why: the agent reported it, or a caller could not attach. `program` NULL: what the
 * process runs, unless it has ended. `detail` may be "".
 */
void unrecorded_add(struct wm_session *session, pid_t pid, const char *program, int error,
		    const char *detail);

/*
 * Add a process whose connection the session has closed, since it can't read what comes there. End
 * its watches.
 */
void unrecorded_add_dropped(struct wm_session *session, struct process *process, int error);

/* Add a process's forked children that neither shared its store nor reached the tool. Once, when its store is finished. */
void unrecorded_add_unreached(struct wm_session *session, const struct process *parent);

void unrecorded_release(struct unrecorded_list *list);

#endif
