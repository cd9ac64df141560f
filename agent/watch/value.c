/* SPDX-License-Identifier: MIT */
/* What a hit's values are: as the instruction tells them, as memory has them, as the hit before left them. */
#include "agent/watch/take_own.h"

#include "agent/marker/careful.h"
#include "agent/store/writer.h"

#define NOBODY_KNOWS UINT64_MAX

static uint64_t mask_of(const struct control_watch *about)
{
	return about->bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * about->bytes) - 1;
}

/* The part of the watched bytes that the instruction wrote, as a mask; 0: all of it is unknown. */
static uint64_t written_mask(const struct hit *hit, const struct control_watch *about)
{
	uint64_t mask = 0;

	if (!hit->is_told || !hit->written.bytes)
		return 0;
	for (unsigned int i = 0; i < about->bytes; i++) {
		if (about->address + i - hit->written.address < hit->written.bytes)
			mask |= UINT64_C(0xff) << 8 * i;
	}
	return mask;
}

static uint64_t written_value(const struct hit *hit, const struct control_watch *about)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < about->bytes; i++) {
		uint64_t at = about->address + i - hit->written.address;

		if (at < hit->written.bytes && at < WRITTEN_BYTES_MAX)
			value |= (uint64_t)hit->written.value[at] << 8 * i;
	}
	return value;
}

/* `memory` as it is now, if it could be read; `before` as the chain has it, if anybody knows. */
struct known {
	uint64_t memory, before;
	int has_memory, has_before;
};

static void judge_new(const struct hit *hit, const struct control_watch *about,
		      const struct known *known, struct seen *seen)
{
	uint64_t all = mask_of(about), mask = written_mask(hit, about);
	int is_all = mask == all, way = hit->is_told ? hit->written.way : WRITTEN_SOMEHOW;

	if (way == WRITTEN_NEW && mask) {
		uint64_t rest = known->has_memory ? known->memory : known->before;

		seen->now = (written_value(hit, about) & mask) | (rest & ~mask);
		/* what it did not write is as it was, unless somebody else wrote that too */
		if (is_all || (known->has_memory && known->has_before &&
			       !((known->memory ^ known->before) & ~mask)))
			seen->how |= WATCH_NEW_EXACT;
		else if (!known->has_memory && !known->has_before)
			seen->how |= WATCH_NEW_UNKNOWN;
		return;
	}
	seen->now = known->memory;
	if (way == WRITTEN_CHANGED && is_all && hit->written.address == about->address &&
	    hit->written.bytes == about->bytes && known->has_before) {
		uint64_t now = written_change(&hit->written, known->before) & all;

		if (known->has_memory && now == known->memory)
			seen->how |= WATCH_NEW_EXACT;
	}
	if (way == WRITTEN_NOT) {
		seen->how |= WATCH_READ;
		if (known->has_memory && known->has_before && known->memory == known->before)
			seen->how |= WATCH_NEW_EXACT;
	}
	if (!known->has_memory)
		seen->how |= WATCH_NEW_UNKNOWN;
}

static void judge_old(const struct hit *hit, const struct control_watch *about,
		      const struct known *known, struct seen *seen)
{
	uint64_t all = mask_of(about), shift = 8 * (about->address - hit->written.address);

	if (hit->is_told && hit->written.has_old && written_mask(hit, about) == all) {
		seen->old = hit->written.old >> shift & all;
		seen->how |= WATCH_OLD_EXACT;
		return;
	}
	seen->old = known->before;
	if (!known->has_before)
		seen->how |= WATCH_OLD_UNKNOWN;
}

/* Both words, if they are still as expected; else *value and *ticks are what they are. */
static int exchange_pair(struct watch_row *row, uint64_t *value, uint64_t *ticks, uint64_t now,
			 uint64_t when)
{
	uint8_t is_done;

	__asm__ volatile("lock cmpxchg16b %1\n\tsetz %0"
			 : "=q"(is_done), "+m"(row->last), "+a"(*value), "+d"(*ticks)
			 : "b"(now), "c"(when)
			 : "cc", "memory");
	return is_done;
}

/*
 * Value and time are stored as one, so that the chain of values is in the order of its times, whoever comes between
 * reading the clock and here.
 */
void take_link_in(const struct hit *hit, const struct watch_entry *entry, struct seen *seen)
{
	const struct control_watch *about = &entry->about;
	struct watch_row *row = entry->row;
	uint64_t value = __atomic_load_n(&row->last.value, __ATOMIC_RELAXED);
	uint64_t ticks = __atomic_load_n(&row->last.ticks, __ATOMIC_RELAXED);
	struct known known = { 0 };

	if (!hit->is_told || hit->written.way != WRITTEN_NEW ||
	    written_mask(hit, about) != mask_of(about))
		known.has_memory = !careful_read(&known.memory, about->address, about->bytes);
	do {
		*seen = (struct seen){ .how = hit->how };
		known.before = value & mask_of(about);
		known.has_before = ticks != NOBODY_KNOWS;
		judge_new(hit, about, &known, seen);
		judge_old(hit, about, &known, seen);
		seen->ticks = clock_ticks(entry->clock);
		if (known.has_before && seen->ticks <= ticks)
			seen->ticks = ticks + 1;
	} while (!exchange_pair(row, &value, &ticks, seen->now,
				seen->how & WATCH_NEW_UNKNOWN ? NOBODY_KNOWS : seen->ticks));
}
