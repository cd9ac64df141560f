/* SPDX-License-Identifier: MIT */
/* Why perf_event_open(2) is not to be had: the words of details. */
#ifndef RECORD_PERF_REFUSED_H
#define RECORD_PERF_REFUSED_H

#include "record/perf/instance.h"
#include "target/process/target.h"

#define PERF_PARANOID "kernel.perf_event_paranoid"
#define PERF_IS_FILTERED "a seccomp filter, such as containers have, refuses it"
#define PERF_IS_MISSING "this kernel has no perf_event_open(2)"

/* kernel.perf_event_paranoid; -1 is also its own lowest, which refuses nothing. */
int perf_paranoid(void);

/* Whether we have CAP_PERFMON or CAP_SYS_ADMIN, for which that level does not hold. */
int perf_is_privileged(void);

/*
 * Why the kernel refused an event, in words: its name; whether it was to see the kernel's part; how
 * many are open. Returns the error to be returned.
 */
int perf_refused(const struct instance *instance, const char *name, int has_kernel, size_t opened,
		 int error, struct detail detail);

#endif
