/* SPDX-License-Identifier: MIT */
/* What a stopped thread is in the middle of. */
#ifndef TARGET_PROCESS_INTERRUPTED_CALL_H
#define TARGET_PROCESS_INTERRUPTED_CALL_H

#include "base/maps.h"
#include "target/process/remote_thread.h"
#include "target/process/glibc.h"

/*
 * Whether the thread is in a system call that glibc's memory allocator doesn't make, and no signal
 * handler that is under way has interrupted the allocator: then it is not in the middle of it,
 * whatever stale words its stack holds.
 */
int interrupted_call_is_outside_malloc(const struct remote_thread *remote, const struct maps *maps,
				       const struct glibc *glibc);

#endif
