/* SPDX-License-Identifier: MIT */
/*
 * Processes that the engine has recorded, and that went on natively in the middle (enum
 * engine_native), by the cause.
 */
#ifndef RECORD_TRAIL_SOFT_NATIVE_H
#define RECORD_TRAIL_SOFT_NATIVE_H

#include "abi/engine.h"

#include <sys/types.h>

struct natives {
	uint32_t counts[ENGINE_NATIVES];
	int32_t pids[ENGINE_NATIVES];		 /* the first of each; 0: none */
	uint64_t after_ns[ENGINE_NATIVES];	 /* of that: since the recording began */
	uint32_t unfollowed[ENGINE_UNFOLLOWEDS]; /* children that were never recorded */
};

/* One more. An unknown cause is ignored. */
void native_note(struct natives *natives, uint32_t why, pid_t pid, uint64_t after_ns);

void native_add(struct natives *natives, const struct natives *more);

/* In words, for use in parentheses. Static. */
const char *native_words(enum engine_native why);

/* What the user can do about it. Static. */
const char *native_hint(enum engine_native why);

/* The same of children that were never recorded, the hint behind "; ". Static. */
const char *native_unfollowed_words(enum engine_unfollowed why);

#endif
