/* SPDX-License-Identifier: MIT */
/*
 * The store as seen from outside: a memfd that came over a socket, mapped.
 *
 * The traced program writes its contents, which may be anything. The layout is read once,
 * checked and copied here; no other code takes a size or an offset from the mapping.
 */
#ifndef TARGET_PROCESS_MAPPING_H
#define TARGET_PROCESS_MAPPING_H

#include "abi/page.h"

#include <stddef.h>

struct mapping {
	unsigned char *start; /* NULL: not mapped */
	size_t bytes;
	uint32_t slot_count, page_count;
	uint32_t policy, clock;
	struct wm_store *store;
	struct wm_slot *slots;
	uint32_t *taken;
	struct wm_page *pages;
	unsigned char *data;
};

/*
 * Map a store. The descriptor stays the caller's and may be closed afterwards. It must be sealed
 * against shrinking: else its holders could make every access fault. Returns 0, -errno, or
 * -WM_E_PROTOCOL where it is no store, or one of another version.
 */
int mapping_open(struct mapping *mapping, int fd);

/* Unmap; safe on a zeroed or half-built one. */
void mapping_release(struct mapping *mapping);

#endif
