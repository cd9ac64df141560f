/* SPDX-License-Identifier: MIT */
/*
 * Branches as Intel's units store them, woven into a trail: the records of Branch Trace Store, in an
 * AUX area of intel_bts or as samples of branch-instructions, and the stacks of last branches beside samples.
 */
#ifndef SESSION_TRAIL_BTS_H
#define SESSION_TRAIL_BTS_H

#include "session/trail/perf_record.h"
#include "session/trail/weave.h"

/* Intel SDM, volume 3, 18.4.9 "BTS and DS save area", "64-bit branch trace record format". */
#define BTS_RECORD_BYTES 24u

/* Records, oldest first. What is cut at the end is lost. 0 or the sink's error. */
int bts_take(struct weave *weave, const uint8_t *bytes, size_t count);

/* One, as a sample of branch-instructions has it: from in its ip, to in its address. */
int bts_take_sample(struct weave *weave, const struct perf_record *sample);

/* A piece of a trail: the branches before a sample, and where the sample found the thread. What lies before it and behind is lost. */
int lbr_take_sample(struct weave *weave, const struct perf_record *sample);

#endif
