/* SPDX-License-Identifier: MIT */
#include "agent/detour/exits.h"

#include <waymark/error.h>

#define JMP_NEAR 0xe9

static uintptr_t end_of(const struct detour *detour)
{
	return detour->record->address + detour->record->span_bytes;
}

void exits_find(struct detour *detour)
{
	detour->exit_to = end_of(detour);
	for (unsigned int i = 0; i < detour->record->fixup_count; i++) {
		const struct detour_fixup *fixup = &detour->fixups[i];

		if (fixup->kind == FIXUP_REL32 && fixup->target == detour->exit_to &&
		    fixup->offset && detour->code_bytes[fixup->offset - 1] == JMP_NEAR)
			detour->exit_at = fixup->offset;
	}
}

/*
 * Whether threads may be in there that come out in the middle of the other's span. Nobody runs what a guest has
 * moved; and nobody can be in the code of a module that is gone.
 */
static int leads_into(const struct detour *detour, const struct detour *head)
{
	uintptr_t end = end_of(detour);

	return detour->exit_at && !detour->is_guest && !detour->is_gone &&
	       end > head->record->address && end < end_of(head);
}

/* Where the instruction at an address in its span has been moved to; 0: there is none. */
static uintptr_t copy_of(const struct detour *head, uintptr_t address)
{
	unsigned int i = 0;

	while (i < head->record->move_count &&
	       head->record->address + head->moves[i].from != address)
		i++;
	return i < head->record->move_count ? head->code + head->moves[i].to : 0;
}

/* Of those whose exit leads into the head's span; each begins a cell before it at most. */
struct walk {
	const struct detour *head;
	uintptr_t cell;
	struct detour *at;
};

static uintptr_t cell_of(uintptr_t address)
{
	return address & ~(uintptr_t)(TABLE_CELL_BYTES - 1);
}

static struct walk walk_begin(const struct detour *head)
{
	return (struct walk){ head, cell_of(head->record->address) - 2 * TABLE_CELL_BYTES, NULL };
}

static struct detour *walk_next(struct walk *walk)
{
	for (;;) {
		while (walk->at) {
			struct detour *d = walk->at;

			walk->at = d->next_in_bucket;
			/* two cells may share a bucket */
			if (cell_of(d->record->address) == walk->cell && leads_into(d, walk->head))
				return d;
		}
		walk->cell += TABLE_CELL_BYTES;
		if (walk->cell >= end_of(walk->head))
			return NULL;
		walk->at = table_at(walk->cell);
	}
}

int exits_check(struct detour *head)
{
	struct walk walk = walk_begin(head);
	struct detour *d;

	head->is_led_into = 0;
	while ((d = walk_next(&walk))) {
		uintptr_t to = copy_of(head, end_of(d));
		int64_t far = (int64_t)(to - d->code);

		head->is_led_into = 1;
		if (!to)
			return -WM_E_DETOUR_TAKEN;
		if (far > CHAIN_REACH_MAX || far < -CHAIN_REACH_MAX)
			return -WM_E_DETOUR_REACH;
	}
	return 0;
}

static void add(struct janitor_site *site, struct detour *detour, uintptr_t to)
{
	if (detour->exit_to == to)
		return;
	detour->exit_wanted = to;
	detour->next_exit = site->exits;
	site->exits = detour;
}

static void collect(struct janitor_site *site)
{
	struct detour *head = site->detour, *d;
	struct walk walk;

	site->exits = NULL;
	for (d = head; d; d = d->next_member)
		if (d->exit_at)
			add(site, d, end_of(d));
	walk = walk_begin(head);
	while (head->is_led_into && (d = walk_next(&walk)))
		if (copy_of(head, end_of(d)))
			add(site, d, copy_of(head, end_of(d)));
}

void exits_collect(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		collect(&list->sites[i]);
}
