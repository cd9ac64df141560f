/* SPDX-License-Identifier: MIT */
/* What a session's watches came to, by their specs. */
#ifndef SESSION_WATCH_WATCHES_H
#define SESSION_WATCH_WATCHES_H

#include "abi/watch.h"
#include "code/watch/type.h"

#include <stddef.h>
#include <stdint.h>

struct wm_session;

/* Of a local variable: how often its function began, and of those times */
struct watch_frames {
	uint64_t entered;
	uint64_t watched;
	uint64_t busy;	  /* no debug register was free */
	uint64_t late;	  /* this process did not arm it in time */
	uint64_t unended; /* its end could not have been seen */
	/* hits that are not told, among the dropped */
	uint64_t over;	  /* the frame was gone */
	uint64_t outside; /* the variable was not there just then */
	uint64_t unsure;  /* whether it was, nobody can tell */
};

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
	struct watch_frames frames;
};

/* Of one spec. */
struct watched_spec {
	char *text;  /* as given */
	int is_code; /* who runs it, not who writes it */
	struct watch_counts counts;
	unsigned int processes; /* that it was armed in */
	unsigned int threads;	/* opened on, in the last */
	unsigned int pieces;	/* debug registers */
	uint64_t address;	/* in the last process */
	uint64_t bytes;
	int is_local;
	unsigned int frames; /* of a local variable: how many at once, at most */
	int unlooked; /* why frames that lived when it was armed may not have been found; 0: they were */
	int lost;			     /* why it was taken away; 0: it was not */
	unsigned int callers_asked, callers; /* more than can be told were asked for */
	struct watch_type type;		     /* of its values; no nodes: not known */
};

/* Each has the place that its spec has in the session's list; those that are no watches are empty. */
struct watched_list {
	struct watched_spec *all;
	size_t count;
};

void watched_list_release(struct watched_list *list);

/* NULL where a spec is no watch, or was armed nowhere. */
const struct watched_spec *watches_of(const struct watched_list *list, size_t spec);

/* One row's, of which the kernel has counted so many. */
void watch_counts_add(struct watch_counts *to, const struct watch_row *row, uint64_t hits);

/* Those that are armed now are added to, too. */
void watches_count(const struct wm_session *session, size_t spec, struct watch_counts *counts);

#endif
