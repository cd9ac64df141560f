/* SPDX-License-Identifier: MIT */
/*
 * The modules that an engine reports in its log, given to a sink in the order in which they came
 * and went: by the files that they were, or, where these were deleted, by the process's memory.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_MODULES_H
#define RECORD_TRAIL_SOFT_SOFT_MODULES_H

#include "abi/engine.h"
#include "record/trail/modules.h"
#include "record/trail/soft/soft_clock.h"

struct soft_modules {
	struct modules modules;
	const struct soft_clock *clock;
	pid_t pid;
	int is_gone; /* the process has nothing mapped any more */
};

/* The engine saw code mapped, or, ENGINE_ENTRY_GONE, unmapped. 0, or the sink's error. */
int soft_modules_told(struct soft_modules *modules, const struct engine_module *module,
		      const char *path);

#endif
