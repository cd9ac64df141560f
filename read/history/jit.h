/* SPDX-License-Identifier: MIT */
/*
 * The functions that a process made at run time, by the copy of its map in the trace's folder
 * (trace/perf_map.h); of the trace's process of the kernel, the kernel's functions
 * (trace/kernel_names.h). The module is not one of the process's: it has no file, and covers no
 * addresses but those of the functions.
 */
#ifndef READ_HISTORY_JIT_H
#define READ_HISTORY_JIT_H

#include "read/history/image_modules.h"

struct jit {
	struct image_mapped mapped; /* never opened */
	struct code_symbols symbols;
	char *text, path[64];
};

/*
 * Of the process `pid` of a trace, or of the kernel; `trace` NULL: of none. 0 also where there is
 * no map, or a damaged one, whose lines that can't be read are left out; or -ENOMEM. Release also
 * after an error.
 */
int jit_open(struct jit *jit, const struct trace_reader *trace, uint32_t pid, int is_kernel);
void jit_release(struct jit *jit);

#endif
