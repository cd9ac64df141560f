/* SPDX-License-Identifier: MIT */
/* The modules of a process that a trail goes through, reported to its sink as they come. */
#ifndef RECORD_TRAIL_MODULES_H
#define RECORD_TRAIL_MODULES_H

#include "base/elf.h"
#include "base/maps.h"
#include "record/trail/sink.h"
#include "trace/trail/module_epochs.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct modules {
	struct trail_sink *sink;
	struct module_epochs epochs; /* of what was reported */
	struct module_noted {
		uint64_t start, device, inode;
		uint64_t code; /* where the engine saw code of it first; 0: not yet */
		struct control_module module;
		char *path;
	} * noted;
	size_t count, room;
	int is_copied; /* modules_copy(), and not looked at since */
};

/*
 * The module whose first mapping that is, by the process's memory (/proc/PID/mem): so also what was
 * deleted since, and the vdso. 0: its headers can't be read, and the base is that mapping's.
 */
int modules_read(struct control_module *module, int memory, const struct map *first);
void modules_build_id(struct control_module *module, const struct elf *elf);

/* The first mapping of a file's that others follow, this one among them. */
const struct map *modules_first_map(const struct maps *maps, const struct map *map);

/*
 * Note what has code in the process and was not noted yet, and what was noted and has gone. 0, also
 * where its map can't be read; or the sink's error.
 */
int modules_note(struct modules *modules, pid_t pid);

/* Report one to the sink. 0 or its error; -ENOMEM. */
int modules_report(struct modules *modules, const struct control_module *module, const char *path);

/*
 * The modules that a forked copy of the process has too; reports them to the sink. 0, -ENOMEM or
 * the sink's error.
 */
int modules_copy(struct modules *copy, const struct modules *modules);
int modules_tell(struct modules *modules);
void modules_release(struct modules *modules);

#endif
