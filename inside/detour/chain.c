/* SPDX-License-Identifier: MIT */
/*
 * A chain only grows, in the order in which its members came, and a stored link stays. So a thread
 * that is anywhere in it reaches its end, with the moved instruction run once. A member that no
 * session wants has no plan, and costs little.
 */
#include "inside/detour/detour.h"
#include "inside/patch/batch.h"

#include <waymark/error.h>

#include <string.h>
#include <sys/mman.h>

/*
 * The jump relies on the kept bytes too: they end its distance. Other code may be loaded at the
 * same address later, and begin with the same instruction.
 */
static int is_fellow(const struct control_detour *a, const struct control_detour *b)
{
	return a->address == b->address && a->insn_bytes == b->insn_bytes &&
	       a->kept_bytes == b->kept_bytes && a->starts == b->starts && a->link_at &&
	       b->link_at && !memcmp(a->original, b->original, detour_owned(a));
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

		if (far > CHAIN_REACH_MAX || far < -CHAIN_REACH_MAX)
			return -WM_E_DETOUR_REACH;
		count++;
	}
	if (count >= DETOUR_CHAIN_MAX)
		return -WM_E_DETOUR_TAKEN;
	detour->head = head;
	return 0;
}

/* First the distance of the long jump, which no thread runs until the short one leads to it. */
static int link_store(const struct text *text, const struct detour *from, const struct detour *to)
{
	uintptr_t link = from->code + from->record->link_at;
	uint32_t far = (uint32_t)(to->code - link - DETOUR_LINK_BYTES);
	uint8_t next = 0;
	int error = text_write_code(text, link + 3, &far, sizeof far, PROT_READ | PROT_EXEC);

	if (error)
		return error;
	batch_sync_cores();
	return text_write_code(text, link + 1, &next, sizeof next, PROT_READ | PROT_EXEC);
}

int chain_link(const struct text *text, struct detour *head)
{
	struct detour *last = NULL, *before = head;
	int error = 0;

	for (struct detour *d = head; d; d = d->next_member)
		last = d->in_batch && !chain_is_linked(d) ? d : last;
	for (struct detour *d = head->next_member; last && d && !error; d = d->next_member) {
		if (!d->is_linked)
			error = link_store(text, before, d);
		d->is_linked |= !error;
		before = d;
		if (d == last)
			break;
	}
	return error;
}
