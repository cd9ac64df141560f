/* SPDX-License-Identifier: MIT */
/* Stores that write only the bytes that a mask selects. */
#include "inside/watch/testing/fixture.h"

#include <criterion/criterion.h>
#include <immintrin.h>

#define MASKED_STORES 10

/* Words 4 and 5 are watched. Each writes words in front of them alone; or word 4, too. */
static void masked_sse2(uint8_t *to, int is_all)
{
	const __m128i mask = _mm_set_epi32(-is_all, -is_all, -1, -1);

	_mm_maskmoveu_si128(_mm_set1_epi8(1), mask, (char *)to + 24);
}

__attribute__((target("avx2"))) static void masked_avx2(uint8_t *to, int is_all)
{
	const __m256i mask = _mm256_set_epi64x(0, -is_all, -1, -1);

	_mm256_maskstore_epi64((long long *)(void *)(to + 16), mask, _mm256_set1_epi8(1));
}

__attribute__((target("avx512bw"))) static void masked_avx512(uint8_t *to, int is_all)
{
	_mm512_mask_storeu_epi8(to, is_all ? 0xffffffffff : 0xffffffff, _mm512_set1_epi8(1));
}

static void store_masked(void (*store)(uint8_t *to, int is_all), uint8_t *area)
{
	struct watch_row *rows = sample_table->rows;

	for (unsigned int i = 0; i < 2; i++)
		rows[i].taken = rows[i].masked = rows[i].beside = 0;
	for (int i = 0; i < MASKED_STORES; i++)
		store(area, 0);
	store(area, 1);
}

/* Where the register fires for bytes that the mask excludes, the hit is counted and no event. */
Test(watch, a_masked_store_is_no_hit_of_bytes_that_its_mask_excludes, .timeout = 30)
{
	static uint8_t area[128] __attribute__((aligned(64)));
	const struct control_watch about = sample_about(0, area + 32, 8);
	const struct control_watch beside = sample_about(1, area + 40, 8);
	void (*const stores[])(uint8_t * to, int is_all) = {
		masked_sse2,
		__builtin_cpu_supports("avx2") ? masked_avx2 : NULL,
		__builtin_cpu_supports("avx512bw") ? masked_avx512 : NULL,
	};
	uint64_t counted[2] = { 0 };
	unsigned int events = 0;

	sample_begin();
	sample_arm(&about);
	sample_arm(&beside);
	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		const struct watch_row *rows = sample_table->rows;

		if (!stores[i])
			continue;
		store_masked(stores[i], area);
		counted[0] = sample_counted(0) - counted[0];
		counted[1] = sample_counted(1) - counted[1];
		cr_assert_eq(sample_collect(8), ++events, "form %zu", i);
		cr_assert_eq(sample_told[events - 1].now, UINT64_C(0x0101010101010101));
		cr_assert(sample_is_here(sample_told[events - 1].ip), "how %x",
			  sample_told[events - 1].how);
		for (unsigned int j = 0; j < 2; j++) {
			/* of two hits of one store, the first one's signal reports the second */
			cr_assert_eq(rows[j].taken - rows[j].masked, j ? 0 : 1, "form %zu", i);
			cr_assert_leq(counted[j], rows[j].taken + rows[j].beside, "form %zu", i);
		}
		counted[0] = sample_counted(0);
		counted[1] = sample_counted(1);
	}
	sample_end(1);
	sample_end(0);
}
