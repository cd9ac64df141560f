/* SPDX-License-Identifier: MIT */
/*
 * Code that uses xmm15: what puts a word where it points, and what gives it to the program and
 * takes it back. With AVX the instructions are VEX-encoded, for others would make every later use
 * of a ymm register slow.
 */
#ifndef INSIDE_ENGINE_VECTOR_H
#define INSIDE_ENGINE_VECTOR_H

#include <stdint.h>

/* What the processor has, and the kernel keeps. */
enum vector_width { VECTOR_SSE, VECTOR_AVX, VECTOR_AVX512 };

/*
 * Put `id` where xmm15 points, by way of `reg`, which is lost: not rsp, rbp, r12, r13. `step`: 16
 * bytes, aligned to 16, that are added to xmm15: {4, blocks of the id's path}.
 */
uint8_t *vector_put(uint8_t *at, enum vector_width width, uint32_t id, unsigned int reg,
		    const void *step);

/* The program's value into the register; the pointer and the blocks into the thread; and back. */
uint8_t *vector_give(uint8_t *at, enum vector_width width);
uint8_t *vector_take(uint8_t *at, enum vector_width width);

/* The upper part of the program's value is 0 from now on, as behind vzeroupper. */
uint8_t *vector_zero_upper(uint8_t *at, enum vector_width width);

#endif
