/* SPDX-License-Identifier: MIT */
/*
 * Programs that recorded processes executed, or had executed, and that run unrecorded: the agent can't
 * come into them. They are looked for when a process hangs up, and now and then; one that ended before a look
 * is not known of. A caller that could not attach to a descendant adds it.
 */
#ifndef SESSION_UNRECORDED_H
#define SESSION_UNRECORDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
	} * counted; /* processes that are in it, so that each is counted once */
	size_t counted_count, counted_room;
	uint64_t due_ns; /* of the next look */
};

/* Look, if it is due or `now`. Errors are ignored: more than this can't be said then. */
void unrecorded_look(struct wm_session *session, int now);

/* A process that can't be recorded, and why; `detail` may be "". */
void unrecorded_add(struct unrecorded_list *list, pid_t pid, int error, const char *detail);

void unrecorded_release(struct unrecorded_list *list);

#endif
