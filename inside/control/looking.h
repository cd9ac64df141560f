/* SPDX-License-Identifier: MIT */
/*
 * When the control thread looks at what other tools do to armed sites
 * (inside/detour/foreign_bytes.h, inside/marker/restored.h).
 */
#ifndef INSIDE_CONTROL_LOOKING_H
#define INSIDE_CONTROL_LOOKING_H

#include "inside/patch/text.h"

#include <stdint.h>

/* Look, if anything is armed and it is time. Control thread, without the agent's lock. */
void looking_do(const struct text *text);

/* Milliseconds until the next look, or until a moment that comes before (CLOCK_MONOTONIC). */
int looking_wait_ms(uint64_t next_ns);

#endif
