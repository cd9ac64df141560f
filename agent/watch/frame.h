/* SPDX-License-Identifier: MIT */
/*
 * Local variables' frames, inside (abi/frame.h): who enters a function waits until his frame's watches stand; a hit is held
 * against the frame that it would be of.
 */
#ifndef AGENT_WATCH_FRAME_H
#define AGENT_WATCH_FRAME_H

#include "agent/watch/take.h"

#include <stdint.h>
#include <ucontext.h>

/*
 * A thread is at a watched function's first instruction. In the signal's handler, with all other signals blocked; waits at
 * most FRAME_WAIT_MS. Hit path but for that.
 */
void frame_enter(const struct watch_entry *entry, const ucontext_t *context);

/* What a hit of WATCH_OF_FRAME is. */
enum frame_hit {
	FRAME_HIT,  /* the variable's */
	FRAME_PAST, /* the frame is not, or is no more, or the place is something else's */
	FRAME_OWN,  /* our own doing on the frame's stack, before it began or after it ended */
};

/*
 * `met`: what the kernel says was watched where the hit was; 0: not known. A signal may be of a hit that was made before the
 * watch went to this frame: it bears what the event says when it is sent, but for this.
 *
 * Until frame_leave() the entry stays that of the frame that it is: also its address. Whatever this returns. Hit path.
 */
enum frame_hit frame_hold(struct watch_entry *entry, const ucontext_t *context, uintptr_t met);
void frame_leave(const struct watch_entry *entry);

/* What was held is not the variable's all the same. Hit path. */
void frame_is_outside(const struct watch_entry *entry);

/*
 * Control side: a frame of a group's lives already; it is asked for as one that begins is. What is no frame is found out by
 * its first hit.
 */
void frame_lives(const struct watch_entry *entry, unsigned int frame, int32_t tid, uintptr_t cfa);

/* Control side: a session asks for its first watch of a frame: none is in use. */
void frame_begin(unsigned int lane);

/* The session's entries are down: whoever waits goes on. */
void frame_release(unsigned int lane);

#endif
