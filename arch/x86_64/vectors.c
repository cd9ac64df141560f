/* SPDX-License-Identifier: MIT */
#include "arch/vectors.h"

#include "arch/x86_64/frame_state.h"

#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>

/* x87, SSE, AVX, and AVX-512's three: components 0, 1, 2, 5, 6, 7 (Intel SDM vol. 1, 13.1) */
#define KEPT_COMPONENTS 0xe7u
#define LEGACY_BYTES 512u
#define HEADER_BYTES 64u
#define MASKS 5u    /* k0 to k7 */
#define ZMM_HIGH 6u /* the high halves of zmm0 to zmm15 */
#define MORE 7u	    /* zmm16 to zmm31 */

long vectors_keep(long (*fn)(void *), void *arg, unsigned long area_bytes, unsigned long mask,
		  void *area);

static unsigned long area_bytes = LEGACY_BYTES + HEADER_BYTES;
static unsigned long mask; /* 0: no XSAVE here */

/* What is kept aside; a bit of `taken` for each. */
#define AREAS 64u
#define AREA_BYTES 2816u /* AVX-512's registers end at 2,688, where all that is kept is there */
static struct area {
	unsigned char bytes[AREA_BYTES];
} areas[AREAS] __attribute__((aligned(64)));
static uint64_t taken;

static unsigned int enabled_components(void)
{
	unsigned int low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

void vectors_init(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	mask = enabled_components() & KEPT_COMPONENTS;
	for (unsigned int i = 2; i < 8; i++) {
		/* leaf 0xd, subleaf i: EAX bytes, EBX offset in the standard format */
		if (!(mask >> i & 1) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d))
			continue;
		if (a + b > area_bytes)
			area_bytes = a + b;
		if (i == MASKS)
			frame_masks_at = b;
		if (i == ZMM_HIGH)
			frame_zmm_high_at = b;
		if (i == MORE)
			frame_more_at = b;
	}
}

long vectors_call(long (*fn)(void *), void *arg)
{
	return vectors_keep(fn, arg, area_bytes, mask, NULL);
}

/* A signal's handler that jumps out of the call never frees its area. */
long vectors_call_aside(long (*fn)(void *), void *arg)
{
	uint64_t before = __atomic_load_n(&taken, __ATOMIC_RELAXED), bit = 0;
	long result;

	do {
		bit = ~before & (before + 1);
		if (!bit || area_bytes > AREA_BYTES)
			return vectors_call(fn, arg);
	} while (!__atomic_compare_exchange_n(&taken, &before, before | bit, 0, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	result = vectors_keep(fn, arg, area_bytes, mask, &areas[__builtin_ctzll(bit)]);
	__atomic_fetch_and(&taken, ~bit, __ATOMIC_RELEASE);
	return result;
}
