/* SPDX-License-Identifier: MIT */
#include "arch/units.h"

#include <cpuid.h>

/* DR0 to DR3 */
unsigned int units_debug_registers(void)
{
	return 4;
}

/*
 * AMD's manual, volume 3, appendix E: version 2 has the number; six with the extended counters;
 * else four.
 */
static unsigned int amd_counters(void)
{
	unsigned int a, b, c, d;

	if (__get_cpuid(0x80000022, &a, &b, &c, &d) && (a & 1))
		return b & 0xf;
	if (!__get_cpuid(0x80000001, &a, &b, &c, &d))
		return 0;
	return c & 1u << 23 ? 6 : 4;
}

unsigned int units_counters(void)
{
	unsigned int a, b, c, d;

	/*
	 * Intel's manual, volume 2, CPUID leaf 0xA: bits 7:0 are the version, 15:8 the general
	 * counters
	 */
	if (__get_cpuid(0xa, &a, &b, &c, &d) && (a & 0xff))
		return a >> 8 & 0xff;
	if (!__get_cpuid(0, &a, &b, &c, &d))
		return 0;
	return b == signature_AMD_ebx ? amd_counters() : 0;
}
