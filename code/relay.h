/* SPDX-License-Identifier: MIT */
/*
 * Filler near by that can take the long jump for a place that has room for a short one only.
 */
#ifndef CODE_RELAY_H
#define CODE_RELAY_H

#include "code/sweep.h"

#include <stdint.h>

/*
 * The nearest 5 bytes of filler that a short jump at `address` reaches: behind a return or a jump, so
 * that nothing falls into them, and nothing jumps there. 0: there are none.
 */
uint64_t relay_find(const struct sweep *sweep, uint64_t address);

#endif
