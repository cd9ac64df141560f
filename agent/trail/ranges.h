/* SPDX-License-Identifier: MIT */
/*
 * Where the program has code: its executable mappings, as /proc/self/maps tells them, and as its own system calls change them.
 * All under the engine's lock.
 */
#ifndef AGENT_TRAIL_RANGES_H
#define AGENT_TRAIL_RANGES_H

#include <stdint.h>

/* How many bytes of code can be read from `pc` on; 0: none stands there. Looks again where it knows of none. */
uint64_t ranges_left(uint64_t pc);

/* Read them all anew; told to the log where it has a file that the log has not seen. */
void ranges_read(void);

/* The program unmapped or changed [start, start + bytes). 1: there was code. */
int ranges_drop(uint64_t start, uint64_t bytes);

/* A mapping of the engine's own, which is not the program's code. */
void ranges_hide(uint64_t start, uint64_t bytes);

#endif
