/* SPDX-License-Identifier: MIT */
/* What a signal found that killed a thread: the fault, the registers, and the values of parameters. */
#ifndef CLI_TRAIL_CRASH_H
#define CLI_TRAIL_CRASH_H

#include "cli/json.h"
#include "history/crash.h"
#include "trace/trail/path.h"

/*
 * Lines behind the one of the thread's end: the fault, the innermost function's parameters, and of a fault the registers. Nothing where
 * the trace has no values.
 */
void trail_crash_text(struct out *out, const struct trail_path *path, struct image *image);

/* The same, as the member "crash": an object, or null. */
void trail_crash_json(struct json *json, const struct trail_path *path, struct image *image);

/* `before`, and "text=0x0, limit=10": "?" where a value is not known. Nothing where no parameter's is. */
void trail_crash_arguments(struct out *out, const struct code_frame *frame, const char *before);

#endif
