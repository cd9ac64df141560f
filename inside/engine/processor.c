/* SPDX-License-Identifier: MIT */
#include "inside/engine/processor.h"

#include <cpuid.h>
#include <stdint.h>

#define XCR0_AVX 0x6u
#define XCR0_AVX512 0xe6u

static enum vector_width width;
static int is_amd;

static enum vector_width look(void)
{
	uint32_t a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return VECTOR_SSE;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if ((low & XCR0_AVX) != XCR0_AVX)
		return VECTOR_SSE;
	if ((low & XCR0_AVX512) == XCR0_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
	    (b & bit_AVX512F))
		return VECTOR_AVX512;
	return VECTOR_AVX;
}

void processor_look(void)
{
	uint32_t a, b, c, d;

	width = look();
	is_amd = __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx;
}

enum vector_width processor_width(void)
{
	return width;
}

int processor_is_amd(void)
{
	return is_amd;
}
