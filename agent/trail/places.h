/* SPDX-License-Identifier: MIT */
/* Where memory of the engine's own lies: what the program must not get hold of. Asked from anywhere, handlers too. */
#ifndef AGENT_TRAIL_PLACES_H
#define AGENT_TRAIL_PLACES_H

#include <stdint.h>

/* `is_chosen`: by us, not by the kernel, for translated code only. */
void places_add(uint64_t start, uint64_t bytes, int is_chosen);
void places_drop(uint64_t start);

/* Some of [start, start + bytes) is ours. */
int places_meet(uint64_t start, uint64_t bytes);

/* Something of ours begins right there. */
int places_begin(uint64_t start);

/* All threads have left but one that is about to: the addresses that we have chosen are the program's again. */
void places_vacate(void);

#endif
