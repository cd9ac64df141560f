/* SPDX-License-Identifier: MIT */
/*
 * Names of the kernel's functions that a recording met. The recorder takes them from
 * /proc/kallsyms, so that the trace can be read on another machine. The file in the trace's folder
 * is hidden; its lines are those of a perf map (trace/perf_map.h): START BYTES NAME. A function of
 * a kernel module has " [MODULE]" behind its name.
 */
#ifndef TRACE_KERNEL_NAMES_H
#define TRACE_KERNEL_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_NAMES_FILE ".kernel-symbols"

/*
 * Write the functions at `addresses`, which the call sorts, into the folder. `root` is before
 * /proc/kallsyms ("": this machine's). 0 also where the kernel shows no addresses: then there is no
 * file. -ENOMEM; -errno when the file can't be written, and then the folder has none.
 */
int kernel_names_write(int folder, const char *root, uint64_t *addresses, size_t count);

#endif
