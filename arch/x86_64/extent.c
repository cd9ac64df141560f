/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/extent.h"

#include "arch/x86_64/masked.h"

#define READ 0x80u
#define NOT_KNOWN 0u

void extent_x87(struct written *written, uint8_t opcode, unsigned int which)
{
	/* fldenv, fstenv, frstor and fsave have two sizes */
	static const uint8_t extents[8][8] = {
		[0] = { READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4,
			READ | 4 },
		[1] = { READ | 4, NOT_KNOWN, 4, 4, READ, READ | 2, NOT_KNOWN, 2 },
		[2] = { READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4,
			READ | 4 },
		[3] = { READ | 4, 4, 4, 4, NOT_KNOWN, READ | 10, NOT_KNOWN, 10 },
		[4] = { READ | 8, READ | 8, READ | 8, READ | 8, READ | 8, READ | 8, READ | 8,
			READ | 8 },
		[5] = { READ | 8, 8, 8, 8, READ, NOT_KNOWN, NOT_KNOWN, 2 },
		[6] = { READ | 2, READ | 2, READ | 2, READ | 2, READ | 2, READ | 2, READ | 2,
			READ | 2 },
		[7] = { READ | 2, 2, 2, 2, READ | 10, READ | 8, 10, 8 },
	};
	uint8_t extent = extents[opcode & 7][which & 7];

	written->bytes = extent & ~READ;
	written->way = extent & READ ? WRITTEN_NOT : WRITTEN_SOMEHOW;
}

unsigned int extent_evex(const uint8_t *head, uint8_t opcode)
{
	unsigned int prefix = head[2] & 3, length = head[3] >> 5 & 3, all = 16u << length;
	int is_masked = (head[3] & 0x07) != 0, is_strange = (head[3] & 0x10) || length == 3;
	unsigned int element = masked_element(head, opcode);

	if (is_strange || (is_masked && !element))
		return 0;
	if (masked_is_compress(head))
		return element ? all : 0;
	if ((head[1] & 7) != 1)
		return 0;
	switch (opcode) {
	case 0x11: /* vmovups, vmovupd, vmovss, vmovsd */
		return prefix == 2 ? 4 : prefix == 3 ? 8 : all;
	case 0x29: /* vmovaps, vmovapd */
	case 0x2b: /* vmovntps, vmovntpd */
		return prefix < 2 ? all : 0;
	case 0x7f: /* vmovdqa32, vmovdqu8 and their kin */
		return prefix ? all : 0;
	case 0xe7: /* vmovntdq */
		return prefix == 1 ? all : 0;
	case 0x13: /* vmovlps, vmovhps */
	case 0x17:
		return prefix < 2 && !length ? 8 : 0;
	case 0x7e: /* vmovd, vmovq */
		return prefix == 1 && !length ? (head[2] & 0x80 ? 8 : 4) : 0;
	case 0xd6: /* vmovq */
		return prefix == 1 && !length ? 8 : 0;
	default:
		return 0;
	}
}
