/* SPDX-License-Identifier: MIT */
/*
 * The notify policy's watch: a thread that looks at how full the stores are and tells the owner, by
 * eventfd or by signal, once, until it is wound up again. The agent wakes nobody.
 */
#ifndef SESSION_WATCH_H
#define SESSION_WATCH_H

#include "session/drain.h"

struct watch;

/* Start it. notify_fd and notify_signal: 0 for none. 0 or -errno. */
int watch_new(struct watch **watch, int notify_fd, int notify_signal, unsigned int percent);
void watch_free(struct watch *watch); /* ends the thread; NULL is allowed */

/* Watch this store; forget it again, which must be done before it is freed. Any thread. */
int watch_add(struct watch *watch, const struct drain *drain);
void watch_remove(struct watch *watch, const struct drain *drain);

/* Whether a store has passed the mark since the last watch_wind(). Any thread. */
int watch_told(const struct watch *watch);

/* The stores were drained: tell the next time. */
void watch_wind(struct watch *watch);

#endif
