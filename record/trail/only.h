/* SPDX-License-Identifier: MIT */
/*
 * A sink (sink.h) before another: it passes on the blocks of chosen modules. Other code becomes
 * a TRAIL_GAP_ELSEWHERE, which says where the thread came back; of its events those about
 * the thread itself pass, and those about its end. System calls of other code do not pass.
 *
 * One thread at a time uses it, as the sink behind it.
 */
#ifndef RECORD_TRAIL_ONLY_H
#define RECORD_TRAIL_ONLY_H

#include "record/trail/sink.h"

#include <stddef.h>
#include <stdint.h>

#define ONLY_NAMES_MAX 16
#define ONLY_NAME_BYTES 64

/*
 * The chosen modules, as name_match_module() takes their paths and sonames; or ONLY_MAIN, the
 * program itself. Without a name: all.
 */
struct only_names {
	uint32_t count;
	char names[ONLY_NAMES_MAX][ONLY_NAME_BYTES];
};

#define ONLY_MAIN "main"

struct only;

/*
 * `to` is the caller's, must live longer, and takes paths where the origin puts them. `names` are
 * copied. 0 or -ENOMEM.
 */
int only_open(struct only **only, struct trail_sink *to, const struct only_names *names);

/* Where an origin puts what it has. */
struct trail_sink *only_sink(struct only *only);

/*
 * The names that matched no module of any process, into text[bytes], divided by ", "; "" if all
 * matched.
 */
void only_missing(const struct only *only, char *text, size_t bytes);

/* After all threads have ended. NULL is allowed. */
void only_close(struct only *only);

#endif
