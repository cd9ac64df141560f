/* SPDX-License-Identifier: MIT */
/* Taking pages from a store's pool. Any thread, on the hit path. */
#ifndef INSIDE_STORE_POOL_H
#define INSIDE_STORE_POOL_H

#include "inside/store/thread_writer.h"

/*
 * Take a page of *bytes (UNIT_BYTES or CHUNK_BYTES); a large one is tried as small and the other
 * way round before giving up, unless `exact`, which only large ones are asked for. *bytes gets what
 * was taken, if something was: nothing of it is ever read back from the store, where the outside
 * can write. Returns the unit's number, its page in state OPEN and no slot yet, or -1. Under the
 * cyclic policy the oldest full page is taken when none is free.
 */
int32_t pool_take(struct store *store, int exact, uint32_t *bytes);

/* Whether pool_take() may find something since it last found nothing. */
int pool_may_have(const struct store *store);

#endif
