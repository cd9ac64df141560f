/* SPDX-License-Identifier: MIT */
/*
 * Watches that follow pointers, inside (abi/follow.h). All but follow_start() and follow_end() is
 * hit path.
 */
#ifndef INSIDE_WATCH_FOLLOW_H
#define INSIDE_WATCH_FOLLOW_H

#include "arch/access_decode.h"
#include "inside/watch/watch_entry.h"

#include <stdint.h>

enum follow_place {
	FOLLOW_THERE,	  /* the entry's address is its chain's present place */
	FOLLOW_MOVING,	  /* a pointer has changed, or the hit is of the place before */
	FOLLOW_ELSEWHERE, /* the pointers lead elsewhere, and no thread has asked for a move */
};

/*
 * What look_at_code() needs of a hit, before follow_hold(): the entry's watch where the kernel met
 * it, or else at the chain's present place.
 */
struct control_watch follow_about(const struct watch_entry *entry, uintptr_t met);

/*
 * `met`: where the kernel says that the register was; 0: unknown. `decode`: the instruction of the
 * hit. After FOLLOW_THERE the chain does not move until follow_leave().
 */
enum follow_place follow_hold(struct watch_entry *entry, uintptr_t met,
			      const struct access_decode *decode);
void follow_leave(const struct watch_entry *entry);

/* A hit of the value that does not count. */
void follow_is_astray(const struct watch_entry *entry, enum follow_place place);

/*
 * The pointers of these entries' chains may have changed, a bit each: wait until the registers are
 * moved.
 * `is_late`: the change was before this signal, which was blocked.
 */
void follow_ask(uint64_t entries, int is_late);

/* Control side: where the first pointer of the entry's chain is. */
uintptr_t follow_start(const struct watch_entry *entry);

/* Control side: the entry is not live any more; threads that wait continue. */
void follow_end(const struct watch_entry *entry);

#endif
