/* SPDX-License-Identifier: MIT */
/* Masked stores to bytes beside the watched ones, and two stores to these. */
#include <immintrin.h>
#include <stdint.h>
static struct {
	uint8_t before[64];
	volatile uint64_t words[2];
} s __attribute__((aligned(64)));
static void sse2(void)
{
	_mm_maskmoveu_si128(_mm_set1_epi8(1), _mm_set_epi32(0, 0, -1, -1), (char *)s.before + 56);
}
__attribute__((target("avx2"))) static void avx2(void)
{
	_mm256_maskstore_epi32((int *)(s.before + 48), _mm256_set_epi32(0, 0, 0, 0, 1, 1, -1, -1),
			       _mm256_set1_epi8(1));
}
__attribute__((target("avx512bw"))) static void avx512(void)
{
	_mm512_mask_storeu_epi8(s.before + 16, 0xffff, _mm512_set1_epi8(1));
}
int main(void)
{
	for (int i = 0; i < 100; i++) {
		sse2();
		if (__builtin_cpu_supports("avx2"))
			avx2();
		if (__builtin_cpu_supports("avx512bw"))
			avx512();
	}
	s.words[0] = 1;
	s.words[1] = 2;
	return 0;
}
