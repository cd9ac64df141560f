/* SPDX-License-Identifier: MIT */
/* Compiled once for each BODY_*: see target.h. */
#include "bench/mechanisms/target.h"

#define FILLER 0

#if defined(BODY_MARKER)
#include <waymark/marker.h>
#define WAY marker
#define MARK(a, b) WAYMARK(mechanism, marker, a, b)
#elif defined(BODY_FLAG)
#define WAYMARK_PORTABLE
#include <waymark/marker.h>
#define WAY flag
#define MARK(a, b) WAYMARK(mechanism, flag, a, b)
#elif defined(BODY_USDT) || defined(BODY_NOP5)
#include <waymark/marker/note.h>
/*
 * What <sys/sdt.h> makes of DTRACE_PROBE2(), which need not be installed here: a nop, and a note
 * with its address and the places of its arguments.
 */
#ifdef BODY_USDT
#define WAY usdt
#define WAY_TEXT "usdt"
#define NOP "nop"
#else
#define WAY nop5
#define WAY_TEXT "nop5"
#define NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#endif
#define MARK(a, b)                                                                                 \
	__asm__ volatile(WM__SDT_NOTE(NOP, 0, "mechanism", WAY_TEXT, "8@%0 8@%1")                  \
			 :                                                                         \
			 : "nor"(a), "nor"(b))
#elif defined(BODY_FILLER)
#define WAY filler
#undef FILLER
#define FILLER 5
#define MARK(a, b) ((void)0)
#else
#define WAY none
#define MARK(a, b) ((void)0)
#endif

#define PASTE_AGAIN(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_AGAIN(a, b, c)
#define LEAF(layout) PASTE(mechanism_, WAY, _##layout)

#if __has_attribute(noipa)
#define APART noipa
#else
#define APART noinline
#endif

/* Before the entry so many bytes that the layout wants, behind it what the way wants. */
#define PLACED(layout)                                                                             \
	__attribute__((APART, aligned(64),                                                         \
		       patchable_function_entry(8 * layout + FILLER, 8 * layout)))

#define DEFINE(layout)                                                                             \
	uint64_t LEAF(layout)(uint64_t a, uint64_t b);                                             \
	PLACED(layout) uint64_t LEAF(layout)(uint64_t a, uint64_t b)                               \
	{                                                                                          \
		MARK(a, b);                                                                        \
		return a * 3 + b;                                                                  \
	}

DEFINE(0)
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)
DEFINE(7)

const struct target_body PASTE(target_, WAY, ) = {
	.leaves = { LEAF(0), LEAF(1), LEAF(2), LEAF(3), LEAF(4), LEAF(5), LEAF(6), LEAF(7) },
};
