/* SPDX-License-Identifier: MIT */
/* Taking pages from a store's pool. Any thread, on the hit path. */
#ifndef INSIDE_STORE_POOL_H
#define INSIDE_STORE_POOL_H

#include "inside/store/thread_writer.h"

/*
 * Take a page. Returns its number, or -1 if there is none; it has no slot yet. Under the cyclic
 * policy the oldest full page is taken when none is free before it. Nothing is ever read back from
 * the store of what the outside can write.
 */
int32_t pool_take(struct store *store);

/* Whether pool_take() may find something since it last found nothing. */
int pool_may_have(const struct store *store);

#endif
