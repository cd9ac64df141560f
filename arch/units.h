/* SPDX-License-Identifier: MIT */
/* How many scarce units a processor has. */
#ifndef ARCH_UNITS_H
#define ARCH_UNITS_H

/* Debug registers that hold an address, of each thread and each CPU. */
unsigned int units_debug_registers(void);

/*
 * General counters of a CPU's performance unit, as CPUID reports them; 0: it has none, or the host
 * of a virtual machine gives it none.
 */
unsigned int units_counters(void);

#endif
