/* SPDX-License-Identifier: MIT */
/*
 * What a drain knows of a slot's present stream, private so that the program can't bend it: where it
 * stands, and what was lost.
 *
 * The flight recorder's losses are counted here, not where a page is overwritten (abi/page.h): `at` is
 * how many of the stream's events are accounted for, as recorded or as lost. A page that begins past it
 * shows that what lies between was overwritten; so does the slot's `written` once all pages were taken.
 */
#ifndef SESSION_STREAM_H
#define SESSION_STREAM_H

#include "abi/page.h"

#include <stdint.h>

struct stream {
	uint64_t instance; /* 0: the slot was not seen in use */
	uint64_t next_seq;
	uint64_t last_ticks;
	uint64_t discarded; /* the slot's count, never less than before */
	uint64_t lost;	    /* events of pages that were overwritten, or could not be handed on */
	uint64_t told;	    /* discarded + lost, as the last packet says */
	uint64_t delivered; /* events of the page next_seq that a peek handed out */
	uint64_t at;	    /* cyclic policy: events accounted for */
	uint64_t part_seq, part_ticks;	  /* the page whose beginning was written, up to when */
	uint32_t part_bytes, part_events; /* how much of it */
	uint32_t shift; /* packets that are no pages, or further parts of one: the pages' numbers follow them */
	uint32_t pid; /* a child's of fork; 0: of the process whose store it is */
	uint32_t tid, depth;
	uint8_t is_dead; /* that child is, or has executed something */
	uint8_t waited;
	uint8_t begun; /* a packet of it was handed on */
	uint8_t kept;  /* a page of it was left where it is, for the next read */
};

/* All that is known so far. */
static inline uint64_t stream_losses(const struct stream *stream)
{
	return stream->discarded + stream->lost;
}

/* Begin: what the slot says of the thread, and a number for the trace. */
void stream_begin(struct stream *stream, const struct wm_slot *slot, uint64_t instance);

/* Read a slot's count, or the store's for threads without one. */
void stream_count(struct stream *stream, const uint64_t *discarded);

/*
 * Cyclic policy: the events up to `position` are no more to come; those past `at` were overwritten.
 * Returns how many they are.
 */
uint64_t stream_skip(struct stream *stream, uint64_t position);

/* Cyclic policy: a page with so many events was taken, whose first is the stream's `before`th. */
void stream_pass(struct stream *stream, uint64_t before, uint64_t events);

#endif
