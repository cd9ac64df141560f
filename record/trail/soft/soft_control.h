/* SPDX-License-Identifier: MIT */
/*
 * What we say to the engines of all processes of a recording (struct engine_control): a page that
 * they map without the right to write. Nothing is read from it here.
 *
 * One thread at a time uses it, except soft_control_hold().
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_CONTROL_H
#define RECORD_TRAIL_SOFT_SOFT_CONTROL_H

#include "abi/engine.h"

#include <sys/types.h>
#include <time.h>

struct soft_channel;

struct soft_control {
	int fd; /* which no one can map to write; -1: it is part of a channel */
	uint8_t *reserve;
	size_t bytes; /* from there on, that are ours to unmap */
	struct engine_control *page;
	int is_held;
};

/* 0 or -errno. Close it also after an error. */
int soft_control_open(struct soft_control *control);

/* The same, in the channel of a process that is recorded alone: that may write it. */
void soft_control_open_in(struct soft_control *control, const struct soft_channel *channel);

/*
 * Engines wait for us from now on, as long as the calling thread lives: its list of robust
 * futexes becomes ours, so it may hold no robust mutex of the C library. In that thread it is let
 * go or closed, too.
 */
void soft_control_hold(struct soft_control *control);
void soft_control_let_go(struct soft_control *control);

/* All are asked for something: ENGINE_ASKED_*. */
void soft_control_ask(const struct soft_control *control, uint32_t asked);

/* A forked child has its channel; or is refused one. Wakes children that wait. */
void soft_control_serve(const struct soft_control *control);
void soft_control_refuse(const struct soft_control *control, pid_t parent, uint32_t count);

/* Sleep until an engine has something, no longer than `nap`. It may be missed. */
void soft_control_wait(const struct soft_control *control, const struct timespec *poll_wait);

/* Let go, and release. */
void soft_control_close(struct soft_control *control);

#endif
