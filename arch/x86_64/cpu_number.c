/* SPDX-License-Identifier: MIT */
#include "arch/cpu_number.h"

/* Linux: arch/x86/include/asm/segment.h, __CPUNODE_SEG and vdso_read_cpunode(). */
#define CPU_SEGMENT 0x7b
#define CPU_MASK 0xfff

uint32_t cpu_number(void)
{
	uint32_t limit;

	__asm__ volatile("lsl %1, %0" : "=r"(limit) : "r"(CPU_SEGMENT));
	return limit & CPU_MASK;
}
