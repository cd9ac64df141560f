/* SPDX-License-Identifier: MIT */
/* The processor's counters of events. */
#ifndef ARCH_COUNTERS_H
#define ARCH_COUNTERS_H

/* How many events a CPU of this machine can count at a time; 0: unknown. */
unsigned int counters_processor(void);

#endif
