/* SPDX-License-Identifier: MIT */
/*
 * Names of code that a process made at run time, as JIT compilers write them for perf in a jitdump
 * (Linux, tools/perf/Documentation/jitdump-specification.txt): jit-PID.dump, in any folder. The
 * compiler maps the file executable, so that who records sees where it is.
 */
#ifndef TRACE_JITDUMP_H
#define TRACE_JITDUMP_H

#include <stdint.h>

/* Whether a file that a process has mapped may be a jitdump, by its name. */
int jitdump_is_name(const char *path);

/*
 * Append a line of a perf map (trace/perf_map.h) for each function that was loaded, in the order of
 * their times, up to `room` bytes, which is less then. A record that breaks a rule ends the file.
 * 0, or -errno of the write.
 */
int jitdump_write(int from, int to, uint64_t *room);

#endif
