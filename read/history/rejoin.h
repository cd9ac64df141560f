/* SPDX-License-Identifier: MIT */
/* Where two trails that have parted meet again. */
#ifndef READ_HISTORY_REJOIN_H
#define READ_HISTORY_REJOIN_H

#include "read/history/course.h"

/* Whether code may be on a detour: of the module of that number, 0 for memory of none. */
struct rejoin_rule {
	int (*is_harmless)(const void *rule, uint32_t module);
	int may_call; /* whatever it calls is on the detour too */
};

/*
 * Go on on both to where the function in which they parted returns, to the same caller on both. 1;
 * or 0, and nothing has changed: that never happens, or code is run that may not be on a detour, or
 * what can't be seen through comes before.
 */
int rejoin_caller(struct course courses[2], const struct rejoin_rule *rule);

/*
 * Behind something missing in `gap`'s trail: move the other to the place where both do the same
 * again, for some blocks. `lost`: so many are known to be missing there; 0: unknown. 1; 0, and
 * nothing has changed: not found.
 */
int rejoin_after_loss(struct course *gap, struct course *other, uint64_t lost);

#endif
