/* SPDX-License-Identifier: MIT */
/*
 * A store with the layout of an agent's, filled by hand: for tests and benchmarks of the tool's
 * side.
 */
#ifndef RECORD_SESSION_TESTING_STORE_H
#define RECORD_SESSION_TESTING_STORE_H

#include "abi/page.h"

#include <stddef.h>

struct sample_store {
	int fd;
	size_t bytes;
	struct wm_store *head;
	struct wm_slot *slots;
	uint32_t *taken;
	struct wm_page *pages;
	unsigned char *data;
};

/* Make a sealed store; a failure aborts the test. */
void sample_store_make(struct sample_store *store, uint32_t slots, uint32_t pages, uint32_t policy);
void sample_store_release(struct sample_store *store);

/* FREE -> LIVE */
void sample_store_slot(struct sample_store *store, uint32_t slot, uint32_t tid, uint32_t depth);

/*
 * Take a page for a slot: in state OPEN, with the slot's next sequence number, without events.
 */
struct wm_page *sample_store_page(struct sample_store *store, uint32_t number, uint32_t slot);

/* OPEN -> FULL */
void sample_store_close(struct sample_store *store, struct wm_page *page);

/* Write an event without fields: a compact header with id and time. */
void sample_store_event(struct sample_store *store, struct wm_page *page, uint32_t id,
			uint64_t ticks);

#endif
