/* SPDX-License-Identifier: MIT */
/*
 * One register for two sessions. Each takes its own while there are free ones: only so does each have the kernel's count, which says what
 * was missed. When there are none, a session whose word another watches already is served by that one's events (abi/watch.h,
 * WATCH_SHARE): it is told of each hit, and what the other's count misses is told by the other.
 *
 * The events are the other's, and end with him. Then this session opens its own. What was stored in between is not known: from when
 * to when is told. If by then somebody else has taken the register, the watch is lost, and that is told.
 */
#ifndef SESSION_WATCH_SHARING_H
#define SESSION_WATCH_SHARING_H

#include "perf/object.h"
#include "session/watch/watches.h"

#include <stdint.h>

struct process;
struct wm_session;

/* Of one process; parts are the object's sources. Zeroed: nothing is shared. */
struct sharing {
	unsigned int shared; /* a bit for each part that another serves, or did */
	unsigned int due;    /* of them, those that are to be taken over */
	struct sharing_part {
		char holder[64];      /* "waymark 812"; "" where the ledger does not tell */
		int pidfd;	      /* his; -1: not to be had */
		uint64_t alive_ns[2]; /* that he lived: now and at the look before */
		uint64_t since_ns;    /* nothing is seen since then, CLOCK_MONOTONIC */
		uint64_t alone_ns;    /* when we heard of it */
		uint64_t tried_ns;
		uint64_t before; /* hits that were told when it was taken over */
	} parts[EVENT_SOURCES_MAX];
};

/*
 * The kernel had no register for an object: ask the agent which of its sources others serve, and leave those out of it. `numbers` are
 * their watches'. Steps the session. Returns how many they are; 0: it is not to be had; or an error that ends the connection.
 */
int sharing_begin(struct sharing *sharing, struct wm_session *session, struct process *process,
		  struct event_object *object, const uint32_t *numbers, unsigned int count);

/* The agent said that nobody serves this part any more. */
void sharing_alone(struct sharing *sharing, unsigned int part, uint64_t since_ns);

/* What became of one that was due. */
struct sharing_end {
	unsigned int part;
	int error;	 /* 0: we have events of our own; else nothing is watched any more */
	uint64_t gap_ns; /* that long, hits were not seen */
};

/*
 * Take over what is due. settle(data, part) is called with the program stopped where it can be: the value is to be read
 * anew. Returns 1 and *end, until there is no more: 0.
 */
int sharing_step(struct sharing *sharing, struct event_object *object,
		 int (*settle)(void *data, unsigned int part), void *data, struct sharing_end *end);

/* What of it is to be told: when a part is over, and at the watch's end of each that is or was shared. */
void sharing_over(const struct sharing_end *end, struct watched_spec *result);
void sharing_note(const struct sharing *sharing, unsigned int part, struct watched_spec *result);

void sharing_release(struct sharing *sharing);

#endif
