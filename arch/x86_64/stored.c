/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/stored.h"

#include "arch/insn.h"
#include "arch/x86_64/frame_state.h"

#define SCATTER_STRETCH_MAX (1u << 20)

static uint64_t low_bits(unsigned int count)
{
	return count < 64 ? (UINT64_C(1) << count) - 1 : ~UINT64_C(0);
}

/* A bit for each element that is stored. 0; -1: the frame does not have it. */
static int mask_of(const struct parts *parts, const ucontext_t *context, uint64_t *mask)
{
	unsigned int element = parts->element;
	uint8_t signs[32];

	*mask = ~UINT64_C(0);
	if (parts->store != INSN_STORE_SIGNS)
		return parts->mask ? frame_mask(context, parts->mask, mask) : 0;
	if (frame_vector(context, parts->vector, 0, parts->extent, signs))
		return -1;
	for (unsigned int i = 0; i < parts->extent / element; i++) {
		if (!(signs[(i + 1) * element - 1] & 0x80))
			*mask &= ~(UINT64_C(1) << i);
	}
	return 0;
}

/* vpcompressd and the like: the selected elements, next to each other. */
static void put_compressed(struct written *written, const struct parts *parts, uint64_t mask,
			   const ucontext_t *context)
{
	unsigned int element = parts->element, to = 0;
	int is_lost = 0;

	for (unsigned int i = 0; i < written->bytes / element; i++) {
		if (!(mask >> i & 1))
			continue;
		is_lost |= frame_vector(context, parts->reg, i * element, element,
					written->value + to);
		to += element;
	}
	written->kept = low_bits(written->bytes) & ~low_bits(to);
	written->way = is_lost ? WRITTEN_SOMEHOW : WRITTEN_NEW;
}

void stored_vector(struct written *written, const struct parts *parts, const ucontext_t *context)
{
	unsigned int bytes = written->bytes, from = 0;
	uint64_t mask;

	if (mask_of(parts, context, &mask))
		return;
	if (parts->store == INSN_STORE_COMPRESS) {
		put_compressed(written, parts, mask, context);
		return;
	}
	for (unsigned int i = 0; i < bytes / parts->element; i++) {
		if (!(mask >> i & 1))
			written->kept |= low_bits(parts->element) << i * parts->element;
	}
	if (parts->store == INSN_STORE_CONVERT)
		return;
	if (parts->store == INSN_STORE_HIGH)
		from = 8;
	else if (parts->store == INSN_STORE_EXTRACT)
		from = parts->code[parts->imm_at] * bytes % parts->all;
	if (!frame_vector(context, parts->reg, from, bytes, written->value))
		written->way = WRITTEN_NEW;
}

int stored_scatter(struct written *written, const struct parts *parts, const ucontext_t *context)
{
	unsigned int element = parts->element, width = parts->opcode & 1 ? 8 : 4;
	unsigned int count = parts->all / (width > element ? width : element);
	uint64_t low = UINT64_MAX, high = 0;
	uint8_t index[64];

	if (frame_vector(context, parts->index | (parts->vector & 16u), 0, count * width, index))
		return -1;
	for (unsigned int i = 0; i < count; i++) {
		int32_t narrow;
		int64_t wide;
		uint64_t at;

		__builtin_memcpy(&narrow, index + (size_t)i * width, sizeof narrow);
		if (width == 8)
			__builtin_memcpy(&wide, index + (size_t)i * width, sizeof wide);
		else
			wide = narrow;
		at = written->address + ((uint64_t)wide << parts->scale);
		low = at < low ? at : low;
		high = at > high ? at : high;
	}
	if (high - low > SCATTER_STRETCH_MAX)
		return -1;
	written->address = low;
	written->reach = (uint32_t)(high - low) + element;
	return 0;
}
