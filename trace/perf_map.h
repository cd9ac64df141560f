/* SPDX-License-Identifier: MIT */
/*
 * Names of code that a process made at run time. JIT compilers write them for perf, one line a
 * function, to /tmp/perf-PID.map: START BYTES NAME, numbers in hexadecimal. The trace has a copy,
 * a hidden file, with what is in a jitdump as well.
 */
#ifndef TRACE_PERF_MAP_H
#define TRACE_PERF_MAP_H

#include <stdint.h>
#include <sys/types.h>

#define PERF_MAP_BYTES_MAX (64u << 20)	 /* that are copied, and read */
#define PERF_MAPS_BYTES_MAX (256u << 20) /* that are copied into a trace */
#define PERF_MAP_NAME_BYTES 32

/* A process whose map is wanted. */
struct perf_map_owner {
	uint32_t pid;
	uid_t uid;	     /* when the recording of it began */
	uint64_t start_time; /* field 22 of /proc/PID/stat; 0: not known */
	char *jitdump;	     /* where it is (trace/jitdump.h); NULL: it has none */
};

/* The copy's name; and whether a file of a trace's folder has such a name. */
void perf_map_name(uint32_t pid, char name[PERF_MAP_NAME_BYTES]);
int perf_map_is_name(const char *name);

/*
 * Copy the map and the jitdump of a process into the trace's folder, as far as there is `room` for
 * bytes, which is less then. 0 also where there is neither, or the folder has a copy. 0 for a file
 * that may be forged: a link, also a hard one; a file that belongs to neither root nor the
 * process's user, now or when it began; one that is older than the process. -errno when the copy
 * can't be written; then the folder has no copy.
 */
int perf_map_copy(int folder, const struct perf_map_owner *owner, uint64_t *room);

#endif
