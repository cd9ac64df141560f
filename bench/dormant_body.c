/* SPDX-License-Identifier: MIT */
/* Compiled once for each MARK_*: see dormant.h. */
#include "bench/dormant.h"

#if defined(MARK_WAYMARK)
#include <waymark/marker.h>
#define BODIES bodies_waymark
#define MARK(a, b) WAYMARK(bench, dormant, a, b)
#elif defined(MARK_LTTNG)
#include "bench/lttng/provider.h"
#define BODIES bodies_lttng
#define MARK(a, b) lttng_ust_tracepoint(waymark_bench, number, a, b)
#elif defined(MARK_SDT)
#include <sys/sdt.h>
#define BODIES bodies_sdt
#define MARK(a, b) DTRACE_PROBE2(waymark_bench, dormant, a, b)
#elif defined(MARK_FLAG)
#define BODIES bodies_flag
extern int flag_enabled;
void flag_call(int a, uint64_t b);
#define MARK(a, b)                                                                                 \
	do {                                                                                       \
		if (__builtin_expect(__atomic_load_n(&flag_enabled, __ATOMIC_RELAXED), 0))         \
			flag_call(a, b);                                                           \
	} while (0)
#elif defined(MARK_NOP5)
/*
 * The other encoding that was tried: an aligned five-byte nop, armed by one eight-byte store. Its
 * armed way is never taken here; as a marker's, it takes its inputs and declares no call.
 */
#define BODIES bodies_nop5
#define MARK(a, b)                                                                                 \
	do {                                                                                       \
		__label__ armed;                                                                   \
		__asm__ goto(".p2align 3,,4\n\t"                                                   \
			     ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"                              \
			     ".pushsection .bench_nop5,\"a\"\n\t"                                  \
			     ".long %l[armed] - .\n\t"                                             \
			     ".popsection"                                                         \
			     :                                                                     \
			     :                                                                     \
			     :                                                                     \
			     : armed);                                                             \
		if (0) {                                                                           \
armed:                                                                                             \
			__attribute__((cold));                                                     \
			__asm__ volatile("ud2" : : "r"(a), "r"(b));                                \
		}                                                                                  \
	} while (0)
#else
#define BODIES bodies_none
#define MARK(a, b) ((void)(a), (void)(b))
#endif

#define PLACED(bytes) __attribute__((noipa, aligned(64), patchable_function_entry(bytes, bytes)))

static uint64_t room[8];

#define DEFINE(bytes)                                                                              \
	static PLACED(bytes) uint64_t chain_##bytes(uint64_t count, uint64_t seed)                 \
	{                                                                                          \
		for (uint64_t i = 0; i < count; i++) {                                             \
			seed = seed * 6364136223846793005u + 1442695040888963407u;                 \
			MARK((int)i, seed);                                                        \
		}                                                                                  \
		return seed;                                                                       \
	}                                                                                          \
	static PLACED(bytes) uint64_t block_##bytes(uint64_t count, uint64_t seed)                 \
	{                                                                                          \
		for (uint64_t i = 0; i < count; i++) {                                             \
			__asm__ volatile("add $1, %%r8\n\t"                                        \
					 "mov (%0), %%r9\n\t"                                      \
					 "lea 3(%%r10), %%r10\n\t"                                 \
					 "mov %%r9, %%r11\n\t"                                     \
					 "add $2, %%r8\n\t"                                        \
					 "mov 8(%0), %%r9\n\t"                                     \
					 "xor $7, %%r10\n\t"                                       \
					 "mov %%r11, 16(%0)\n\t"                                   \
					 "mov 24(%0), %%r11\n\t"                                   \
					 "add $3, %%r8\n\t"                                        \
					 "mov %%r11, %%r9\n\t"                                     \
					 "lea 5(%%r10), %%r10\n\t"                                 \
					 "mov %%r9, 32(%0)\n\t"                                    \
					 "add $4, %%r11\n\t"                                       \
					 "mov 40(%0), %%r9\n\t"                                    \
					 "and $15, %%r9\n\t"                                       \
					 :                                                         \
					 : "r"(room)                                               \
					 : "r8", "r9", "r10", "r11", "cc", "memory");              \
			MARK((int)i, seed);                                                        \
		}                                                                                  \
		return seed;                                                                       \
	}                                                                                          \
	static PLACED(bytes) uint64_t leaf_##bytes(uint64_t a, uint64_t b)                         \
	{                                                                                          \
		MARK((int)a, b);                                                                   \
		return a * 3 + b;                                                                  \
	}

DEFINE(0)
DEFINE(8)
DEFINE(16)
DEFINE(24)
DEFINE(32)
DEFINE(40)
DEFINE(48)
DEFINE(56)

#define EIGHT(body)                                                                                \
	{                                                                                          \
		body##_0, body##_8, body##_16, body##_24, body##_32, body##_40, body##_48,         \
			body##_56                                                                  \
	}

const struct bodies BODIES = { .chain = EIGHT(chain), .block = EIGHT(block), .leaf = EIGHT(leaf) };
