/* SPDX-License-Identifier: MIT */
/* What a spec of a trail asks for: the options of record/spec/kinds.c. */
#ifndef RECORD_TRAIL_TRAIL_REQUEST_H
#define RECORD_TRAIL_TRAIL_REQUEST_H

#include "record/trail/only.h"
#include "record/trail/origin.h"

#include <stdint.h>

#define TRAIL_LAST_MIN (UINT64_C(64) << 10)
#define TRAIL_LAST_MAX (UINT64_C(64) << 30)

struct trail_request {
	unsigned int origins;	/* those named, 1 << enum origin; 1 << ORIGINS: auto */
	int is_auto;		/* then origin is not said */
	enum origin origin;	/* else */
	uint64_t last_bytes;	/* 0: all of it */
	struct only_names only; /* none: all */
	int has_kernel;
};

#endif
