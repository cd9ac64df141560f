/* SPDX-License-Identifier: MIT */
#ifndef RECORD_TRAIL_HARDWARE_HARDWARE_H
#define RECORD_TRAIL_HARDWARE_HARDWARE_H

#include "record/trail/tracing.h"

/* A thread's buffer; where the kernel has not so much for us, half of it, and so on, down to this. */
#define HARDWARE_BUFFER_BYTES (UINT64_C(4) << 20)
#define HARDWARE_BUFFER_MIN (UINT64_C(16) << 10)

/* As let_go() of tracing_hardware, and release. NULL is allowed. */
int hardware_close(struct tracing *hardware);

#endif
