/* SPDX-License-Identifier: MIT */
/*
 * The modules that stood in a process since a moment, so that one is noticed that may lie where
 * another one was: what ran there before is not of the new one. One thread at a time uses it.
 */
#ifndef TRACE_TRAIL_MODULE_EPOCHS_H
#define TRACE_TRAIL_MODULE_EPOCHS_H

#include "abi/control.h"

#include <stddef.h>

struct module_epochs {
	struct module_epochs_module *all;
	size_t count, room;
};

/*
 * A module comes or goes. 1: it comes, and others that were here have gone, so that it may use
 * their addresses; a new epoch begins now, with only the modules that are still there. 0: it
 * replaces no other. -ENOMEM.
 */
int module_epochs_take(struct module_epochs *stood, const struct control_module *module,
		       const char *path);

/* The moment is now. */
void module_epochs_begin(struct module_epochs *stood);
void module_epochs_release(struct module_epochs *stood);

#endif
