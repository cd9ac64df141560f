/* SPDX-License-Identifier: MIT */
/*
 * One debug register for two sessions. Each session takes a register of its own while one is free,
 * since only then does it have the kernel's count, which shows what was missed. When none is free,
 * and another session already watches the same word, that session's events serve this one too
 * (abi/watch.h, WATCH_SHARE). The agent then reports each hit to both, and only the other session
 * knows what was missed.
 *
 * The events belong to the other session and end with it. Then this session opens its own. It
 * reports the gap, since stores in the gap are unknown. If a third party has taken the register by
 * then, the watch is lost, and the session reports that.
 */
#ifndef SESSION_WATCH_SHARING_H
#define SESSION_WATCH_SHARING_H

#include "perf/object.h"
#include "session/watch/watches.h"

#include <stdint.h>

struct process;
struct wm_session;

/* Of one object of a process; a part is one of the object's sources. Zeroed: nothing is shared. */
struct sharing {
	unsigned int shared; /* a bit for each part that another session serves, or did */
	unsigned int due;    /* of these, the parts that this session has to take over */
	struct sharing_part {
		char holder[64]; /* "waymark 812"; "": not in the ledger */
		int pidfd;	 /* of the holder; -1: none could be opened */
		/* the last two times that we saw the holder alive, the newest first */
		uint64_t alive_ns[2];
		uint64_t since_ns; /* no hit was seen from then on, CLOCK_MONOTONIC */
		uint64_t alone_ns; /* when we learned of it; 0: not yet */
		uint64_t tried_ns;
		uint64_t before; /* hits reported before we took over */
	} parts[EVENT_SOURCES_MAX];
};

/*
 * The kernel had no register for an object. Ask the agent which of its sources other sessions
 * serve, and have the object open no events for those. `numbers` are their rows. Steps the session.
 * Returns how many are served; 0: none; or an error that ends the connection.
 */
int sharing_begin(struct sharing *sharing, struct wm_session *session, struct process *process,
		  struct event_object *object, const uint32_t *numbers, unsigned int count);

/* The agent reports that no session serves this part any more. */
void sharing_alone(struct sharing *sharing, unsigned int part, uint64_t since_ns);

/* The result of taking over a part. */
struct sharing_end {
	unsigned int part;
	int error;	 /* 0: we have our own events; else nothing watches it any more */
	uint64_t gap_ns; /* for that long, no hit was seen */
};

/*
 * Try to take over one of the parts that are due. event_object_take_over() calls settle(data,
 * part), with the program stopped where possible, to read the value again. Returns 1 with *end when
 * a part is done: then call it again; 0 if none is.
 */
int sharing_step(struct sharing *sharing, struct event_object *object,
		 int (*settle)(void *data, unsigned int part), void *data, struct sharing_end *end);

/* Note in *result how a takeover ended; and, at the watch's end, that a part is or was shared. */
void sharing_over(const struct sharing_end *end, struct watched_spec *result);
void sharing_note(const struct sharing *sharing, unsigned int part, struct watched_spec *result);

void sharing_release(struct sharing *sharing);

#endif
