/* SPDX-License-Identifier: MIT */
/*
 * The code that packs a place's fields and calls the agent.
 */
#ifndef CODE_PAYLOAD_H
#define CODE_PAYLOAD_H

#include "code/emit.h"
#include "code/place.h"

#include <stdbool.h>

/*
 * Write the way in for the event at the point. has_red_zone: below the stack pointer lies something;
 * keeps_flags: the flags are still wanted. Returns 0, -EINVAL for a field that makes no sense,
 * -WM_E_FIELD_REACH.
 */
int payload_emit(struct emit *emit, const struct code_place *place, bool has_red_zone,
		 bool keeps_flags);

/* Write the way in for the return, where the stack pointer is at the return address. */
void payload_emit_return(struct emit *emit);

#endif
