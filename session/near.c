/* SPDX-License-Identifier: MIT */
#include "session/near.h"

#include "base/array.h"
#include "base/sorted.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define CLAIM_BYTES_MAX (DETOUR_SPAN_MAX + DETOUR_PUN_MAX)
#define RELAY_BYTES 5
#define NOBODY SIZE_MAX

/* IDLE: nothing is claimed. WAITING -> HELD, IDLE; HELD -> IDLE -> HELD while another is tried for it. */
enum state { STATE_IDLE, STATE_HELD, STATE_WAITING };

/* Where some range of a claim begins. It may be an old one: the claim itself tells. */
struct edge {
	uint64_t start;
	size_t number;
};

struct near {
	struct asked_list *asked;
	const struct sweep *sweep;
	struct trampoline *trampoline;
	unsigned char *states; /* enum state, of each asked */
	struct edge *edges;    /* the first `sorted` in order */
	size_t edge_count, edge_room, sorted;
};

/* ---- claims ---- */

static uint64_t claim_end(const struct control_detour *detour)
{
	return detour->address + detour->span_bytes + detour->pun;
}

/* Where its filler begins; 0: it has none. */
static uint64_t relay_of(const struct control_detour *detour)
{
	return detour->relay ? detour->address + SPAN_SHORT_JUMP_BYTES + (uint64_t)detour->relay
			     : 0;
}

static bool is_in_claim(const struct control_detour *detour, uint64_t start, uint64_t end)
{
	uint64_t relay = relay_of(detour);

	return (detour->address < end && claim_end(detour) > start) ||
	       (relay && relay < end && relay + RELAY_BYTES > start);
}

/* Whether they can be a chain: as the agent sees it (agent/detour/chain.c). */
static bool is_fellow(const struct control_detour *a, const struct control_detour *b)
{
	return a->address == b->address && a->span_bytes == b->span_bytes &&
	       detour_same_points(a, b) && a->relay == b->relay && a->pun == b->pun &&
	       a->tier == b->tier && a->link_at && b->link_at;
}

static bool are_apart(const struct control_detour *a, const struct control_detour *b)
{
	uint64_t relay = relay_of(b);

	return is_fellow(a, b) || (!is_in_claim(a, b->address, claim_end(b)) &&
				   !(relay && is_in_claim(a, relay, relay + RELAY_BYTES)));
}

static int edge_add(struct near *near, size_t number)
{
	const struct control_detour *detour = near->asked->all[number].detour;
	uint64_t relay = relay_of(detour);

	if (array_grow(&near->edges, &near->edge_room, near->edge_count + 2, sizeof(*near->edges)))
		return -ENOMEM;
	near->edges[near->edge_count++] = (struct edge){ detour->address, number };
	if (relay)
		near->edges[near->edge_count++] = (struct edge){ relay, number };
	return 0;
}

static int edge_order(const void *a, const void *b)
{
	const struct edge *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

/* The first in order that could reach `start`. */
static size_t edge_from(const struct near *near, uint64_t start)
{
	uint64_t least = start > CLAIM_BYTES_MAX ? start - CLAIM_BYTES_MAX : 0;

	return sorted_below(near->edges, near->sorted, sizeof(*near->edges),
			    offsetof(struct edge, start), least);
}

/* The next edge that may matter to a range, from number `at` on; edge_count: none. */
static size_t edge_next(const struct near *near, size_t at, uint64_t end)
{
	if (at < near->sorted && near->edges[at].start >= end)
		return near->sorted;
	return at;
}

/* ---- what is in the way ---- */

/* A search for a span clear of all but those at the same point. */
struct search {
	const struct near *near;
	uint64_t point;
};

static bool is_taken(const void *data, uint64_t start, uint64_t end)
{
	const struct search *search = data;
	const struct near *near = search->near;
	size_t at = edge_next(near, edge_from(near, start), end);

	for (; at < near->edge_count; at = edge_next(near, at + 1, end)) {
		size_t number = near->edges[at].number;
		const struct control_detour *detour = near->asked->all[number].detour;

		if (near->states[number] == STATE_HELD && detour->point != search->point &&
		    is_in_claim(detour, start, end))
			return true;
	}
	return false;
}

/* One that holds some of this range and isn't of the detour's chain; NOBODY. */
static size_t holder_in(const struct near *near, const struct control_detour *detour,
			uint64_t start, uint64_t end)
{
	size_t at = edge_next(near, edge_from(near, start), end);

	for (; at < near->edge_count; at = edge_next(near, at + 1, end)) {
		size_t number = near->edges[at].number;

		if (near->states[number] == STATE_HELD &&
		    !are_apart(near->asked->all[number].detour, detour))
			return number;
	}
	return NOBODY;
}

static size_t holder_of(const struct near *near, const struct control_detour *detour)
{
	uint64_t relay = relay_of(detour);
	size_t found = holder_in(near, detour, detour->address, claim_end(detour));

	return found == NOBODY && relay ? holder_in(near, detour, relay, relay + RELAY_BYTES)
					: found;
}

/* ---- common spans ---- */

/* Those that are to have one span. */
struct party {
	size_t members[DETOUR_CHAIN_MAX];
	struct control_detour *before[DETOUR_CHAIN_MAX]; /* their records so far */
	unsigned int count;
	uint64_t start;
	uint64_t points[DETOUR_CHAIN_MAX]; /* in order */
	unsigned int point_count;
};

static bool is_member(const struct party *party, size_t number)
{
	unsigned int i = 0;

	while (i < party->count && party->members[i] != number)
		i++;
	return i < party->count;
}

/* Returns false where it can't be one of them. */
static bool party_add(const struct near *near, struct party *party, size_t number)
{
	const struct asked *asked = &near->asked->all[number];
	unsigned int at = 0;

	if (party->count == DETOUR_CHAIN_MAX || !asked->spec || !asked->detour->link_at)
		return false;
	party->members[party->count++] = number;
	while (at < party->point_count && party->points[at] < asked->detour->point)
		at++;
	if (at < party->point_count && party->points[at] == asked->detour->point)
		return true;
	memmove(&party->points[at + 1], &party->points[at],
		(party->point_count - at) * sizeof(party->points[0]));
	party->points[at] = asked->detour->point;
	party->point_count++;
	return true;
}

/* All that hold some of [start, end) and aren't in it yet. Returns how many; -1: one can't. */
static int party_take(const struct near *near, struct party *party, uint64_t start, uint64_t end)
{
	size_t at = edge_next(near, edge_from(near, start), end);
	int count = 0;

	for (; at < near->edge_count; at = edge_next(near, at + 1, end)) {
		size_t number = near->edges[at].number;

		if (near->states[number] != STATE_HELD || is_member(party, number) ||
		    !is_in_claim(near->asked->all[number].detour, start, end))
			continue;
		if (!party_add(near, party, number))
			return -1;
		count++;
	}
	return count;
}

static bool member_compose(const struct near *near, const struct party *party, unsigned int which)
{
	struct code_place place;

	asked_place(&near->asked->all[party->members[which]], &place);
	return !trampoline_compose_common(near->sweep, &place, party->start, party->points,
					  party->point_count, near->trampoline);
}

/* Until the span that has room for all of them is in nobody else's way. */
static bool party_gather(const struct near *near, struct party *party)
{
	const struct control_detour *detour = &near->trampoline->detour;
	int more = 1;

	while (more > 0) {
		/* what comes to the first point comes to all of them, or what comes to some span's start */
		uint64_t lone = party->points[0];

		for (unsigned int i = 0; i < party->count; i++) {
			uint64_t at = near->asked->all[party->members[i]].detour->address;

			lone = at < lone ? at : lone;
		}
		party->start = party->points[0];
		if (!member_compose(near, party, 0)) {
			party->start = lone;
			if (lone == party->points[0] || !member_compose(near, party, 0))
				return false;
		}
		more = party_take(near, party, detour->address, claim_end(detour));
	}
	return !more;
}

/* All their records for the common span, or those that they had. 1; 0; -ENOMEM. */
static int party_record(struct near *near, struct party *party)
{
	unsigned int made = 0;
	int err = 0;

	for (; made < party->count && !err; made++) {
		struct asked *asked = &near->asked->all[party->members[made]];
		struct code_place place;

		party->before[made] = asked->detour;
		asked->detour = NULL;
		asked_place(asked, &place);
		err = member_compose(near, party, made)
			      ? asked_record(asked, &place, near->trampoline)
			      : -WM_E_DETOUR_TAKEN;
	}
	for (unsigned int i = 0; i < made; i++) {
		struct asked *asked = &near->asked->all[party->members[i]];

		free(err ? asked->detour : party->before[i]);
		if (err)
			asked->detour = party->before[i];
	}
	return !err ? 1 : err == -ENOMEM ? err : 0;
}

/* One span for this one and all that are in its way. 1: they have it; 0; -ENOMEM. */
static int join(struct near *near, size_t number)
{
	const struct control_detour *detour = near->asked->all[number].detour;
	struct party party = { 0 };
	int done;

	if (!party_add(near, &party, number) ||
	    party_take(near, &party, detour->address, claim_end(detour)) <= 0 ||
	    !party_gather(near, &party))
		return 0;
	done = party_record(near, &party);
	for (unsigned int i = 0; i < party.count && done == 1; i++) {
		near->states[party.members[i]] = STATE_HELD;
		if (edge_add(near, party.members[i]))
			done = -ENOMEM;
	}
	return done;
}

/* ---- settling ---- */

/* The record for a span that is clear of all that is held. 1: it has one now; 0; -ENOMEM. */
static int step_aside(struct near *near, size_t number)
{
	struct asked *asked = &near->asked->all[number];
	struct search search = { near, asked->detour->point };
	struct sweep_claims claims = { is_taken, &search };
	struct sweep sweep = *near->sweep;
	struct control_detour *before = asked->detour;
	struct code_place place;
	int err;

	if (!asked->spec)
		return 0;
	asked_place(asked, &place);
	sweep.claims = &claims;
	if (trampoline_compose(&sweep, &place, near->trampoline))
		return 0;
	asked->detour = NULL;
	err = asked_record(asked, &place, near->trampoline);
	if (!err && holder_of(near, asked->detour) == NOBODY)
		err = edge_add(near, number);
	else if (!err)
		err = -WM_E_DETOUR_TAKEN;
	if (!err) {
		near->states[number] = STATE_HELD;
		free(before);
		return 1;
	}
	free(asked->detour);
	asked->detour = before;
	return err == -ENOMEM ? err : 0;
}

/*
 * The only one that is in this one's way steps aside, if no other event is at its point. 1: it has; 0;
 * -ENOMEM.
 */
static int push_aside(struct near *near, size_t number, size_t holder)
{
	const struct control_detour *detour = near->asked->all[number].detour;
	int moved = 0;

	near->states[holder] = STATE_IDLE;
	if (holder_of(near, detour) == NOBODY) {
		near->states[number] = STATE_HELD;
		moved = step_aside(near, holder);
	}
	if (moved == 1)
		return 1;
	near->states[holder] = STATE_HELD;
	near->states[number] = STATE_WAITING;
	return moved;
}

static int refuse(struct near *near, size_t number, size_t holder)
{
	struct asked *asked = &near->asked->all[number];
	const struct code_place *there = asked_head(&near->asked->all[holder]);
	char detail[512];

	snprintf(detail, sizeof(detail), "%s:%s at %+lld", there->subsystem, there->event,
		 (long long)(near->asked->all[holder].detour->point - asked->detour->point));
	near->states[number] = STATE_IDLE;
	return asked_refuse(asked, -WM_E_DETOUR_TAKEN, detail);
}

static int settle(struct near *near, size_t number)
{
	size_t holder = holder_of(near, near->asked->all[number].detour);
	int done;

	if (holder == NOBODY) {
		near->states[number] = STATE_HELD;
		return 0;
	}
	done = join(near, number);
	if (!done)
		done = step_aside(near, number);
	if (!done)
		done = push_aside(near, number, holder);
	return done ? (done < 0 ? done : 0) : refuse(near, number, holder);
}

/* All that are in the way of another, or in whose way another is. Returns how many. */
static size_t find_near(struct near *near)
{
	size_t count = 0;

	for (size_t i = 0; i < near->sorted; i++) {
		size_t one = near->edges[i].number;

		for (size_t j = i + 1;
		     j < near->sorted &&
		     near->edges[j].start < near->edges[i].start + CLAIM_BYTES_MAX;
		     j++) {
			size_t other = near->edges[j].number;

			if (one == other ||
			    are_apart(near->asked->all[one].detour, near->asked->all[other].detour))
				continue;
			near->states[one] = near->states[other] = STATE_WAITING;
			count++;
		}
	}
	return count;
}

static int settle_all(struct near *near)
{
	int err = 0;

	for (size_t i = 0; i < near->asked->count && !err; i++) {
		if (!near->asked->all[i].detour)
			continue;
		near->states[i] = STATE_HELD;
		err = edge_add(near, i);
	}
	if (near->edge_count)
		qsort(near->edges, near->edge_count, sizeof(*near->edges), edge_order);
	near->sorted = near->edge_count;
	if (err || !find_near(near))
		return err;
	for (size_t i = 0; i < near->asked->count && !err; i++)
		if (near->states[i] == STATE_WAITING)
			err = settle(near, i);
	return err;
}

int near_settle(struct asked_list *asked, const struct sweep *sweep, struct trampoline *scratch)
{
	struct near near = { .asked = asked, .sweep = sweep, .trampoline = scratch };
	int err;

	if (!asked->count)
		return 0;
	near.states = calloc(asked->count, 1);
	err = near.states ? settle_all(&near) : -ENOMEM;
	free(near.states);
	free(near.edges);
	return err;
}
