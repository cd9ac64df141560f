/* SPDX-License-Identifier: MIT */
/*
 * For tests: /proc/kcore of a kernel of some bytes, with what names it, in a machine of files
 * (perf.h).
 */
#ifndef RECORD_TRAIL_TESTING_KCORE_H
#define RECORD_TRAIL_TESTING_KCORE_H

#include <stdint.h>

#define SAMPLE_KERNEL UINT64_C(0xffffffff81000000)
#define SAMPLE_KERNEL_MODULE UINT64_C(0xffffffffc0000000)

/* Offsets in the kernel's code. */
#define SAMPLE_KERNEL_ENTRY 0x00u /* swapgs; call DO; swapgs; sysretq */
#define SAMPLE_KERNEL_DO 0x20u	  /* nop; ret */
#define SAMPLE_KERNEL_FAULT 0x30u /* nop; iretq */

extern const uint8_t sample_kernel[0x40];

/* The core has that code, and a module's; kallsyms, modules and notes name both. */
void sample_kcore_put(const char *root);

#endif
