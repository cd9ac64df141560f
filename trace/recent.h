/* SPDX-License-Identifier: MIT */
/*
 * The newest packets of a recording, kept in memory: those of the last so many bytes or seconds.
 * One thread at a time; but who holds packets may read them in another.
 */
#ifndef TRACE_RECENT_H
#define TRACE_RECENT_H

#include "trace/destination.h"

#include <stddef.h>
#include <stdint.h>

struct recent_packet {
	struct recent_chunk *chunk; /* which has it */
	uint32_t events;
	uint64_t came_ns; /* CLOCK_MONOTONIC; its events are up to a second older */
	struct packet_step step;
	size_t bytes;
	struct wm_packet head;
	unsigned char content[];
};

/* Memory for many packets. */
struct recent_chunk {
	struct recent_chunk *next; /* while it is spare */
	size_t holders;		   /* its packets, each as often as it is held; and who fills it */
	size_t used, bytes;
};

struct recent_packets {
	struct recent_packet **all; /* the oldest first */
	size_t count, room;
};

/* CLOCK_MONOTONIC. */
uint64_t recent_now_ns(void);

struct recent {
	uint64_t bytes_max, age_ns_max; /* 0: any */
	struct recent_packets packets;	/* from `first` on; those before have gone */
	size_t first;
	uint64_t bytes;
	struct recent_chunk *filled; /* the present one; NULL: none */
	struct recent_chunk *spare;
	unsigned int spare_count;
};

/* Take a packet in, and drop what is too old or too much. 0 or -ENOMEM. */
int recent_add(struct recent *recent, const struct wm_packet *head, const struct packet_step *step,
	       const void *content, size_t bytes, uint32_t events);

/* Drop what is too old. Returns when the oldest packet came, by recent_now_ns(), or 0. */
uint64_t recent_trim(struct recent *recent);

/* Hold all that is there: recent_let_go() releases it. 0 or -ENOMEM. */
int recent_hold(const struct recent *recent, struct recent_packets *held);
void recent_let_go(struct recent_packets *held);

/* Write them all, in order. 0, or the first error, behind which none is written. */
int recent_write(const struct recent_packets *held, struct destination *folder);

void recent_free(struct recent *recent); /* NULL is allowed */

#endif
