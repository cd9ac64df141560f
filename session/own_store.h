/* SPDX-License-Identifier: MIT */
/*
 * A store (abi/page.h) that this process writes itself, of a process that has no agent: what is read of it from outside becomes
 * events there, and whatever takes an agent's events, into a folder or by wm_session_read(), takes these.
 *
 * The drain of it (drain.h) and its writer are of one thread, so no two of its steps ever meet. Nobody waits for room: STORE_BLOCK
 * is as STORE_DISCARD.
 */
#ifndef SESSION_OWN_STORE_H
#define SESSION_OWN_STORE_H

#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct own_store;

/* Make one; times are of CLOCK_MONOTONIC. `bytes` are for events. 0, -ENOMEM, -errno. */
int own_store_new(struct own_store **store, pid_t pid, uint64_t bytes, enum store_policy policy);
void own_store_free(struct own_store *store); /* NULL is allowed */

/* For drain_new(); the store's. */
int own_store_fd(const struct own_store *store);

/*
 * Write an event of a thread: its fields without gaps, OWN_STORE_FIELDS_MAX bytes at most. A time before the thread's last event is
 * taken for that one's. Where there is no room it is counted as lost.
 */
void own_store_write(struct own_store *store, pid_t tid, uint64_t time_ns, uint32_t id,
		     const void *fields, size_t bytes);

#define OWN_STORE_FIELDS_MAX 1024

/* Nothing more is written for now: all of it may be taken. */
void own_store_quiet(struct own_store *store);

/* Events that were lost before they could be written, of nobody knows which thread. */
void own_store_lose(struct own_store *store, uint64_t count);

#endif
