/* SPDX-License-Identifier: MIT */
/* The state of a thread that a signal killed: the fault, the registers, the parameters' values. */
#ifndef CLI_TRAIL_CRASH_H
#define CLI_TRAIL_CRASH_H

#include "read/history/crash.h"
#include "read/rows/render.h"
#include "trace/trail/path.h"

/*
 * Lines behind the one of the thread's end: the fault, the innermost function's parameters, and for
 * a fault the registers. Nothing if the trace has no values.
 */
void trail_crash_text(struct out *out, const struct trail_path *path, struct image *image);

/* The same as rows, and the outer functions'. */
void trail_crash_rows(struct rows *rows, const struct trail_path *path, struct image *image);

/* `before`, and "text=0x0, limit=10"; "?" for an unknown value. Nothing if all are unknown. */
void trail_crash_arguments(struct out *out, const struct code_frame *frame, const char *before);

#endif
