/* SPDX-License-Identifier: MIT */
/* A hit as the handler's own parts see it. */
#ifndef AGENT_WATCH_TAKE_OWN_H
#define AGENT_WATCH_TAKE_OWN_H

#include "agent/watch/take.h"
#include "agent/watch/written.h"

/* One signal. */
struct hit {
	ucontext_t *context;
	struct written written;
	int is_told; /* `written` is */
	int is_late;
	uintptr_t met; /* what was watched, as the kernel says; 0: it does not */
	uint8_t generation;
	uintptr_t ip, sp;
	uint16_t how;
};

/* What one watch makes of it. */
struct seen {
	uint64_t old, now, ticks;
	uint16_t how;
};

/* What stood there before and what does now; the next hit's old value is this one's new. Hit path. */
void take_link_in(const struct hit *hit, const struct watch_entry *entry, struct seen *seen);

#endif
