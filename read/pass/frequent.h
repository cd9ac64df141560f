/* SPDX-License-Identifier: MIT */
/*
 * The most frequent keys of a long sequence, in bounded memory: a key that makes up more than one
 * in FREQUENT_MAX of all additions is kept. A new key takes the place of the rarest one; `count`
 * continues from that one's, and `over` is the part that may not be its own ("space saving",
 * Metwally 2005).
 */
#ifndef READ_PASS_FREQUENT_H
#define READ_PASS_FREQUENT_H

#include <stddef.h>
#include <stdint.h>

#define FREQUENT_MAX 32

struct frequent_entry {
	uint64_t value; /* with `of`, the key */
	uint32_t of;
	uint64_t count, over;	/* it was added count - over times or more, count times at most */
	uint64_t preempted, ns; /* the caller's sums since the key was added */
	uint64_t first_ns;	/* the caller's time of the first addition */
};

/* Zeroed: empty. */
struct frequent {
	struct frequent_entry *all;
	size_t count, room;
	uint64_t total;
};

/* Count `weight` more. NULL: no memory. Valid until the next call. */
struct frequent_entry *frequent_add(struct frequent *frequent, uint64_t value, uint32_t of,
				    uint64_t weight);

/* NULL: it isn't kept. */
struct frequent_entry *frequent_find(const struct frequent *frequent, uint64_t value, uint32_t of);

/* How often it was added, at least. */
static inline uint64_t frequent_least(const struct frequent_entry *entry)
{
	return entry->count - entry->over;
}

/* Put the most frequent first. */
void frequent_sort(struct frequent *frequent);

void frequent_release(struct frequent *frequent);

#endif
