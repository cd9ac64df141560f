/* SPDX-License-Identifier: MIT */
/*
 * The modules that an engine reports, given to a sink: as the process has them, or, once it is
 * gone, by their files.
 */
#ifndef BRANCH_SOFT_SOFT_MODULES_H
#define BRANCH_SOFT_SOFT_MODULES_H

#include "abi/engine.h"
#include "branch/modules.h"

struct soft_modules {
	struct modules modules;
	pid_t pid;
	int is_gone; /* the process has nothing mapped any more */
};

/* Report what is mapped now. 0, or the sink's error. */
int soft_modules_note(struct soft_modules *modules);

/* The engine saw code mapped. The same. */
int soft_modules_told(struct soft_modules *modules, const struct engine_module *module,
		      const char *path);
void soft_modules_release(struct soft_modules *modules);

#endif
