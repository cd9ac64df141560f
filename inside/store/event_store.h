/* SPDX-License-Identifier: MIT */
/*
 * The inside of the store: one for each session, laid out as abi/page.h says.
 */
#ifndef INSIDE_STORE_EVENT_STORE_H
#define INSIDE_STORE_EVENT_STORE_H

#include "abi/page.h"

#include <stdint.h>

struct store_options {
	uint64_t buffer_bytes; /* data part; rounded up to pages */
	uint64_t block_ns;
	uint32_t policy;   /* enum store_policy */
	uint32_t clock;	   /* enum store_clock */
	uint32_t tool_pid; /* 0: children of fork only count here what they lose */
};

/*
 * Whether this process, or a child of it, may come to have other privileges: then no child writes
 * to its parent's store, nor keeps any of it.
 */
int store_is_alone(void);

/*
 * Make the store of session `lane` and map it; *fd gets the sealed memfd, which the caller sends
 * away and closes. The store takes its own mapping only: no descriptor stays behind.
 * Returns 0, -errno or -WM_E_MEMORY_LIMIT. Control side only, under the agent's lock.
 */
int store_open(unsigned int lane, const struct store_options *options, int *fd);

/* How many stores were opened so far. Under the agent's lock. */
uint32_t store_openings(void);

/*
 * Make session `lane`'s store quiet: afterwards no thread writes to it, every page is closed and
 * every stream ended. The plans that name the lane must be gone before. Returns 0, or -ETIMEDOUT
 * if some thread did not leave a hit in time; its page then stays open, and what it committed is
 * valid. Plans may name the lane again later. Control side, under the agent's lock.
 */
int store_quiet(unsigned int lane, unsigned int timeout_ms);

/*
 * Close a store that is quiet, and unmap it. Returns 0, or -EBUSY if some thread still holds a
 * page: then nothing is unmapped, and the lane must not be used again.
 */
int store_close(unsigned int lane);

/*
 * Grace period: returns 0 once every thread that was in a hit when this was called has left it,
 * -ETIMEDOUT if one did not within timeout_ms. Callers have changed or removed plans before.
 * `self_ok`: the calling thread itself may be in a hit (a probe's handler) and is not waited for.
 */
int store_quiesce(unsigned int timeout_ms, int self_ok);

/*
 * Close the pages that threads have rows in (abi/sum.h), so that the tool reads them; the threads
 * continue in other pages, as long as half of the store's are free. The page of a thread that does
 * not leave its hit in time is closed by a later call. Control thread.
 */
void store_rows_turn(unsigned int timeout_ms);

/*
 * Whether the calling thread is in a hit: in a probe's handler, or in a signal handler above one.
 */
int store_self_is_inside(void);

/* Whether writers of some store may wait for room. Control thread. */
int store_any_blocks(void);

/*
 * Mark the pages of threads that have died without saying so as theirs no more. Control thread, now
 * and then.
 */
void store_sweep(void);

/*
 * A fork begins, of `lanes`, a bit for each. Returns those that store_forked() is given in the
 * child. Of a store that is alone the child has the first page, if `is_locked`: the agent's lock is
 * held until store_forking_end(), in the parent. Else the child is counted as unreached.
 */
uint32_t store_forking(uint32_t lanes, int is_locked);
void store_forking_end(void);

/*
 * Of these lanes' stores that are alone: whether there are any; whether the tool has read none of
 * them for so long. Before store_forked().
 */
int store_any_is_alone(uint32_t lanes);
int store_is_silent(uint32_t lanes, unsigned int ms);

/*
 * The child of a fork: forget every store and writer of the parent, but those of `lanes`. To these
 * it writes as its parent does, if it may (abi/page.h); else its hits are counted there, as
 * discarded, until the process ends or forks again.
 */
void store_forked(uint32_t lanes);

/*
 * The child is about to continue the program, which may change its user: where stores are alone,
 * what it counted in its parent's, and counts from now on, is its own. Its counts are lost: the
 * tool counts a child that begins without it (control_thread.h).
 */
void store_forked_end(void);

/* Whether a child replaces this page then: store_close() must not unmap it. */
int store_is_counted_in(const struct wm_store *head);

/* In such a child: whether it writes to that store; whether the tool has stopped reading it. */
int store_is_shared(unsigned int lane);
int store_is_over(unsigned int lane);

/* And: this is why it has not reached the tool. Something of it is not recorded there. */
void store_unreached(unsigned int lane, int error);

/* Register for fork and thread exit; find the clock. Once. */
int store_init(void);

/* Which clock (enum store_clock) stamps session `lane`'s events. */
uint32_t store_clock(unsigned int lane);

/* The session's clock, as events are stamped. */
uint64_t store_ticks(unsigned int lane);

#endif
