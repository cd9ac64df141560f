/* SPDX-License-Identifier: MIT */
/*
 * What a drain knows of a slot's present stream: its position, and its losses. It is private
 * memory, so that the program can't change it.
 *
 * With the cyclic policy, losses are counted here and not where a page is overwritten (abi/page.h).
 * `at` is the number of the stream's events that are accounted for, recorded or lost. If a page
 * begins past `at`, the events between were overwritten. When all pages were taken, the slot's
 * `written` shows the rest in the same way.
 */
#ifndef RECORD_DRAIN_STREAM_H
#define RECORD_DRAIN_STREAM_H

#include "abi/page.h"

#include <stdint.h>

struct stream {
	uint64_t instance; /* 0: the slot has not been seen in use */
	uint64_t next_seq;
	uint64_t last_ticks;
	uint64_t discarded; /* the slot's count; it never decreases */
	uint64_t lost;	    /* events of pages that were overwritten or could not be handed on */
	uint64_t reported;  /* discarded + lost, as the last packet has it */
	uint64_t delivered; /* events of the page next_seq that peeks handed out */
	uint64_t at;	    /* cyclic policy: events accounted for */
	/* the page that was written in parts, and up to what time */
	uint64_t part_seq, part_ticks;
	uint32_t part_bytes, part_events; /* how much was written of it */
	/* packets without a page, and further parts of one: added to the pages' sequence numbers */
	uint32_t shift;
	uint32_t pid; /* of a forked child; 0: of the process that has the store */
	uint32_t tid, depth;
	uint8_t is_dead; /* that child has died */
	uint8_t waited;
	uint8_t begun; /* one of its packets was handed on */
	uint8_t kept;  /* one of its pages was left in place for the next read */
};

/* All its losses that are known so far. */
static inline uint64_t stream_losses(const struct stream *stream)
{
	return stream->discarded + stream->lost;
}

/* Begin a stream: take the thread's data from the slot. `instance` is its number in the trace. */
void stream_begin(struct stream *stream, const struct wm_slot *slot, uint64_t instance);

/* Read the slot's count of losses, or the store's for threads without a slot. */
void stream_count(struct stream *stream, const uint64_t *discarded);

/*
 * Cyclic policy: all events up to `position` are taken or overwritten. Count those past `at` as
 * lost, and return how many they are.
 */
uint64_t stream_skip(struct stream *stream, uint64_t position);

/*
 * Cyclic policy: a page with that many events was taken; `before` of the stream's events precede
 * it.
 */
void stream_pass(struct stream *stream, uint64_t before, uint64_t events);

#endif
