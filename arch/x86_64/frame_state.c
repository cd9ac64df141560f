/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/frame_state.h"

#include <stddef.h>

#define XMM_AT 160u
#define XMM_BYTES 16u
#define MAGIC_AT 464u /* struct _fpx_sw_bytes */
#define MAGIC 0x46505853u
#define FEATURES_AT 472u
#define STATE_BYTES_AT 480u
#define HAVE_AT 512u /* the header: XSTATE_BV, XCOMP_BV */
#define FORMAT_AT 520u
#define IS_COMPACTED (UINT64_C(1) << 63)
#define YMM_HIGH_AT 576u
#define FEATURE_YMM 0x04u
#define YMMS 16u /* zmm16 and up have a component of their own */
#define ZMM_HIGH_BYTES 32u
#define ZMM_BYTES 64u
#define FEATURE_MASKS 0x20u
#define FEATURE_ZMM_HIGH 0x40u
#define FEATURE_MORE 0x80u
#define MASK_BYTES 8u
#define MASKS_BYTES 64u

uint32_t frame_masks_at, frame_zmm_high_at, frame_more_at;

static uint64_t word_at(const uint8_t *frame, unsigned int at, size_t bytes)
{
	uint64_t word = 0;

	__builtin_memcpy(&word, frame + at, bytes);
	return word;
}

/* 1: the frame has the component, which ends at `end`; 0: all of it is 0; -1: it is unknown. */
static int component(const uint8_t *frame, unsigned int feature, unsigned int end)
{
	if (word_at(frame, MAGIC_AT, 4) != MAGIC || !(word_at(frame, FEATURES_AT, 8) & feature) ||
	    end > word_at(frame, STATE_BYTES_AT, 4) || word_at(frame, FORMAT_AT, 8) & IS_COMPACTED)
		return -1;
	return (word_at(frame, HAVE_AT, 8) & feature) != 0;
}

static void copy(uint8_t *to, const uint8_t *from, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = from ? from[i] : 0;
}

/*
 * Copy a register's part in one component of the frame: `bytes` bytes at `at` in the frame. `end`:
 * the component's. 0; -1: the frame does not have it.
 */
static int copy_from(const uint8_t *frame, unsigned int feature, unsigned int end, unsigned int at,
		     unsigned int bytes, uint8_t *to)
{
	int has = component(frame, feature, end);

	if (has < 0)
		return -1;
	copy(to, has ? frame + at : NULL, bytes);
	return 0;
}

/* Bytes `from` to `end` of a register, all of them in one component. */
static int copy_part(const uint8_t *frame, unsigned int number, unsigned int from, unsigned int end,
		     uint8_t *to)
{
	unsigned int bytes = end - from, at;

	if (number >= YMMS) {
		at = frame_more_at + ZMM_BYTES * (number - YMMS) + from;
		return frame_more_at ? copy_from(frame, FEATURE_MORE,
						 frame_more_at + ZMM_BYTES * YMMS, at, bytes, to)
				     : -1;
	}
	if (from < XMM_BYTES) {
		copy(to, frame + XMM_AT + (size_t)XMM_BYTES * number + from, bytes);
		return 0;
	}
	if (from < 2 * XMM_BYTES)
		return copy_from(frame, FEATURE_YMM, YMM_HIGH_AT + XMM_BYTES * YMMS,
				 YMM_HIGH_AT + XMM_BYTES * number + from - XMM_BYTES, bytes, to);
	at = frame_zmm_high_at + ZMM_HIGH_BYTES * number + from - 2 * XMM_BYTES;
	return frame_zmm_high_at
		       ? copy_from(frame, FEATURE_ZMM_HIGH,
				   frame_zmm_high_at + ZMM_HIGH_BYTES * YMMS, at, bytes, to)
		       : -1;
}

int frame_vector(const ucontext_t *context, unsigned int number, unsigned int from,
		 unsigned int bytes, uint8_t *to)
{
	const uint8_t *frame = (const uint8_t *)context->uc_mcontext.fpregs;
	unsigned int end = from + bytes;

	if (!frame || number >= 2 * YMMS || end > ZMM_BYTES)
		return -1;
	while (from < end) {
		unsigned int next = (from / XMM_BYTES + 1) * XMM_BYTES;

		next = next < end ? next : end;
		if (copy_part(frame, number, from, next, to))
			return -1;
		to += next - from;
		from = next;
	}
	return 0;
}

int frame_mask(const ucontext_t *context, unsigned int number, uint64_t *mask)
{
	const uint8_t *frame = (const uint8_t *)context->uc_mcontext.fpregs;
	uint32_t at = frame_masks_at;
	int has;

	if (!frame || !at)
		return -1;
	has = component(frame, FEATURE_MASKS, at + MASKS_BYTES);
	if (has < 0)
		return -1;
	*mask = has ? word_at(frame, at + MASK_BYTES * number, MASK_BYTES) : 0;
	return 0;
}
