/* SPDX-License-Identifier: MIT */
/*
 * From the store's pages to packets.
 *
 * One pass is: drain_scan() finds the pages that may be taken; the caller then reads the agent's
 * messages, so that it knows every event id that stands in them; drain_take() hands them on as
 * packets, stream by stream in the order of their sequence numbers, and gives their memory back.
 *
 * Under the cyclic policy the store is a flight recorder: nothing is taken before DRAIN_ALL.
 *
 * A drain belongs to one thread at a time.
 */
#ifndef SESSION_DRAIN_H
#define SESSION_DRAIN_H

#include "process/mapping.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum drain_reach {
	DRAIN_READY, /* pages that are full; the program runs */
	DRAIN_PARTS, /* as well, as packets of their own, what open ones hold so far: should we be killed, it is kept */
	DRAIN_PEEK, /* as well what stands so far in open ones, which stay the writer's */
	/* nobody writes any more: the agent said that it is quiet, or the process is dead */
	DRAIN_ALL,
};

/* One packet; valid during the call. */
struct drain_packet {
	/* magic, uuid, stream_id and the two sizes are left for the receiver */
	struct wm_packet *head;
	const void *content; /* in the shared mapping: it may change while it is read */
	size_t bytes;
	uint64_t events;     /* as the writer says */
	uint64_t *delivered; /* events of this page that a peek has handed out before */
	int keep;	     /* set by a peek's receiver that hasn't had all: the page stays */
};

/*
 * Receives packets. Returns 0 or negative; then the page is given back, its events count as
 * discarded, and the pass goes on so that the program doesn't stall.
 */
struct drain_sink {
	int (*packet)(struct drain_packet *packet, void *data);
	void *data;
};

/* What came out so far. recorded + discarded is what the program emitted, after drain_finish(). */
struct drain_counts {
	uint64_t recorded, discarded, bytes;
	uint64_t damaged; /* pages that made no sense */
	uint64_t crowded_out; /* of the discarded, those that a larger buffer would have held, or might */
	uint32_t children; /* of fork, that may have written to this store */
};

struct drain;

/* Map a store and watch it. The descriptor stays the caller's. 0, -errno or -WM_E_PROTOCOL. */
int drain_new(struct drain **drain, int fd, uint32_t pid);
void drain_free(struct drain *drain); /* NULL is allowed */

/* Find what can be taken. Returns the number of pages. */
int drain_scan(struct drain *drain, enum drain_reach reach);

/* Hand on what the last scan found. Returns the number of packets or the first error of the sink. */
int drain_take(struct drain *drain, const struct drain_sink *sink);

/*
 * After a DRAIN_ALL pass: write down the losses of every stream that its packets don't tell yet.
 * 0 or the first error of the sink.
 */
int drain_finish(struct drain *drain, const struct drain_sink *sink);

/*
 * Children of fork write to their parent's store until they have one of their own (abi/page.h). Let them no more, or again.
 */
void drain_share(struct drain *drain);
void drain_unshare(struct drain *drain);

/* Whether a fork has yet to return in the child. */
int drain_is_forking(const struct drain *drain);

/*
 * Call this once the process itself has stopped writing. Returns whether a child may still write; after 0 no child will.
 * `maps` returns whether a process has the store mapped. It is called for children that are alive.
 */
int drain_is_shared(struct drain *drain, int (*maps)(pid_t pid, void *data), void *data);

/* Children that neither write to it nor have reached us: how many, and why the last one has not. */
uint32_t drain_unreached(const struct drain *drain, int *error);

void drain_count(const struct drain *drain, struct drain_counts *counts);

/*
 * Events that drain_count() does not count yet: those that the store holds, and by the cyclic policy those
 * that were overwritten since the last pass. A moment's figure, for people to look at.
 */
uint64_t drain_held(const struct drain *drain);

/* Events of the store that no live reader (DRAIN_PEEK) has had. */
uint64_t drain_unread(const struct drain *drain);

/* Bytes of the store that are in use, and all of them. */
uint64_t drain_used_bytes(const struct drain *drain);
uint64_t drain_buffer_bytes(const struct drain *drain);

/* The clock that its events are stamped with (enum store_clock). */
uint32_t drain_clock(const struct drain *drain);

#endif
