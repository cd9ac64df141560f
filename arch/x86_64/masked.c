/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "arch/x86_64/masked.h"

#include "arch/x86_64/frame_state.h"

#define MAP_OF(head) ((head)[1] & 7u)
#define PREFIX_OF(head) ((head)[2] & 3u)
#define IS_WIDE(head) ((head)[2] & 0x80u)
#define MASK_OF(head) ((head)[3] & 7u) /* 0: no mask */

static uint64_t low_bits(unsigned int count)
{
	return count < 64 ? (UINT64_C(1) << count) - 1 : ~UINT64_C(0);
}

int masked_is_compress(const uint8_t *head)
{
	return MAP_OF(head) == 2 && PREFIX_OF(head) == 1;
}

unsigned int masked_narrowed(const uint8_t *head, uint8_t opcode, unsigned int *ratio)
{
	/* vpmovwb, vpmovdb, vpmovqb, vpmovdw, vpmovqw, vpmovqd, and those that saturate */
	static const uint8_t elements[] = { 1, 1, 1, 2, 2, 4 }, ratios[] = { 2, 4, 8, 2, 4, 2 };
	unsigned int which = opcode & 15u;

	if (MAP_OF(head) != 2 || PREFIX_OF(head) != 2 || opcode < 0x10 || opcode > 0x35 ||
	    which >= sizeof elements)
		return 0;
	*ratio = ratios[which];
	return elements[which];
}

static unsigned int element_extracted(const uint8_t *head, uint8_t opcode)
{
	if (PREFIX_OF(head) != 1)
		return 0;
	switch (opcode) {
	case 0x19: /* vextractf32x4, vextractf64x2 */
	case 0x1b: /* vextractf32x8, vextractf64x4 */
	case 0x39: /* vextracti32x4, vextracti64x2 */
	case 0x3b:
		return IS_WIDE(head) ? 8 : 4;
	case 0x1d: /* vcvtps2ph */
		return 2;
	default:
		return 0;
	}
}

unsigned int masked_element(const uint8_t *head, uint8_t opcode)
{
	unsigned int prefix = PREFIX_OF(head), small = IS_WIDE(head) ? 2 : 1, unused;
	unsigned int large = IS_WIDE(head) ? 8 : 4;

	if (masked_is_compress(head))
		return opcode == 0x63 ? small : opcode == 0x8a || opcode == 0x8b ? large : 0;
	if (MAP_OF(head) == 2)
		return masked_narrowed(head, opcode, &unused);
	if (MAP_OF(head) == 3)
		return element_extracted(head, opcode);
	if (MAP_OF(head) == 5) /* vmovsh */
		return opcode == 0x11 && prefix == 2 ? 2 : 0;
	if (MAP_OF(head) != 1)
		return 0;
	switch (opcode) {
	case 0x11: /* vmovups, vmovupd, vmovss, vmovsd */
		return large;
	case 0x29: /* vmovaps, vmovapd */
		return prefix < 2 ? large : 0;
	case 0x7f: /* vmovdqa32, vmovdqa64, vmovdqu32, vmovdqu64; vmovdqu8, vmovdqu16 */
		return prefix == 3 ? small : prefix ? large : 0;
	default:
		return 0;
	}
}

uint64_t masked_bits(const uint8_t *head, const ucontext_t *context)
{
	uint64_t mask = 0;

	if (!MASK_OF(head))
		return ~UINT64_C(0);
	return frame_mask(context, MASK_OF(head), &mask) ? 0 : mask;
}

int masked_evex(const uint8_t *head, uint8_t opcode, unsigned int bytes, const ucontext_t *context,
		uint64_t *kept)
{
	unsigned int element = masked_element(head, opcode), written = 0;
	uint64_t mask;

	*kept = 0;
	if (!element || !MASK_OF(head))
		return 0;
	if (frame_mask(context, MASK_OF(head), &mask))
		return -1;
	for (unsigned int i = 0; i < bytes / element; i++) {
		if (mask >> i & 1)
			written += element;
		else
			*kept |= low_bits(element) << i * element;
	}
	if (masked_is_compress(head))
		*kept = low_bits(bytes) & ~low_bits(written);
	return 0;
}

unsigned int masked_vex_element(uint8_t opcode, int is_wide)
{
	switch (opcode) {
	case 0x2e: /* vmaskmovps */
		return 4;
	case 0x2f: /* vmaskmovpd */
		return 8;
	case 0x8e: /* vpmaskmovd, vpmaskmovq */
		return is_wide ? 8 : 4;
	default:
		return 0;
	}
}

int masked_by_signs(unsigned int number, unsigned int element, unsigned int bytes,
		    const ucontext_t *context, uint64_t *kept)
{
	uint8_t mask[32];

	*kept = 0;
	if (frame_vector(context, number, 0, bytes, mask))
		return -1;
	for (unsigned int at = 0; at < bytes; at += element) {
		if (!(mask[at + element - 1] & 0x80))
			*kept |= low_bits(element) << at;
	}
	return 0;
}
