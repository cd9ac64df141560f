/* SPDX-License-Identifier: MIT */
/*
 * A store (abi/page.h) that the tool itself writes for a process without an agent. What the tool
 * reads of the process from outside becomes events in this store, so that the parts that drain an
 * agent's store, into a folder or for wm_session_read(), also serve here.
 *
 * One thread writes it and drains it (drain.h), so the two never run at the same time. Writing
 * never waits for room: STORE_BLOCK acts as STORE_DISCARD.
 */
#ifndef RECORD_DRAIN_OWN_STORE_H
#define RECORD_DRAIN_OWN_STORE_H

#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct own_store;

/*
 * Make one with room for `bytes` of events; in it they have ticks of the TSC, as an agent's
 * events have. pid 0: of the kernel's events, whose lanes are CPUs. 0, -ENOMEM, -errno.
 */
int own_store_new(struct own_store **store, pid_t pid, uint64_t bytes, enum store_policy policy);
void own_store_free(struct own_store *store); /* NULL is allowed */

/* The descriptor for drain_new(), owned by the store. */
int own_store_fd(const struct own_store *store);

/* In a store of the kernel's events these replace the tid. A sum over all CPUs has no CPU. */
#define OWN_STORE_CPU(cpu) ((pid_t)(cpu) + 1)
#define OWN_STORE_CPU_APART(cpu) ((pid_t)(cpu) + 1 + OWN_STORE_APART) /* its wakes */
#define OWN_STORE_APART ((1 << 20) + 2048)
#define OWN_STORE_NO_CPU ((pid_t)INT32_MAX)

/*
 * Write an event of a thread, of a time of CLOCK_MONOTONIC. Its fields have no gaps and at most
 * OWN_STORE_FIELDS_MAX bytes. If the time is before that of the thread's last event, it is changed
 * to that. Without room, the event counts as lost.
 */
void own_store_write(struct own_store *store, pid_t tid, uint64_t time_ns, uint32_t id,
		     const void *fields, size_t bytes);

#define OWN_STORE_FIELDS_MAX 3072

/* Whether the next event surely has room; else a drain makes some. */
int own_store_has_room(struct own_store *store);

/* Close all pages, so that a drain may take them. */
void own_store_quiet(struct own_store *store);

/* Count events that were lost before they were written: of a thread, or with 0 of unknown ones. */
void own_store_lose(struct own_store *store, pid_t tid, uint64_t count);

#endif
