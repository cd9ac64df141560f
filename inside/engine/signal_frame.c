/* SPDX-License-Identifier: MIT */
#include "inside/engine/engine_memory.h"
#include "inside/engine/signal_frame.h"

#include <cpuid.h>

#define XSTATE_KEYS 0x200u
#define XSTATE_SSE 0x2u
#define XSTATE_YMM 0x4u
#define XSTATE_ZMM 0x40u
#define XMM15_AT (160 + 15 * 16)
#define HEADER_AT 512
#define STATE_MAGIC 0x46505853u /* FP_XSTATE_MAGIC1 of the kernel's sigcontext.h */

/* Of the upper halves of ymm0-15 and of zmm0-15; 0: the processor has none. */
static uint32_t ymm_at, zmm_at, keys_at;

void frame_open(void)
{
	uint32_t a, b, c, d;

	if (__get_cpuid_count(0xd, 2, &a, &b, &c, &d) && a)
		ymm_at = b;
	if (__get_cpuid_count(0xd, 6, &a, &b, &c, &d) && a)
		zmm_at = b;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & bit_OSPKE) &&
	    __get_cpuid_count(0xd, 9, &a, &b, &c, &d) && a)
		keys_at = b;
}

static const struct _fpx_sw_bytes *software(const void *state)
{
	return (const struct _fpx_sw_bytes *)((const uint8_t *)state + 464);
}

uint32_t frame_state_bytes(const void *state)
{
	uint32_t bytes;

	if (!state)
		return 0;
	if (software(state)->magic1 != STATE_MAGIC)
		return 512;
	bytes = software(state)->extended_size;
	return bytes >= 512 && bytes <= FRAME_STATE_MAX ? bytes : 0;
}

/*
 * A part of the state in the extended area, if this one has it: the kernel saved it, and the
 * processor knows it.
 */
static uint8_t *part(const void *state, uint32_t at, uint64_t bit)
{
	const struct _fpx_sw_bytes *sw = software(state);

	if (!at || sw->magic1 != STATE_MAGIC || !(sw->xstate_bv & bit))
		return NULL;
	return (uint8_t *)state + at;
}

static uint64_t *held(const void *state)
{
	return (uint64_t *)((uint8_t *)state + HEADER_AT);
}

static void part_get(const void *state, uint32_t at, uint64_t bit, uint32_t bytes, uint8_t *value)
{
	const uint8_t *from = part(state, at, bit);

	if (from && (*held(state) & bit))
		memory_copy(value, from + 15 * bytes, bytes);
	else
		memory_clear(value, bytes);
}

static void part_set(void *state, uint32_t at, uint64_t bit, uint32_t bytes, const uint8_t *value)
{
	uint8_t *to = part(state, at, bit);

	if (!to)
		return;
	if (!(*held(state) & bit)) { /* all of it is 0, whatever the bytes there are */
		memory_clear(to, 16 * bytes);
		*held(state) |= bit;
	}
	memory_copy(to + 15 * bytes, value, bytes);
}

/* The kernel has set the keys for a handler when it entered ours. */
static void keys_begin(void *state)
{
	uint8_t *keys = part(state, keys_at, XSTATE_KEYS);
	uint32_t now, high;

	if (!keys)
		return;
	__asm__ volatile("rdpkru" : "=a"(now), "=d"(high) : "c"(0));
	memory_copy(keys, &now, sizeof(now));
	*held(state) |= XSTATE_KEYS;
}

void frame_vectors_begin(void *state)
{
	static const uint16_t control = 0x37f;
	static const uint32_t sse_control = 0x1f80;

	memory_clear(state, 416);
	memory_copy(state, &control, sizeof(control));
	memory_copy((uint8_t *)state + 24, &sse_control, sizeof(sse_control));
	if (software(state)->magic1 != STATE_MAGIC)
		return;
	*held(state) = 0;
	keys_begin(state);
}

void frame_vector15_get(const void *state, uint8_t value[64])
{
	memory_copy(value, (const uint8_t *)state + XMM15_AT, 16);
	if (software(state)->magic1 == STATE_MAGIC && !(*held(state) & XSTATE_SSE))
		memory_clear(value, 16);
	part_get(state, ymm_at, XSTATE_YMM, 16, value + 16);
	part_get(state, zmm_at, XSTATE_ZMM, 32, value + 32);
}

void frame_vector15_set(void *state, const uint8_t value[64])
{
	if (software(state)->magic1 == STATE_MAGIC && !(*held(state) & XSTATE_SSE)) {
		memory_clear((uint8_t *)state + 160, 256);
		*held(state) |= XSTATE_SSE;
	}
	memory_copy((uint8_t *)state + XMM15_AT, value, 16);
	part_set(state, ymm_at, XSTATE_YMM, 16, value + 16);
	part_set(state, zmm_at, XSTATE_ZMM, 32, value + 32);
}
