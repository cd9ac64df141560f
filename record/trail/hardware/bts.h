/* SPDX-License-Identifier: MIT */
/*
 * The records of Intel's Branch Trace Store, in an AUX area of intel_bts, woven into a trail.
 */
#ifndef RECORD_TRAIL_HARDWARE_BTS_H
#define RECORD_TRAIL_HARDWARE_BTS_H

#include "record/trail/hardware/weave.h"

/* Intel SDM, volume 3, 18.4.9 "BTS and DS save area", "64-bit branch trace record format". */
#define BTS_RECORD_BYTES 24u

/* Records, oldest first. A record cut at the end is lost. 0 or the sink's error. */
int bts_take(struct weave *weave, const uint8_t *bytes, size_t count);

#endif
