/* SPDX-License-Identifier: MIT */
/*
 * The results of trials, in a file of the user: $XDG_CACHE_HOME/waymark/trials, else
 * ~/.cache/waymark/trials.
 *
 * It holds for one boot, one kernel, one user and one build of this table; a reader ignores any
 * other. It is written whole beside the old one and renamed, and its last line is a sum, so a
 * reader ignores a torn file. The folder must belong to the user, and others must not be able to
 * write there.
 */
#ifndef TARGET_TRIAL_RESULT_CACHE_H
#define TARGET_TRIAL_RESULT_CACHE_H

#include "target/trial/trial.h"

/*
 * Fill in the rows that the file has. Returns them, a bit each; 0 when there is no such file, or
 * not a valid one.
 */
uint64_t cache_read(struct trial_answer answers[TRIAL_COUNT]);

/*
 * Write all kept rows that are known. 0 or -errno: the cache is a convenience, so callers may
 * ignore it.
 */
int cache_write(const struct trial_answer answers[TRIAL_COUNT]);

#endif
