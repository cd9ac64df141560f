/* SPDX-License-Identifier: MIT */
/*
 * Make packets of the store's pages.
 *
 * In one pass, drain_scan() finds the pages that may be taken. Then the caller reads the agent's
 * messages, so that it knows every event id in those pages. Then drain_take() hands the pages on as
 * packets, stream by stream in the order of their sequence numbers, and frees their memory.
 *
 * With the cyclic policy the store is a flight recorder: nothing is taken before DRAIN_ALL. Earlier
 * passes free the slots of threads that have ended, and close the pages of children that have died.
 *
 * One thread at a time may use a drain.
 */
#ifndef RECORD_DRAIN_DRAIN_H
#define RECORD_DRAIN_DRAIN_H

#include "target/process/mapping.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum drain_reach {
	DRAIN_READY, /* full pages; the program runs */
	/*
	 * also the present content of open pages, as separate packets: it survives if the tool is
	 * killed
	 */
	DRAIN_PARTS,
	DRAIN_PEEK, /* also the present content of open pages, which stay the writer's */
	/* no thread writes any more: the agent said that it is quiet, or the process is dead */
	DRAIN_ALL,
};

/* One packet, valid during the callback. */
struct drain_packet {
	/* without magic, uuid, stream_id and the two sizes: the receiver fills these in */
	struct wm_packet *head;
	const void *content; /* in the shared mapping, so it may change during a read */
	size_t bytes;
	uint64_t events;     /* as the writer counts; not verified */
	uint64_t *delivered; /* how many events of this page peeks have handed out */
	int keep;	     /* a peek's receiver sets it to have the page kept for the next time */
};

/*
 * Receives packets. Returns 0, or a negative error: then the events count as discarded, and the
 * page is freed all the same, so that the program does not stall.
 */
struct drain_sink {
	int (*packet)(struct drain_packet *packet, void *data);
	void *data;
};

/* Counts so far. After drain_finish(), recorded + discarded is what the program emitted. */
struct drain_counts {
	uint64_t recorded, discarded, bytes;
	uint64_t damaged; /* pages with invalid content */
	/* of the discarded, those that a larger buffer would or might have held */
	uint64_t crowded_out;
	uint64_t rejected;   /* hits whose predicates do not hold */
	uint64_t unreadable; /* of these, those where a text of a predicate can't be read */
	uint32_t children;   /* forked children that may have written to this store */
};

struct drain;

/* Map a store. The caller still owns `fd`. Returns 0, -errno or -WM_E_PROTOCOL. */
int drain_new(struct drain **drain, int fd, uint32_t pid);
void drain_free(struct drain *drain); /* NULL is allowed */

/* Find the pages that can be taken. Returns how many. */
int drain_scan(struct drain *drain, enum drain_reach reach);

/* Whatever is left goes with the next pass. Before the last one. */
void drain_expect_end(struct drain *drain);

/* Hand on the pages of the last scan. Returns the number of packets, or the sink's first error. */
int drain_take(struct drain *drain, const struct drain_sink *sink);

/*
 * After a DRAIN_ALL pass: write a packet with the unreported losses of each stream. Returns 0 or
 * the sink's first error.
 */
int drain_finish(struct drain *drain, const struct drain_sink *sink);

/*
 * A forked child writes to its parent's store until it has one of its own (abi/page.h). Allow that
 * to new children, or forbid it.
 */
void drain_share(struct drain *drain);
void drain_unshare(struct drain *drain);

/* Whether a fork has not returned in the child yet. */
int drain_is_forking(const struct drain *drain);

/*
 * Whether a forked child may still write here; once it returns 0, none ever will. Call it when the
 * process itself has stopped writing. `maps` says whether a child has the store mapped; it is
 * called for children that are alive.
 */
int drain_is_shared(struct drain *drain, int (*maps)(pid_t pid, void *data), void *data);

/*
 * The number of children that neither write here nor have reached us, and why the last one has not.
 */
uint32_t drain_unreached(const struct drain *drain, int *error);

/* The handler (abi/handler.h) that a thread runs, or ran when the process died; 0: none. */
uint32_t drain_handler(const struct drain *drain);

void drain_count(const struct drain *drain, struct drain_counts *counts);
void drain_count_add(const struct drain *drain, struct drain_counts *to); /* to what is there */

/*
 * Events that drain_count() does not count yet: those in the store and, with the cyclic policy,
 * those overwritten since the last pass. A momentary value, for display.
 */
uint64_t drain_held(const struct drain *drain);

/* Events in the store that no live reader (DRAIN_PEEK) was given. */
uint64_t drain_unread(const struct drain *drain);

/* How many bytes of the store are in use, and how many it has. */
uint64_t drain_used_bytes(const struct drain *drain);
uint64_t drain_buffer_bytes(const struct drain *drain);

/* The clock of its events' times (enum store_clock). */
uint32_t drain_clock(const struct drain *drain);

#endif
