/* SPDX-License-Identifier: MIT */
/*
 * A chain only grows, in the order in which its members came, and a link that stands stays: so a thread
 * that is anywhere in it comes to its end, with the moved instructions run once. Who isn't wanted has no
 * plan, and costs little.
 */
#include "agent/detour/detour.h"

#include <waymark/error.h>

#include <string.h>

#define REACH_MAX (INT32_MAX - 2 * DETOUR_CODE_MAX)

static int is_fellow(const struct control_detour *a, const struct control_detour *b)
{
	size_t bytes = detour_owned(a) + (a->relay ? DETOUR_RELAY_BYTES : 0);

	return a->address == b->address && a->span_bytes == b->span_bytes &&
	       detour_same_points(a, b) && a->relay == b->relay && a->pun == b->pun &&
	       a->tier == b->tier && a->link_at && b->link_at &&
	       !memcmp(a->original, b->original, bytes);
}

struct detour *chain_find(const struct control_detour *record)
{
	struct detour *detour = table_at(record->address);

	while (detour && !(detour->head == detour && is_fellow(detour->record, record)))
		detour = detour->next_in_bucket;
	return detour;
}

int chain_join(struct detour *head, struct detour *detour)
{
	unsigned int count = 0;

	for (const struct detour *d = head; d; d = d->next_member) {
		int64_t far = (int64_t)(detour->code - d->code);

		if (far > REACH_MAX || far < -REACH_MAX)
			return -WM_E_DETOUR_REACH;
		count++;
	}
	if (count >= DETOUR_CHAIN_MAX)
		return -WM_E_DETOUR_TAKEN;
	detour->head = head;
	return 0;
}
