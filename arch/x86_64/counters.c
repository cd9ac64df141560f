/* SPDX-License-Identifier: MIT */
#include "arch/counters.h"

#include <cpuid.h>

/*
 * Intel's manual, volume 2, CPUID leaf 0AH: EAX bits 15 to 8. AMD's, volume 3, leaf 80000022H: EBX
 * bits 3 to 0; before that, 80000001H: ECX bit 23 says six, else there are four.
 */
unsigned int counters_processor(void)
{
	unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0, count = 0;

	if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx) {
		if (__get_cpuid(0xa, &eax, &ebx, &ecx, &edx))
			count = eax >> 8 & 0xff;
	} else if (__get_cpuid(0x80000022, &eax, &ebx, &ecx, &edx) && ebx & 0xf) {
		count = ebx & 0xf;
	} else if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx)) {
		count = ecx & 1u << 23 ? 6 : 4;
	}
	return count;
}
