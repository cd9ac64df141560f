/* SPDX-License-Identifier: MIT */
/*
 * The notify policy's watermark: a thread that looks at how full the stores are and tells the owner, by
 * eventfd or by signal, once, until it is wound up again. The agent wakes nobody.
 */
#ifndef SESSION_WATERMARK_H
#define SESSION_WATERMARK_H

#include "session/drain.h"

#include <waymark/options.h>

struct watermark;

/*
 * Check the notify options. A descriptor matters for WM_POLICY_NOTIFY alone; -1: none. 0; -EINVAL
 * for a signal that cannot be caught or is unknown, and a descriptor that is no eventfd; -EBADF for
 * one that is not open for writing.
 */
int watermark_check(enum wm_policy policy, int notify_fd, int notify_signal);

/* Notify the caller's process, by both or either. Any thread. */
void watermark_notify(int notify_fd, int notify_signal);

/* Start it. 0 or -errno. */
int watermark_new(struct watermark **watermark, int notify_fd, int notify_signal,
		  unsigned int percent);
void watermark_free(struct watermark *watermark); /* ends the thread; NULL is allowed */

/* Watch this store; forget it again, which must be done before it is freed. Any thread. */
int watermark_add(struct watermark *watermark, const struct drain *drain);
void watermark_remove(struct watermark *watermark, const struct drain *drain);

/* Whether a store has passed the mark since the last watermark_wind(). Any thread. */
int watermark_told(const struct watermark *watermark);

/* The stores were drained: tell the next time. */
void watermark_wind(struct watermark *watermark);

#endif
