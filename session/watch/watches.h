/* SPDX-License-Identifier: MIT */
/* What a session's watches came to, by their specs. */
#ifndef SESSION_WATCH_WATCHES_H
#define SESSION_WATCH_WATCHES_H

#include "abi/watch.h"
#include "code/watch/type.h"

#include <stddef.h>
#include <stdint.h>

struct wm_session;

/* All processes and all pieces together. */
struct watch_counts {
	uint64_t hits;	   /* as the kernel counted */
	uint64_t taken;	   /* of them by the agent: recorded, or filtered, counted, own */
	uint64_t filtered; /* of those taken: no event, as a condition says */
	uint64_t counted;  /* no event, as `count` says */
	uint64_t own;	   /* no event, since it was the agent's own doing */
	uint64_t dropped;  /* outside of the time that the watch was armed */
	uint64_t missed;   /* neither taken nor dropped */
	uint64_t late;	   /* of those taken: told when SIGTRAP was let through again */
	uint64_t inexact;  /* whose new value is what memory had then */
	uint64_t shared;
};

/* Of the spec with the same place in the session's list. */
struct watched_spec {
	struct watch_counts counts;
	unsigned int processes; /* that it was armed in */
	unsigned int threads;	/* opened on, in the last */
	unsigned int pieces;	/* debug registers */
	uint64_t address;	/* in the last process */
	uint64_t bytes;
	int is_traced;			     /* it was taken away, as a debugger came */
	int lost;			     /* why it was taken away; 0: it was not */
	unsigned int callers_asked, callers; /* more than can be told were asked for */
	struct watch_type type; /* of its values; no nodes: not known */
};

/* NULL where a spec is no watch, or none was armed. */
const struct watched_spec *watches_of(const struct wm_session *session, size_t spec);

/* Let go of all of a session's. */
void watches_release(struct wm_session *session);

/* Those that are armed now are added to, too. */
void watches_count(const struct wm_session *session, size_t spec, struct watch_counts *counts);

#endif
