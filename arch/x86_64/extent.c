/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/extent.h"

#include "arch/x86_64/masked.h"

#define READ 0x80u
#define NOT_KNOWN 0u

void extent_x87(struct written *written, uint8_t opcode, unsigned int which, int is_narrow)
{
	/* of fldenv, fstenv, frstor and fsave: without an operand size prefix */
	static const uint8_t extents[8][8] = {
		[0] = { READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4,
			READ | 4 },
		[1] = { READ | 4, NOT_KNOWN, 4, 4, READ | 28, READ | 2, 28, 2 },
		[2] = { READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4, READ | 4,
			READ | 4 },
		[3] = { READ | 4, 4, 4, 4, NOT_KNOWN, READ | 10, NOT_KNOWN, 10 },
		[4] = { READ | 8, READ | 8, READ | 8, READ | 8, READ | 8, READ | 8, READ | 8,
			READ | 8 },
		[5] = { READ | 8, 8, 8, 8, READ | 108, NOT_KNOWN, 108, 2 },
		[6] = { READ | 2, READ | 2, READ | 2, READ | 2, READ | 2, READ | 2, READ | 2,
			READ | 2 },
		[7] = { READ | 2, 2, 2, 2, READ | 10, READ | 8, 10, 8 },
	};
	uint8_t extent = extents[opcode & 7][which & 7];

	written->bytes = extent & ~READ;
	if (is_narrow && written->bytes >= 28)
		written->bytes -= 14; /* pointers of 16 bits */
	written->way = extent & READ ? WRITTEN_NOT : WRITTEN_SOMEHOW;
}

/* SDM volume 2: instructions of the map 0F3A that store a part of a register. */
static unsigned int extent_extracted(const uint8_t *head, uint8_t opcode, unsigned int all)
{
	int is_wide = (head[2] & 0x80) != 0;

	if ((head[2] & 3) != 1)
		return 0;
	switch (opcode) {
	case 0x14: /* vpextrb */
		return 1;
	case 0x15: /* vpextrw */
		return 2;
	case 0x16: /* vpextrd, vpextrq */
		return is_wide ? 8 : 4;
	case 0x17: /* vextractps */
		return 4;
	case 0x19: /* vextractf32x4, vextractf64x2 */
	case 0x39:
		return 16;
	case 0x1b: /* vextractf32x8, vextractf64x4 */
	case 0x3b:
		return 32;
	case 0x1d: /* vcvtps2ph */
		return all / 2;
	default:
		return 0;
	}
}

static unsigned int extent_plain(unsigned int prefix, unsigned int length, int is_wide,
				 uint8_t opcode, unsigned int all)
{
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
		return prefix == 1 && !length ? (is_wide ? 8 : 4) : 0;
	case 0xd6: /* vmovq */
		return prefix == 1 && !length ? 8 : 0;
	default:
		return 0;
	}
}

unsigned int extent_evex(const uint8_t *head, uint8_t opcode)
{
	unsigned int prefix = head[2] & 3, length = head[3] >> 5 & 3, all = 16u << length;
	int is_masked = (head[3] & 0x07) != 0, is_strange = (head[3] & 0x10) || length == 3;
	unsigned int element = masked_element(head, opcode), ratio;

	if (is_strange || (is_masked && !element))
		return 0;
	if (masked_narrowed(head, opcode, &ratio))
		return all / ratio;
	if (masked_is_compress(head))
		return element ? all : 0;
	switch (head[1] & 7) {
	case 1:
		return extent_plain(prefix, length, (head[2] & 0x80) != 0, opcode, all);
	case 3:
		return extent_extracted(head, opcode, all);
	case 5: /* vmovsh, vmovw */
		return (opcode == 0x11 && prefix == 2) || (opcode == 0x7e && prefix == 1) ? 2 : 0;
	default:
		return 0;
	}
}
