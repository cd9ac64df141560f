/* SPDX-License-Identifier: MIT */
#ifndef AGENT_MARKER_HIT_H
#define AGENT_MARKER_HIT_H

#include <stdint.h>

/*
 * What goes into the wm_record.enter of a marker with these field types: one of the stubs
 * below, by the payload's shape (plan.h). See abi/site.h.
 */
uint64_t hit_entry(const uint8_t types[16]);

/* arch/: the stubs. */
void hit_enter_fixed(void);
void hit_enter_text(void);
void hit_enter_refs(void);

#endif
