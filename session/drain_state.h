/* SPDX-License-Identifier: MIT */
/* A drain's inside, for drain.c and drain_scan.c. */
#ifndef SESSION_DRAIN_STATE_H
#define SESSION_DRAIN_STATE_H

#include "session/drain.h"
#include "session/stream.h"
#include "process/ticks.h"

#include <stdint.h>

/* A page that may be taken. */
struct found {
	uint32_t tid, slot, unit;
	uint64_t seq;
	uint64_t word, end_ticks; /* of an open one whose part is to be taken; word 0: none */
};

struct drain {
	struct mapping map;
	uint32_t pid;
	enum drain_reach reach;
	uint64_t next_instance;
	struct ticks_point born;
	struct stream *streams; /* one for each slot */
	struct stream homeless; /* threads without a slot: tid 0 */
	uint32_t slots_named;	/* those up to here were in use at some time */
	struct found *found;
	uint32_t found_count;
	uint32_t parts_from;	    /* the thread whose turn it is */
	struct drain_counts counts; /* discarded: of streams that are over */
	uint64_t live_discarded;    /* of the others, at the last look */
	uint64_t children_due_ns;   /* of the next look at children of fork, CLOCK_MONOTONIC */
	uint64_t shared_due_ns;	    /* of the next look at whether they may write here */
	uint64_t shared_since_ns;   /* of the first */
	int is_shared;		    /* as the last one found */
	int is_unshared;	    /* drain_unshare() was called */
	uint64_t overwritten;	    /* of the store's count: what its streams have as lost by now */
	uint64_t overwritten_counted; /* of the store's count: what drain_count() counts by now */
};

/* What is known of a slot's present stream. */
struct stream *drain_stream_of(struct drain *drain, uint32_t slot);

/* Slots that may have been used so far. */
uint32_t drain_slots_used(const struct drain *drain);

/* See which children that write here are dead (drain_share.c), at most every few ms unless `now`. */
void drain_look_at_children(struct drain *drain, int now);

/* Whether a slot is of a child that may still write; whether it is one that can't any more. */
int drain_is_childs(const struct drain *drain, uint32_t slot);
int drain_is_left(const struct drain *drain, uint32_t slot);

/* The head of a packet without events; its times are the caller's. */
void packet_head(struct drain *drain, struct wm_packet *head, const struct stream *stream);

/*
 * Fill in a packet from a page, of which wm_page's `word` tells what is written and `end_ticks` until when. Returns 0
 * where the page can't be what it says.
 */
int packet_of(struct drain *drain, struct stream *stream, const struct found *found, uint64_t word,
	      uint64_t end_ticks, struct drain_packet *packet);

/* The same from a page as it is now. */
int packet_of_page(struct drain *drain, struct stream *stream, const struct found *found,
		   struct drain_packet *packet);

static inline int is_cyclic(const struct drain *drain)
{
	return drain->map.policy == STORE_CYCLIC;
}

#endif
