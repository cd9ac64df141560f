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
	return MAP_OF(head) == 2;
}

unsigned int masked_element(const uint8_t *head, uint8_t opcode)
{
	unsigned int prefix = PREFIX_OF(head), small = IS_WIDE(head) ? 2 : 1;
	unsigned int large = IS_WIDE(head) ? 8 : 4;

	if (masked_is_compress(head)) {
		if (prefix != 1)
			return 0;
		return opcode == 0x63 ? small : opcode == 0x8a || opcode == 0x8b ? large : 0;
	}
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

uint64_t masked_evex(const uint8_t *head, uint8_t opcode, unsigned int bytes,
		     const ucontext_t *context)
{
	unsigned int element = masked_element(head, opcode), written = 0;
	uint64_t mask, kept = 0;

	if (!element || !MASK_OF(head) || frame_mask(context, MASK_OF(head), &mask))
		return 0;
	for (unsigned int i = 0; i < bytes / element; i++) {
		if (mask >> i & 1)
			written += element;
		else
			kept |= low_bits(element) << i * element;
	}
	return masked_is_compress(head) ? low_bits(bytes) & ~low_bits(written) : kept;
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

uint64_t masked_by_signs(unsigned int number, unsigned int element, unsigned int bytes,
			 const ucontext_t *context)
{
	uint8_t mask[32];
	uint64_t kept = 0;

	if (frame_vector(context, number, 0, bytes, mask))
		return 0;
	for (unsigned int at = 0; at < bytes; at += element) {
		if (!(mask[at + element - 1] & 0x80))
			kept |= low_bits(element) << at;
	}
	return kept;
}
