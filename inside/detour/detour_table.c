/* SPDX-License-Identifier: MIT */
/*
 * By address, in buckets of 64 bytes of code, so that the owner of a byte is in at most two of
 * them.
 */
#include "inside/detour/detour.h"

#include <string.h>

#define BUCKETS 16384u
#define CELL_BYTES TABLE_CELL_BYTES

_Static_assert(DETOUR_INSN_MAX + DETOUR_KEPT_MAX <= CELL_BYTES,
	       "it reaches into the next cell at most");

static struct detour *buckets[BUCKETS];
static struct detour *first, **last = &first;

struct detour *detour_first(void)
{
	return first;
}

static uint32_t bucket_of(uintptr_t cell)
{
	return (uint32_t)((cell * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % BUCKETS;
}

uint64_t table_hash(const struct control_detour *record)
{
	const unsigned char *bytes = (const unsigned char *)record;
	uint64_t hash = UINT64_C(14695981039346656037);

	for (uint32_t i = 0; i + 8 <= record->bytes; i += 8) {
		uint64_t word;

		memcpy(&word, bytes + i, 8);
		hash = (hash ^ word) * UINT64_C(1099511628211);
		hash ^= hash >> 29;
	}
	return hash;
}

struct detour *table_at(uintptr_t address)
{
	return buckets[bucket_of(address / CELL_BYTES)];
}

struct detour *table_find(const struct control_detour *record, uint64_t hash)
{
	struct detour *detour = buckets[bucket_of(record->address / CELL_BYTES)];

	while (detour && (detour->hash != hash || detour->record->bytes != record->bytes ||
			  memcmp(detour->record, record, record->bytes) != 0))
		detour = detour->next_in_bucket;
	return detour;
}

struct detour *table_overlap(uintptr_t start, uintptr_t end, const struct detour *but,
			     int (*matters)(const struct detour *))
{
	uintptr_t cell = start / CELL_BYTES;

	for (uintptr_t at = cell ? cell - 1 : 0; at <= (end - 1) / CELL_BYTES; at++) {
		for (struct detour *d = buckets[bucket_of(at)]; d; d = d->next_in_bucket) {
			if (d->head == d && d != but && d->record->address < end &&
			    d->record->address + detour_owned(d->record) > start && matters(d))
				return d;
		}
	}
	return NULL;
}

void table_add(struct detour *detour)
{
	struct detour **bucket = &buckets[bucket_of(detour->record->address / CELL_BYTES)];

	detour->next_in_bucket = *bucket;
	*bucket = detour;
	if (detour->head != detour) {
		struct detour *member = detour->head;

		while (member->next_member)
			member = member->next_member;
		__atomic_store_n(&member->next_member, detour, __ATOMIC_RELEASE);
	}
	/* whole before it is linked: a fork may find us here (detour_forked) */
	__atomic_store_n(last, detour, __ATOMIC_RELEASE);
	last = &detour->next;
}
