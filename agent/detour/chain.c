/* SPDX-License-Identifier: MIT */
/*
 * A chain only grows, in the order in which its members came, and a link that stands stays: so a thread
 * that is anywhere in it comes to its end, with the moved instructions run once. Who isn't wanted has no
 * plan, and costs little.
 */
#include "agent/detour/detour.h"

#include <waymark/error.h>

#include <string.h>

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

static int is_host(const struct detour *detour, const struct control_detour *record)
{
	const struct control_detour *there = detour->record;

	return detour->head == detour && there->link_at &&
	       there->address < record->address + detour_owned(record) &&
	       there->address + detour_owned(there) > record->address &&
	       record->point >= there->address &&
	       detour_has_point(there, record->point - there->address) && chain_is_wanted(detour);
}

struct detour *chain_host(const struct control_detour *record)
{
	uintptr_t point = record->point;
	uintptr_t at = (point > DETOUR_SPAN_MAX ? point - DETOUR_SPAN_MAX : 0) &
		       ~(uintptr_t)(TABLE_CELL_BYTES - 1);

	if (!record->link_at)
		return NULL;
	for (; at <= point; at += TABLE_CELL_BYTES) {
		for (struct detour *d = table_at(at); d; d = d->next_in_bucket) {
			if (is_host(d, record))
				return d;
		}
	}
	return NULL;
}

int chain_join(struct detour *head, struct detour *detour)
{
	unsigned int count = 0;

	for (const struct detour *d = head; d; d = d->next_member) {
		int64_t far = (int64_t)(detour->code - d->code);

		if (far > CHAIN_REACH_MAX || far < -CHAIN_REACH_MAX)
			return -WM_E_DETOUR_REACH;
		count++;
	}
	if (count >= DETOUR_CHAIN_MAX)
		return -WM_E_DETOUR_TAKEN;
	detour->head = head;
	return 0;
}
