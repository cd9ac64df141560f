/* SPDX-License-Identifier: MIT */
/*
 * The notify policy's watermark: a thread polls how full the stores are, and notifies the owner by
 * eventfd or signal: once, until watermark_wind(). The agent sends no notification itself.
 */
#ifndef RECORD_DRAIN_WATERMARK_H
#define RECORD_DRAIN_WATERMARK_H

#include "record/drain/drain.h"

#include <waymark/options.h>

struct watermark;

/* Start the thread. 0 or -errno. */
int watermark_new(struct watermark **watermark, int notify_fd, int notify_signal,
		  unsigned int percent);
void watermark_free(struct watermark *watermark); /* ends the thread; NULL is allowed */

/* Add a store; remove it, which must be done before it is freed. Any thread. */
int watermark_add(struct watermark *watermark, const struct drain *drain);
void watermark_remove(struct watermark *watermark, const struct drain *drain);

/* Whether the owner was notified since the last watermark_wind(). Any thread. */
int watermark_told(const struct watermark *watermark);

/* The stores were drained: notify again the next time. */
void watermark_wind(struct watermark *watermark);

#endif
