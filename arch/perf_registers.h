/* SPDX-License-Identifier: MIT */
/* The registers in perf's samples: numbers of <asm/perf_regs.h>, which are bits of its masks. */
#ifndef ARCH_PERF_REGISTERS_H
#define ARCH_PERF_REGISTERS_H

#include <stdint.h>
#include <ucontext.h>

#define PERF_REGISTERS_ARGUMENTS 6 /* of a function, in registers */
#define PERF_REGISTERS_DWARF 17	   /* that DWARF numbers, with the program counter last */

extern const uint64_t perf_registers_general; /* a mask: with flags, without program counter */
extern const unsigned int perf_register_ip;
#define PERF_REGISTER_IP_BIT (UINT64_C(1) << perf_register_ip)
extern const unsigned int perf_register_result; /* of a function */
extern const unsigned int perf_registers_arguments[PERF_REGISTERS_ARGUMENTS];
extern const unsigned int perf_registers_dwarf[PERF_REGISTERS_DWARF];

/* The general registers as a signal's context. perf records no vector registers: it has none. */
void perf_registers_context(const uint64_t *registers, ucontext_t *context);

#endif
