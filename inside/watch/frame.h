/* SPDX-License-Identifier: MIT */
/*
 * Local variables' frames, inside (abi/frame.h): a thread that enters a function waits until its
 * frame's watches are armed; a hit is checked against the frame that it would belong to.
 */
#ifndef INSIDE_WATCH_FRAME_H
#define INSIDE_WATCH_FRAME_H

#include "inside/watch/watch_entry.h"

#include <stdint.h>
#include <ucontext.h>

/*
 * A thread is at a watched function's first instruction. In the signal's handler, with all other
 * signals blocked; waits at most FRAME_WAIT_MS. Otherwise hit path.
 */
void frame_enter(const struct watch_entry *entry, const ucontext_t *context);

/* What a hit of WATCH_OF_FRAME is. */
enum frame_hit {
	FRAME_HIT,  /* the variable's */
	FRAME_PAST, /* the frame is not, or is no more, or the place is something else's */
	FRAME_OWN,  /* our own doing on the frame's stack, before it began or after it ended */
};

/*
 * `met`: the watched address by the kernel; 0: unknown. A signal may be of a hit from before the
 * watch moved to this frame: its other data are those of the event when the signal is sent.
 *
 * Until frame_leave() the entry stays with its frame and its address, whatever this returns. Hit
 * path.
 */
enum frame_hit frame_hold(struct watch_entry *entry, const ucontext_t *context, uintptr_t met);
void frame_leave(const struct watch_entry *entry);

/* The held hit is not the variable's after all. Hit path. */
void frame_is_outside(const struct watch_entry *entry);

/*
 * Control side: a frame of a group is alive already; ask for it as for one that begins. The first
 * hit shows whether it is a frame.
 */
void frame_lives(const struct watch_entry *entry, unsigned int frame, int32_t tid, uintptr_t cfa);

/* Control side: a session asks for its first watch of a frame: none is in use. */
void frame_begin(unsigned int lane);

/* The session's entries are disarmed: waiting threads continue. */
void frame_release(unsigned int lane);

#endif
