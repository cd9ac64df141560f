/* SPDX-License-Identifier: MIT */
/*
 *	stands -> held      found at a look; events may be missing since the look before
 *	held -> stands      the other tool has gone, and the jump is stored again
 *
 * The bytes of all jumps are gathered by few system calls, since a program may unmap its code at any moment.
 */
#include "agent/detour/look.h"

#include "agent/control/lock.h"
#include "agent/detour/site.h"
#include "agent/patch/compare.h"
#include "agent/patch/tracer.h"

#include <errno.h>
#include <string.h>

#define RETRY_MS 20 /* for a stop, where one is needed to store a jump again */

_Static_assert(DETOUR_INSN_MAX + DETOUR_KEPT_MAX <= COMPARE_BYTES_MAX,
	       "an item holds all that a head owns");

static uint64_t looked_ns; /* when the last look began */
static int any_armed, held_changed;
static int is_stale; /* some are armed, disarmed or wanted that were not when they were collected */
static size_t held_count;

void look_changed(void)
{
	is_stale = 1;
}

int look_any(void)
{
	return any_armed;
}

void look_forget(struct detour *head)
{
	is_stale = 1;
	held_count -= head->is_held;
	head->is_held = 0;
	head->held_ns = 0;
}

static void tell(const struct detour *head, uint32_t lanes, uint64_t end_ns)
{
	for (const struct detour *d = head; d && registry_listener; d = d->next_member) {
		for (unsigned int i = 0; i < 2 * SESSIONS_MAX; i++) {
			unsigned int lane = i / 2;
			int which = i % 2;

			if (d->lanes & lanes & 1u << lane && detour_has_event(d, which))
				registry_listener->held(lane, d->events[which].ids[lane],
							head->held_ns, end_ns);
		}
	}
}

static void release(struct detour *head)
{
	uint64_t now_ns = lock_now_ns();

	head->is_held = 0;
	held_count--;
	held_changed = 1;
	tell(head, UINT32_MAX, now_ns);
	head->held_ns = now_ns;
}

static void begin_hold(struct detour *head)
{
	head->is_held = 1;
	held_count++;
	held_changed = 1;
	tell(head, UINT32_MAX, 0);
}

void look_armed(struct detour *head, int is_held, unsigned int lane)
{
	is_stale = any_armed = 1;
	head->is_armed = 1;
	if (!is_held && head->is_held) {
		release(head);
	} else if (is_held == head->is_held) {
		if (is_held)
			tell(head, 1u << lane, 0);
	} else {
		head->held_ns = lock_now_ns();
		begin_hold(head);
	}
	if (!head->held_ns)
		head->held_ns = lock_now_ns();
}

/* Where another tool's byte keeps all out, the file's bytes behind it are put back: it may run them, or restore its own. */
static void put_rest_back(const struct text *text, struct detour *head)
{
	if (head->jump.form == FORM_FIRST && !tracer_is_there())
		site_store(text, head, 0);
}

static void hold(struct detour *head)
{
	if (looked_ns > head->held_ns)
		head->held_ns = looked_ns;
	begin_hold(head);
}

static int is_lost(const struct detour *detour)
{
	return detour->is_lost && detour->is_armed && chain_is_wanted(detour);
}

static void store_again(const struct text *text)
{
	struct detour_result unused = { 0 };
	struct list list;

	if (list_make(&list, is_lost))
		return;
	site_change_all(text, &list, 1, RETRY_MS, &unused);
	for (size_t i = 0; i < list.count; i++) {
		list.sites[i].detour->is_lost = 0;
		list.sites[i].detour->is_armed = 1; /* at the next look, then */
		if (list.sites[i].is_done)
			release(list.sites[i].detour);
	}
	list_free(&list);
}

/* ---- looking ---- */

/* Heads that are armed and wanted. */
static struct compare_list armed;

static int collect(void)
{
	struct compare_item *item;

	armed.count = 0;
	any_armed = 0;
	for (struct detour *d = detour_first(); d; d = d->next) {
		any_armed |= d->is_armed;
		if (!d->is_armed || d->head != d || !chain_is_wanted(d))
			continue;
		if (compare_add(&armed, &item))
			return -ENOMEM; /* the others, until there is memory */
		item->owner = d;
		item->address = d->record->address;
		item->bytes = (uint8_t)detour_owned(d->record);
		memcpy(item->expected, d->record->original, item->bytes);
		memcpy(item->expected + d->jump.bytes.at, d->jump.bytes.bytes, d->jump.bytes.count);
	}
	is_stale = 0;
	return 0;
}

struct round {
	const struct text *text;
	int any_lost;
};

static void judge(void *owner, const uint8_t *found, void *data)
{
	struct round *round = data;
	struct detour *head = owner;
	enum stand stand = detour_stand(head, found);

	if (stand != STAND_FILE && stand != STAND_HELD)
		return;
	if (!head->is_held)
		hold(head);
	if (stand == STAND_HELD)
		put_rest_back(round->text, head);
	head->is_lost = stand == STAND_FILE;
	round->any_lost |= head->is_lost;
}

/* Those that were held and stand now: somebody put our byte back. */
static void release_returned(const struct text *text)
{
	uint8_t found[DETOUR_INSN_MAX + DETOUR_KEPT_MAX];

	for (size_t i = 0; i < armed.count; i++) {
		struct detour *head = armed.items[i].owner;

		if (head->is_held && site_look(text, head, found) == STAND_JUMP)
			release(head);
	}
}

void look(const struct text *text)
{
	struct round round = { text, 0 };
	uint64_t begin_ns = lock_now_ns();

	if (is_stale)
		collect();
	if (!armed.count)
		return;
	if (held_count)
		release_returned(text);
	compare_run(text, &armed, judge, &round);
	if (round.any_lost)
		store_again(text);
	looked_ns = begin_ns;
	if (held_changed && registry_listener)
		registry_listener->flush();
	held_changed = 0;
}
