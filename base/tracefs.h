/* SPDX-License-Identifier: MIT */
/* Where the kernel names its tracepoints. A new machine has no tracefs mounted. */
#ifndef BASE_TRACEFS_H
#define BASE_TRACEFS_H

/* tracefs's folder of all events. NULL: we can't read it. */
const char *tracefs_events(void);

/* After NULL: why, and how to have it, in words. */
const char *tracefs_missing(void);

#endif
