/* SPDX-License-Identifier: MIT */
/*
 * A chain only grows, in the order in which its members came, and a link that stands stays: so a thread
 * that is anywhere in it comes to its end, with the moved instructions run once. Who isn't wanted has no
 * plan, and costs little.
 */
#include "agent/detour/detour.h"

#include <waymark/error.h>

#include <string.h>

#define CHAIN_MAX 16

static int is_fellow(const struct control_detour *a, const struct control_detour *b)
{
	size_t bytes = detour_owned(a) + (a->relay ? DETOUR_RELAY_BYTES : 0);

	return a->address == b->address && a->point == b->point && a->span_bytes == b->span_bytes &&
	       a->relay == b->relay && a->pun == b->pun && a->tier == b->tier && a->link_at &&
	       b->link_at && !memcmp(a->original, b->original, bytes);
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
	struct detour *last = head;
	unsigned int count = 1;
	uintptr_t link;
	int64_t far;
	int32_t near;

	for (; last->next_member; last = last->next_member)
		count++;
	if (count >= CHAIN_MAX)
		return -WM_E_DETOUR_TAKEN;
	link = last->code + last->record->link_at;
	far = (int64_t)(detour->code + detour->record->event_at - link - DETOUR_JUMP_BYTES);
	near = (int32_t)far;
	if (near != far)
		return -WM_E_DETOUR_REACH;
	detour->jump[0] = 0xe9;
	memcpy(detour->jump + 1, &near, sizeof near);
	detour->jump_bytes = DETOUR_JUMP_BYTES;
	detour->head = head;
	return 0;
}
