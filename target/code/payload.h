/* SPDX-License-Identifier: MIT */
/*
 * The code that packs a place's fields and calls the agent.
 */
#ifndef TARGET_CODE_PAYLOAD_H
#define TARGET_CODE_PAYLOAD_H

#include "target/code/emit.h"
#include "target/code/probe_place.h"

/*
 * Write the way in for the event. stack_bytes: from the stack pointer up to where it was at the
 * point. Returns 0, -EINVAL for a field that makes no sense, -WM_E_FIELD_REACH.
 */
int payload_emit(struct emit *emit, const struct code_place *place, unsigned int stack_bytes);

/*
 * The most stack_bytes of a place whose return is wanted: the red zone protects these while the
 * agent is entered.
 */
#define PAYLOAD_RETURN_STACK_MAX 80

/* Write the way in for the return. */
void payload_emit_return(struct emit *emit, unsigned int stack_bytes);

#endif
