/* SPDX-License-Identifier: MIT */
/*
 * The options of markers: marker:SUBSYS:EVENT/count=NAME+NAME/. NAME is one of abi/cost.h's, or as
 * perf(1) abbreviates it.
 */
#ifndef RECORD_SPEC_COST_SPEC_H
#define RECORD_SPEC_COST_SPEC_H

#include "target/process/target.h"

#include <stdint.h>

#define COST_NAMES_MAX 4 /* in one spec */

/* Where "/OPTIONS/" begins at the end of a spec; NULL: it has none. */
const char *cost_options_find(const char *text);

/*
 * Read "/OPTIONS/" into a mask of enum cost_kind. 0; with words -WM_E_SPEC, -WM_E_COUNT_EVENT: no
 * such count, or none that a marker can have; -WM_E_COUNT_UNIT: this machine has no unit for it;
 * -WM_E_PERF_DENIED: a thread may not read its counter; -ENOMEM.
 */
int cost_options_read(const char *options, uint32_t *kinds, struct detail words);

/*
 * Make the system calls that the agent will make for counts. Returns how many seccomp filters let
 * the calling thread do so: one that does not may end us, and no target.
 */
long cost_calls_try(void);

/* Whether a spec that is no marker's asks for counts. */
int cost_is_misplaced(const char *text);

#endif
