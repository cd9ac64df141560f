/* SPDX-License-Identifier: MIT */
/*
 * The origin `soft`: an engine inside of the process runs its program as translated code, which
 * logs its blocks (engine/, abi/engine.h); this part reads the log.
 *
 * ptrace(2) is used only while the engine enters the process. When the tool ends, the process
 * continues. All calls come from one thread: tracing_soft, by take() at a gate of soft_become()
 * (soft_launch.h), or by attach(), which stops all threads.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_H
#define RECORD_TRAIL_SOFT_SOFT_H

#include "record/trail/tracing.h"

/* As let_go(), and release; an error is of the writing. NULL is allowed. */
int soft_close(struct tracing *soft);

#endif
