/* SPDX-License-Identifier: MIT */
/* How far long work is that reads trails: a line on the terminal that stderr is, if it is one. */
#ifndef CLI_PULSE_H
#define CLI_PULSE_H

#include <stdint.h>

/*
 * Whether the line is to be renewed: a few times a second, and not in the first of all. Cheap
 * enough for each packet.
 */
int pulse_is_due(void);

/* Renew it: what is done, how much of how much. */
void pulse_show(const char *what, uint64_t done, uint64_t all);

/* Take it away, before anything else is printed. */
void pulse_end(void);

/* For loops over blocks, which may call it for each: the line, if it is due. */
void pulse_beat(const char *what, uint64_t done, uint64_t all);

#endif
