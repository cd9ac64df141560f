/* SPDX-License-Identifier: MIT */
#include "inside/watch/follow.h"

#include "base/syscall.h"
#include "inside/marker/careful.h"

#include <linux/futex.h>
#include <time.h>

#define MS_NS 1000000
#define SLICE_MS                                                                                   \
	50 /* an entry that ends between the look and the wait wakes its threads too early */

static struct follow_chain *chain_of(const struct watch_entry *entry)
{
	struct watch_row *rows = entry->row - entry->about.number;

	return &((struct watch_table *)(void *)rows)->follows[entry->about.group];
}

static void wake(uint32_t *futex)
{
	syscall_raw6(SYS_futex, (long)futex, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

static int is_moving(const struct follow_chain *chain)
{
	return __atomic_load_n(&chain->asked, __ATOMIC_SEQ_CST) !=
	       __atomic_load_n(&chain->done, __ATOMIC_SEQ_CST);
}

static int wrote_pointer(const struct access_decode *reported, uintptr_t address)
{
	const struct control_watch about = { .address = address,
					     .bytes = sizeof address,
					     .on = WATCH_ON_WRITE };

	return access_decode_covers(reported, &about);
}

/*
 * Whether the pointers led to that place in so many steps before the instruction. Of a pointer that
 * it wrote itself, as in a list that is a ring, the chain has the value from before.
 */
static int leads(const struct follow_chain *chain, unsigned int steps, uintptr_t place,
		 const struct access_decode *reported)
{
	uintptr_t address = chain->start, target;

	for (unsigned int i = 0; i < steps; i++) {
		if (address == chain->at[i] && wrote_pointer(reported, address)) {
			address = chain->at[i + 1];
			continue;
		}
		if (careful_read(&target, address, sizeof target) || !target)
			return 0;
		address = target + (uintptr_t)chain->offsets[i];
	}
	return address == place;
}

static void leave(struct follow_chain *chain)
{
	__atomic_fetch_sub(&chain->inside, 1, __ATOMIC_SEQ_CST);
}

struct control_watch follow_about(const struct watch_entry *entry, uintptr_t met)
{
	struct control_watch about = entry->about;

	about.address = chain_of(entry)->at[about.frame];
	if (about.address && about.flags & WATCH_FOLLOWED)
		about.address += about.offset;
	if (met)
		about.address = met;
	return about;
}

enum follow_place follow_hold(struct watch_entry *entry, uintptr_t met,
			      const struct access_decode *reported)
{
	const struct control_watch *about = &entry->about;
	struct follow_chain *chain = chain_of(entry);
	int is_value = (about->flags & WATCH_FOLLOWED) != 0;
	uintptr_t place, address;

	/* threads that hit it without end would keep `inside` above 0 */
	if (is_moving(chain))
		return FOLLOW_MOVING;
	/* full barrier: pairs with the session's, between seeing `asked` and looking at `inside` */
	__atomic_fetch_add(&chain->inside, 1, __ATOMIC_SEQ_CST);
	place = chain->at[about->frame];
	address = place + (is_value ? about->offset : 0);
	if (is_moving(chain) || !place || (met && met != address)) {
		leave(chain);
		return FOLLOW_MOVING;
	}
	if (is_value && !leads(chain, about->frame, place, reported)) {
		leave(chain);
		return is_moving(chain) ? FOLLOW_MOVING : FOLLOW_ELSEWHERE;
	}
	/* every thread in here stores the same */
	__atomic_store_n(&entry->about.address, address, __ATOMIC_RELAXED);
	return FOLLOW_THERE;
}

void follow_leave(const struct watch_entry *entry)
{
	leave(chain_of(entry));
}

static void count_late(struct follow_chain *chain)
{
	__atomic_fetch_add(&chain->late, 1, __ATOMIC_RELAXED);
}

void follow_is_astray(const struct watch_entry *entry, enum follow_place place)
{
	struct follow_chain *chain = chain_of(entry);

	__atomic_fetch_add(&chain->astray, 1, __ATOMIC_RELAXED);
	if (place == FOLLOW_ELSEWHERE)
		count_late(chain);
}

/* ---- waiting ---- */

static int64_t now_ms(void)
{
	struct timespec now = { 0 };

	syscall_raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / MS_NS;
}

static int is_live(const struct watch_entry *entry)
{
	return __atomic_load_n(&watch_live, __ATOMIC_SEQ_CST) >> (entry - watch_entries) & 1;
}

/* Until the registers are where the pointers led after `asked`: 1; 0: too late. */
static int wait_for_move(const struct watch_entry *entry, struct follow_chain *chain,
			 uint32_t asked)
{
	const struct timespec slice = { .tv_nsec = (long)SLICE_MS * MS_NS };
	int64_t until = now_ms() + FOLLOW_WAIT_MS;
	uint32_t done;

	if (__atomic_load_n(&chain->is_late, __ATOMIC_SEQ_CST))
		return 0;
	while (is_live(entry) && now_ms() < until) {
		done = __atomic_load_n(&chain->done, __ATOMIC_SEQ_CST);
		if ((int32_t)(done - asked) >= 0)
			return 1;
		syscall_raw6(SYS_futex, (long)&chain->done, FUTEX_WAIT, done, (long)&slice, 0, 0);
	}
	__atomic_store_n(&chain->is_late, 1, __ATOMIC_RELAXED);
	return 0;
}

void follow_ask(uint64_t entries, int is_late)
{
	for (; entries; entries &= entries - 1) {
		const struct watch_entry *entry = &watch_entries[__builtin_ctzll(entries)];
		struct follow_chain *chain = chain_of(entry);
		uint32_t asked;

		/* before `asked`: this move counts as late */
		if (is_late)
			count_late(chain);
		asked = __atomic_add_fetch(&chain->asked, 1, __ATOMIC_SEQ_CST);
		wake(&chain->asked);
		if (!wait_for_move(entry, chain, asked) && !is_late)
			count_late(chain);
	}
}

uintptr_t follow_start(const struct watch_entry *entry)
{
	return chain_of(entry)->start;
}

void follow_end(const struct watch_entry *entry)
{
	wake(&chain_of(entry)->done);
}
