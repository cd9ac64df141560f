/* SPDX-License-Identifier: MIT */
#include "inside/watch/linked.h"

#include "inside/marker/careful.h"
#include "inside/store/thread_writer.h"

#define NOBODY_KNOWS UINT64_MAX
#define ADD_TRIES 32u /* until other threads' signals come: some microseconds */

/* Store both words if they are as expected; else put the current ones into *value and *ticks. */
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
 * Other threads have added to the word and have yet to come here: memory is ahead of the chain by
 * what they added. The threads in here have published how much. For the others, the caller tries
 * again.
 */
static void leave_out_others(const struct watch_entry *entry, uint64_t added,
			     struct access_decode_known *known)
{
	unsigned int unused = 64 - 8 * entry->about.bytes;

	known->memory -= __atomic_load_n(&entry->adding, __ATOMIC_ACQUIRE) - added;
	known->memory = known->memory << unused >> unused;
}

void linked_take(struct watch_entry *entry, const struct access_decode *reported,
		 struct linked *seen)
{
	const struct control_watch *about = &entry->about;
	struct watch_row *row = entry->row;
	uint64_t added = 0, value, ticks, when;
	int adds = access_decode_adds(reported, about, &added), has_memory = 0;
	unsigned int tries = adds ? ADD_TRIES : 0;
	int is_whole = access_decode_is_whole(reported, about), is_done = 0;
	uint64_t memory = 0;

	if (adds)
		__atomic_fetch_add(&entry->adding, added, __ATOMIC_ACQ_REL);
	while (!is_done) {
		struct access_decode_known known = { 0 };

		value = __atomic_load_n(&row->last.value, __ATOMIC_RELAXED);
		ticks = __atomic_load_n(&row->last.ticks, __ATOMIC_RELAXED);
		if (!is_whole && (adds || !has_memory))
			has_memory = !careful_read(&memory, about->address, about->bytes);
		*seen = (struct linked){ .values.how = reported->how };
		known.memory = memory;
		known.has_memory = has_memory;
		known.before = value;
		known.has_before = ticks != NOBODY_KNOWS;
		known.is_before_uncertain = (ticks & WATCH_UNCERTAIN) != 0;
		if (adds)
			leave_out_others(entry, added, &known);
		access_decode_judge(reported, about, &known, &seen->values);
		if (tries && known.has_before && !(seen->values.how & WATCH_NEW_EXACT)) {
			tries--;
			__builtin_ia32_pause();
			continue;
		}
		seen->ticks = clock_ticks(entry->clock);
		if (known.has_before && seen->ticks <= (ticks & ~WATCH_UNCERTAIN))
			seen->ticks = (ticks & ~WATCH_UNCERTAIN) + 1;
		when = seen->values.how & WATCH_NEW_UNKNOWN ? NOBODY_KNOWS
		       : seen->values.how & WATCH_NEW_EXACT ? seen->ticks
							    : seen->ticks | WATCH_UNCERTAIN;
		is_done = exchange_pair(row, &value, &ticks, seen->values.link, when);
	}
	if (adds)
		__atomic_fetch_sub(&entry->adding, added, __ATOMIC_ACQ_REL);
}
