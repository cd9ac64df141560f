/* SPDX-License-Identifier: MIT */
/* Room for descriptors in this process. Any thread may call these. */
#ifndef RECORD_PERF_DESCRIPTORS_H
#define RECORD_PERF_DESCRIPTORS_H

#include "base/detail.h"

#include <stddef.h>

/*
 * Room for `count` descriptors more: the soft limit raised, and the kernel's table made large
 * enough in one step. 0, or -WM_E_NO_DESCRIPTORS with words.
 */
int descriptors_need(size_t count, struct detail detail);

/* Set the soft limit to the hard one. 0, also where it is that already; or -errno. */
int descriptors_raise(void);

#endif
