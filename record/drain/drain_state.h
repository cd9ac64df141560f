/* SPDX-License-Identifier: MIT */
/* The members of a drain, for drain.c and the files drain_*.c. */
#ifndef RECORD_DRAIN_DRAIN_STATE_H
#define RECORD_DRAIN_DRAIN_STATE_H

#include "record/drain/drain.h"
#include "record/drain/stream.h"
#include "target/process/ticks.h"

#include <stdint.h>

/* A page that may be taken. */
struct found {
	uint32_t tid, slot, page;
	uint64_t seq;
	uint64_t word, end_ticks; /* of an open page, the part to take; word 0: all of a page */
};

struct drain {
	struct mapping map;
	uint32_t pid;
	enum drain_reach reach;
	uint64_t next_instance;
	struct ticks_point born;
	struct stream *streams; /* one for each slot */
	struct stream homeless; /* of threads without a slot: tid 0 */
	uint32_t slots_named;	/* slots below this were in use at some time */
	struct found *found;
	uint32_t found_count;
	uint32_t parts_from;	      /* parts are taken from this tid on */
	struct drain_counts counts;   /* `discarded`: only of streams that have ended */
	uint64_t live_discarded;      /* of the other streams, at the last sweep */
	uint64_t children_due_ns;     /* when to look for dead children again, CLOCK_MONOTONIC */
	uint64_t shared_due_ns;	      /* when drain_is_shared() looks again */
	uint64_t shared_since_ns;     /* when it looked first */
	int is_shared;		      /* its last result */
	int is_unshared;	      /* drain_unshare() was called */
	uint64_t overwritten;	      /* the part of the store's count that streams count as lost */
	uint64_t overwritten_counted; /* the part that drain_count() includes */
};

/* The present stream of a slot; begins it if necessary. */
struct stream *drain_stream_of(struct drain *drain, uint32_t slot);

/* How many slots may have been used so far. */
uint32_t drain_slots_used(const struct drain *drain);

/* Find children that write here and have died (drain_share.c), at most every 20 ms unless `now`. */
void drain_look_at_children(struct drain *drain, int now);

/* Whether a slot belongs to a child that may still write; whether it belongs to a dead one. */
int drain_is_childs(const struct drain *drain, uint32_t slot);
int drain_is_left(const struct drain *drain, uint32_t slot);

/* Fill in the head of a packet without events, except its times. */
void packet_head(struct drain *drain, struct wm_packet *head, const struct stream *stream);

/*
 * Make a packet of a page. `word`, as wm_page's, says how much was written, and `end_ticks` up to
 * which time. Returns 0 if the page's content is invalid, else 1.
 */
int packet_of(struct drain *drain, struct stream *stream, const struct found *found, uint64_t word,
	      uint64_t end_ticks, struct drain_packet *packet);

/* The same, with the page's own word and end_ticks. */
int packet_of_page(struct drain *drain, struct stream *stream, const struct found *found,
		   struct drain_packet *packet);

static inline int is_cyclic(const struct drain *drain)
{
	return drain->map.policy == STORE_CYCLIC;
}

#endif
