/* SPDX-License-Identifier: MIT */
/*
 * How hits copy strings and runs of bytes into a page. Included by hit.c alone: compiled as it is,
 * for the hit path.
 */
#ifndef INSIDE_MARKER_COPY_H
#define INSIDE_MARKER_COPY_H

#include "abi/page.h"

#include <stddef.h>
#include <stdint.h>

/* With its target, this header also compiles alone: gcc takes the one only with the other. */
#define KEEPS_REGISTERS __attribute__((no_caller_saved_registers, target("general-regs-only")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define PAGE_LOW_BITS 4095u

#define SHORT_BYTES 64

struct unaligned_word {
	uint64_t word;
} __attribute__((packed, may_alias));

static inline uint64_t load64(const void *from)
{
	return ((const volatile struct unaligned_word *)from)->word;
}

static inline void put16(unsigned char *to, uint16_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

static inline void put32(unsigned char *to, uint32_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

static inline void put64(unsigned char *to, uint64_t value)
{
	__builtin_memcpy(to, &value, sizeof value);
}

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* A mask of the zero bytes of a word, right up to the first; 0: it has none. */
static inline uint64_t zero_bytes(uint64_t word)
{
	return (word - ONES) & ~word & HIGHS;
}

/*
 * Copy a string that others may be changing: each byte is read once, and the copy ends where its
 * NUL was read, or past `end`. Returns past the last byte, or NULL when `limit` comes first.
 * LANE_SLACK covers the last word's surplus. No word is read that could reach into a page that
 * the string isn't in.
 */
static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
copy_string(unsigned char *to, const unsigned char *limit, const char *from,
	    const unsigned char *end)
{
	while (to <= end) {
		uint64_t word, zeros;

		if (unlikely(to > limit))
			return NULL;
		if (unlikely(((uintptr_t)from & PAGE_LOW_BITS) > PAGE_LOW_BITS + 1 - 8)) {
			*to = *(const volatile unsigned char *)from++;
			if (!*to++)
				return to;
			continue;
		}
		word = load64(from);
		put64(to, word);
		zeros = zero_bytes(word);
		if (zeros)
			return to + __builtin_ctzll(zeros) / 8 + 1;
		to += 8;
		from += 8;
	}
	return to;
}

/* State, bytes, NUL; cut where there are more than `cap` bytes before the NUL. */
static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
put_string(unsigned char *to, const unsigned char *limit, const char *from, uint32_t cap)
{
	unsigned char *start = to + 1;

	if (!from) {
		put16(to, FIELD_NULL);
		return to + 2;
	}
	*to = FIELD_WHOLE;
	to = copy_string(start, limit, from, start + cap);
	if (!to || to - start <= cap || (to - start == cap + 1 && !to[-1]))
		return to;
	start[-1] = FIELD_CUT;
	start[cap] = 0;
	return start + cap + 1;
}

/*
 * The same for the usual case, inline: short, and all in one page of memory. Returns how many
 * bytes there are before the NUL, or -1: it is not the usual case. There is room for it.
 */
static inline __attribute__((always_inline)) int64_t put_short_string(unsigned char *to,
								      const char *from)
{
	/*
	 * one test for NULL too, which also sends off what begins a page: put_string() does those
	 */
	if (unlikely((((uintptr_t)from - 1) & PAGE_LOW_BITS) > PAGE_LOW_BITS - SHORT_BYTES))
		return -1;
	*to++ = FIELD_WHOLE;
#pragma GCC unroll 8
	for (unsigned int i = 0; i < SHORT_BYTES; i += 8) {
		uint64_t word = load64(from + i), zeros;

		put64(to + i, word);
		zeros = zero_bytes(word);
		if (likely(zeros))
			return i + ((unsigned int)__builtin_ctzll(zeros) >> 3);
	}
	return -1;
}

static unsigned char *KEEPS_REGISTERS __attribute__((noinline))
put_run(unsigned char *to, const unsigned char *limit, const unsigned char *from, uint64_t bytes,
	uint32_t cap)
{
	*to = bytes > cap ? FIELD_CUT : FIELD_WHOLE;
	if (!from) {
		*to = FIELD_NULL;
		bytes = 0;
	}
	if (bytes > cap)
		bytes = cap;
	put32(to + 1, (uint32_t)bytes);
	to += 5;
	if (to > limit || (uint64_t)(limit - to) < bytes)
		return NULL;
	for (uint64_t i = 0; i < bytes; i++)
		to[i] = from[i];
	return to + bytes;
}

#endif
