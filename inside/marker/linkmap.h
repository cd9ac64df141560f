/* SPDX-License-Identifier: MIT */
/*
 * The loader's list of modules, read as a debugger reads it (<link.h>, struct r_debug), without the
 * loader's locks. In a static program the list is the program alone.
 */
#ifndef INSIDE_MARKER_LINKMAP_H
#define INSIDE_MARKER_LINKMAP_H

#include "inside/marker/module.h"

#include <stdint.h>

#define LINKMAP_PATH_MAX 4096

struct linkmap_module {
	struct module_place place;
	uintptr_t name; /* of its path, read with linkmap_path() only when it is wanted */
};

/* Find the list. Once; 0 or -errno. */
int linkmap_init(const struct text *text);

/*
 * Call visit() for each module. Returns 0; -EAGAIN if the loader is at work on the list: then
 * nothing was visited; -EFAULT if it changed under our eyes; what visit() returns when that isn't
 * 0.
 */
int linkmap_walk(const struct text *text, int (*visit)(const struct linkmap_module *, void *),
		 void *data);

/* A module's path into `path` of LINKMAP_PATH_MAX bytes; "" if it can't be read. */
void linkmap_path(const struct text *text, const struct linkmap_module *module, char *path);

/* What the loader is at: RT_CONSISTENT, RT_ADD or RT_DELETE. RT_CONSISTENT in a static program. */
int linkmap_state(const struct text *text);

/* The same, read straight from the loader's memory: for the thread that the loader runs in. */
int linkmap_state_now(void);

/* The function that the loader calls at each change (r_brk); 0 in a static program. */
uintptr_t linkmap_hook_address(void);

/*
 * The child of a fork: if the loader was at work in a thread of the parent, it will never be done.
 */
void linkmap_forked(void);

#endif
