/* SPDX-License-Identifier: MIT */
/* From a claim of waymark/claim.h to an event object. */
#ifndef RECORD_PERF_CLAIM_PLACES_H
#define RECORD_PERF_CLAIM_PLACES_H

#include "record/perf/object.h"

#include <waymark/claim.h>

/*
 * Fill in request->reserved with the debug registers of a claim, which must live until the object
 * is armed or released. 0; -EINVAL with words: the claim has no such registers, or not so many, or
 * is another process's.
 */
int claim_places(struct wm_claim *claim, struct event_request *request, struct detail detail);

#endif
