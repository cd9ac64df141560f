/* SPDX-License-Identifier: MIT */
/*
 * The channel's log (abi/engine.h): what ids mean, and where code comes from. Under the engine's
 * lock.
 */
#ifndef INSIDE_ENGINE_LOG_H
#define INSIDE_ENGINE_LOG_H

#include "abi/engine.h"
#include "base/mapped.h"

/*
 * Room for an entry of so many bytes, at most a quarter of the log. Its head is filled in. Waits
 * for the tool while the tool lives. NULL: the tool is gone.
 */
void *log_begin(enum engine_entry_kind kind, uint32_t bytes);

/* The entry is as it should be. */
void log_end(void);

/* Code of a file, from `start` to `end`; once for each such place. */
void log_module(const struct mapped *line, uint64_t start, uint64_t end, const char *path);

/*
 * These addresses are unmapped. The log says so of each module that has a part there. Returns 1 if
 * another part of a module stays: then read the mappings again (ranges_read()).
 */
int log_gone(uint64_t start, uint64_t bytes);

/* In a copy of the process, which has a log of its own: nothing is in it yet. */
void log_restart(void);

#endif
