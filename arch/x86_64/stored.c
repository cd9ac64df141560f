/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "arch/x86_64/stored.h"

#include "arch/x86_64/frame_state.h"
#include "arch/x86_64/masked.h"

#define SCATTER_STRETCH_MAX (1u << 20)

static unsigned int register_of(const struct parts *parts)
{
	return (parts->modrm >> 3 & 7) | (unsigned int)parts->r << 3;
}

static void put_vector(struct written *written, const struct parts *parts,
		       const ucontext_t *context, unsigned int from, unsigned int bytes)
{
	written->bytes = bytes;
	if (!frame_vector(context, register_of(parts), from, bytes, written->value))
		written->way = WRITTEN_NEW;
}

int stored_vector(struct written *written, const struct parts *parts, const ucontext_t *context)
{
	unsigned int all = parts->is_long ? 32 : 16;
	int is_vex = parts->space == SPACE_VEX;

	switch (parts->opcode) {
	case 0x11: /* movups, movss, movupd, movsd */
	case 0x29: /* movaps */
	case 0x2b: /* movntps; of SSE4a movntss, movntsd */
		all = parts->repeat == 0xf3 ? 4 : parts->repeat == 0xf2 ? 8 : all;
		put_vector(written, parts, context, 0, all);
		return 1;
	case 0x13: /* movlps, movhps */
	case 0x17:
		put_vector(written, parts, context, parts->opcode == 0x17 ? 8 : 0, 8);
		return 1;
	case 0x7e: /* movd, movq */
		if (!parts->is_narrow)
			return 0;
		put_vector(written, parts, context, 0, parts->w ? 8 : 4);
		return 1;
	case 0x7f: /* movdqa, movdqu */
	case 0xe7: /* movntdq */
		if (!parts->is_narrow && !(parts->repeat == 0xf3 && parts->opcode == 0x7f))
			return 0;
		put_vector(written, parts, context, 0, all);
		return 1;
	case 0xd6: /* movq */
		if (!parts->is_narrow)
			return 0;
		put_vector(written, parts, context, 0, 8);
		return 1;
	default:
		return is_vex; /* somehow */
	}
}

void stored_by_signs(struct written *written, const struct parts *parts, unsigned int mask,
		     unsigned int element, unsigned int bytes, const ucontext_t *context)
{
	written->bytes = bytes;
	if (!masked_by_signs(mask, element, bytes, context, &written->kept))
		put_vector(written, parts, context, 0, bytes);
}

/* vpcompressd and the like: the selected elements, next to each other. */
static void put_compressed(struct written *written, const struct parts *parts,
			   const ucontext_t *context)
{
	unsigned int element = masked_element(parts->head, parts->opcode), to = 0;
	uint64_t mask = masked_bits(parts->head, context);

	for (unsigned int i = 0; i < written->bytes / element; i++) {
		if (!(mask >> i & 1))
			continue;
		if (frame_vector(context, register_of(parts), i * element, element,
				 written->value + to))
			return;
		to += element;
	}
	written->way = WRITTEN_NEW;
}

static void tell_evex(struct written *written, const struct parts *parts, const ucontext_t *context)
{
	unsigned int map = parts->head[1] & 7u, from = 0;

	if (masked_evex(parts->head, parts->opcode, parts->extent, context, &written->kept))
		return;
	if (map == 2 && masked_is_compress(parts->head)) {
		put_compressed(written, parts, context);
		return;
	}
	if (map == 2 || (map == 3 && parts->opcode == 0x1d))
		return; /* converted */
	if (map == 3)
		from = parts->code[parts->imm_at] % (64u / parts->extent) * parts->extent;
	else if (map == 1 && parts->opcode == 0x17)
		from = 8;
	put_vector(written, parts, context, from, parts->extent);
}

void stored_other(struct written *written, const struct parts *parts, const ucontext_t *context)
{
	unsigned int element = masked_vex_element(parts->opcode, parts->w);

	if (parts->space == SPACE_EVEX)
		tell_evex(written, parts, context);
	else if (parts->is_vex_0f38 && parts->is_narrow && element)
		stored_by_signs(written, parts, parts->vector, element, parts->is_long ? 32 : 16,
				context);
	else if (parts->is_vex_0f3a && parts->is_narrow && (parts->opcode | 0x20) == 0x39)
		/* vextractf128, vextracti128 */
		put_vector(written, parts, context, 16u * (parts->code[parts->imm_at] & 1), 16);
}

/* ---- scatters ---- */

int stored_is_scatter(const struct parts *parts)
{
	return (parts->head[1] & 7) == 2 && (parts->head[2] & 3) == 1 && parts->opcode >= 0xa0 &&
	       parts->opcode <= 0xa3 && (parts->head[3] >> 5 & 3) < 3;
}

int stored_scatter(struct written *written, const struct parts *parts, unsigned int modrm_at,
		   const ucontext_t *context)
{
	unsigned int element = parts->w ? 8 : 4, width = parts->opcode & 1 ? 8 : 4;
	unsigned int all = 16u << (parts->head[3] >> 5 & 3), mod = parts->modrm >> 6;
	uint8_t sib = parts->code[modrm_at + 1], index[64];
	unsigned int number = (sib >> 3 & 7u) | (unsigned int)parts->x << 3 |
			      (parts->head[3] & 8 ? 0u : 16u);
	unsigned int count = all / (width > element ? width : element);
	int has_base = mod || (sib & 7) != 5;
	uint64_t base = has_base ? reg_of(context, (sib & 7u) | (unsigned int)parts->b << 3) : 0;
	uint64_t low = UINT64_MAX, high = 0;

	if (mod == 3 || (parts->modrm & 7) != 4 ||
	    frame_vector(context, number, 0, count * width, index))
		return -1;
	if (mod == 1)
		base += (uint64_t)signed_at(parts->code + modrm_at + 2, 1) * element;
	else if (mod == 2 || !has_base)
		base += (uint64_t)signed_at(parts->code + modrm_at + 2, 4);
	for (unsigned int i = 0; i < count; i++) {
		int32_t narrow;
		int64_t wide;
		uint64_t at;

		__builtin_memcpy(&narrow, index + (size_t)i * width, sizeof narrow);
		if (width == 8)
			__builtin_memcpy(&wide, index + (size_t)i * width, sizeof wide);
		else
			wide = narrow;
		at = base + ((uint64_t)wide << (sib >> 6));
		low = at < low ? at : low;
		high = at > high ? at : high;
	}
	if (high - low > SCATTER_STRETCH_MAX)
		return -1;
	written->address = low;
	written->reach = (uint32_t)(high - low) + element;
	return 0;
}
