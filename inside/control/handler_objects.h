/* SPDX-License-Identifier: MIT */
/*
 * The objects of handlers from outside (abi/handler.h): their files, their loading and unloading.
 * dlopen(3) may wait for a thread of the program's that is in the loader, and runs code of the
 * user's. So a thread of its own calls it, and the control thread continues.
 *
 *	FILED -> LOADING     a session asked for its handlers
 *	LOADING -> LOADED    the session has them
 *	LOADING -> gone      it can't be loaded
 *	LOADED -> CLOSING    no session has it any more, and no thread runs it
 *	CLOSING -> gone
 *
 * Control thread only, except where noted. None is called under the agent's lock.
 */
#ifndef INSIDE_CONTROL_HANDLER_OBJECTS_H
#define INSIDE_CONTROL_HANDLER_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

/* A piece of a file, which goes with the session if that does not load it. 0 or an error. */
int objects_file(unsigned int lane, const char *body, size_t bytes);

/* Load, unload: 0 or an error at once, or 1: objects_serve() answers that serial later. */
int objects_load(unsigned int lane, uint32_t serial, const char *body, size_t bytes);
int objects_unload(unsigned int lane, uint32_t serial); /* nothing is armed */

/* Whether the session waits for one of these: it makes no requests meanwhile. */
int objects_are_awaited(unsigned int lane);

/* Why the session can have none: it must not arm without. 0: it has what it asked for. */
int objects_error(unsigned int lane);

/* Now and then: finish what the other thread did; give up what took too long. */
void objects_serve(void);

/* Whether that thread is at work. */
int objects_are_busy(void);

/* A session is over, and no thread is in a hit of it. */
void objects_release(unsigned int lane);

/* The child of a fork: it has the objects, for the lanes that it inherits, a bit each. */
void objects_forked(uint32_t lanes);

#endif
