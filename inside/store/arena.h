/* SPDX-License-Identifier: MIT */
/*
 * Where writers live: one anonymous mapping with MADV_WIPEONFORK (madvise(2), Linux 4.14). Zero is
 * its initial state, so a child finds it empty and knows by that.
 */
#ifndef INSIDE_STORE_ARENA_H
#define INSIDE_STORE_ARENA_H

#include "inside/store/thread_writer.h"

/* Map it; 0 or -errno. Once. */
int arena_init(void);

/* False in the child of a fork until arena_forked(). Any thread and signal context. */
int arena_is_ours(void);

/*
 * Whether `store` is not in this process's memory: this is the child of a bare clone(2), and its
 * parent's store is alone. Any thread and signal context.
 */
static inline int arena_lacks(const struct store *store)
{
	return store->is_alone && !__atomic_load_n(&store->is_lent, __ATOMIC_RELAXED) &&
	       !arena_is_ours();
}

/* The child of a fork starts afresh. */
void arena_forked(void);

/* The id of the thread that the thread pointer is of. Any thread and signal context. */
int32_t arena_own_tid(void);

/* One past the highest address of the main thread's stack. */
uintptr_t arena_main_stack_end(void);

/*
 * The stack that libc gave the thread that the thread pointer is of. Until arena_learn_stacks()
 * only the part next to a thread's block is known. Any thread and signal context.
 */
struct writer_stack arena_own_stack(void);

/* Find where libc keeps a thread's stack. Once, in a thread that pthread_create() made. */
void arena_learn_stacks(void);

/*
 * Whether the thread that the thread pointer is of runs here; 0: a bare clone() that shares it. The
 * kernel keeps a thread's CPU in its area of rseq(2), which a bare clone doesn't have. So a clone
 * that runs on the CPU that its maker ran on last passes for it, as all do where libc registers no
 * area. Any thread and signal context.
 */
int arena_is_own_thread(void);

/* A LIVE writer for the calling thread; NULL if none is free. Calls libc: vectors_call_aside(). */
struct writer *arena_writer_new(void);

/* Lanes for a deeper level; NULL if none are free. Any thread and signal context. */
struct lanes *arena_lanes_new(void);

/* Make room for rows. 0 or -ENOMEM. Control side, before any plan has sums; any number of times. */
int arena_rows_prepare(void);
int arena_rows_any(void);

/* The rows of one depth; NULL if none are free. Any thread and signal context. */
struct rows *arena_rows_new(void);

/* Make room for open spans, likewise; and those of a writer, in its own thread. Hit path. */
int arena_spans_prepare(void);
struct spans *arena_spans(const struct writer *writer);

/*
 * End all streams of the writer of a thread that was seen dead, and free it, if the writer is still
 * its own: `births` as it was read before looking. Control thread.
 */
void arena_writer_end_dead(struct writer *writer, uint32_t births);

/*
 * Ending lanes is for one at a time: a thread may exit while the control thread makes its store
 * quiet. Held for moments; with signals blocked where the owner's handlers might hit.
 */
void arena_ending_take(struct writer *writer);
void arena_ending_drop(struct writer *writer);

/*
 * Hits of the marker whose plans bear this number (plan.h), by all threads since the agent came; a
 * thread that ends meanwhile may be missed or counted twice. UINT64_MAX: it isn't counted. Control
 * side.
 */
uint64_t arena_hits(uint32_t number);

/* Call visit() for each writer in use. Control side. */
void arena_each(void (*visit)(struct writer *writer, void *data), void *data);

#endif
