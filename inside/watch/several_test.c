/* SPDX-License-Identifier: MIT */
/* One instruction that writes several watched words is an event of each. */
#include "inside/watch/testing/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define WORDS 4
#define AREA_BYTES 2048

static uint8_t area[AREA_BYTES] __attribute__((aligned(4096)));
static uint8_t other[AREA_BYTES] __attribute__((aligned(64)));
static uint8_t *const words = area + AREA_BYTES / 2;

#define FORM(name, text)                                                                           \
	static __attribute__((noinline)) void name(void)                                           \
	{                                                                                          \
		const uint8_t *from = other;                                                       \
		uint8_t *to = words;                                                               \
                                                                                                   \
		__asm__ volatile(text                                                              \
				 : "+D"(to), "+S"(from)                                            \
				 :                                                                 \
				 : "rax", "rcx", "rdx", "cc", "memory");                           \
	}

FORM(form_rep_stosq, "mov $0x5a, %%eax\n\tmov $4, %%ecx\n\trep stosq")
FORM(form_rep_stosb, "mov $0x5a, %%eax\n\tmov $32, %%ecx\n\trep stosb")
FORM(form_rep_movsb, "mov $32, %%ecx\n\trep movsb")
FORM(form_fxsave, "fxsave (%%rdi)")
FORM(form_fnsave, "fld1\n\tfnsave (%%rdi)\n\tfrstor (%%rdi)")
FORM(form_fnstenv, "fnstenv (%%rdi)\n\tfldenv (%%rdi)")
FORM(form_xsave, "mov $7, %%eax\n\txor %%edx, %%edx\n\txsave -192(%%rdi)")
FORM(form_extract_ymm, "vmovdqu (%%rsi), %%ymm9\n\tvextracti128 $1, %%ymm9, 8(%%rdi)")
FORM(form_zmm, "vmovdqu64 (%%rsi), %%zmm9\n\tvmovdqu64 %%zmm9, -16(%%rdi)")
FORM(form_zmm_far, "vmovdqu64 (%%rsi), %%zmm31\n\tvmovdqu64 %%zmm31, (%%rdi)")
FORM(form_ymm_far, "vmovdqu64 (%%rsi), %%ymm17\n\tvmovups %%ymm17, (%%rdi)")
FORM(form_masked, "mov $5, %%eax\n\tkmovd %%eax, %%k1\n\tvmovdqu64 (%%rsi), %%zmm9\n\t"
		  "vmovdqu64 %%zmm9, (%%rdi)%{%%k1%}")
FORM(form_compress, "mov $0x2e, %%eax\n\tkmovd %%eax, %%k1\n\tvmovdqu64 (%%rsi), %%zmm9\n\t"
		    "vpcompressq %%zmm9, (%%rdi)%{%%k1%}")
FORM(form_extract, "vmovdqu64 (%%rsi), %%zmm9\n\tvextracti64x4 $1, %%zmm9, (%%rdi)")
FORM(form_extract_quarter, "vmovdqu64 (%%rsi), %%zmm9\n\tvextracti32x4 $2, %%zmm9, 8(%%rdi)")
FORM(form_narrow, "vmovdqu64 (%%rsi), %%zmm9\n\tvpmovqd %%zmm9, (%%rdi)")
FORM(form_half_floats, "vmovdqu64 (%%rsi), %%zmm9\n\tvcvtps2ph $0, %%zmm9, (%%rdi)")
FORM(form_scatter,
     "vpternlogd $255, %%zmm8, %%zmm8, %%zmm8\n\tvpsrlq $61, %%zmm8, %%zmm8\n\t"
     "kxnorb %%k0, %%k0, %%k1\n\tmovq $0, %%rax\n\t"
     "vpinsrq $0, %%rax, %%xmm8, %%xmm7\n\tvinserti64x2 $0, %%xmm7, %%zmm8, %%zmm8\n\t"
     "vmovdqu64 (%%rsi), %%zmm9\n\tvpscatterqq %%zmm9, (%%rdi,%%zmm8,1)%{%%k1%}")

/* Which words each writes; `is_exact`: the event's values come from the instruction. */
static const struct form {
	const char *name;
	void (*run)(void);
	uint8_t writes, is_exact, is_avx512;
} forms[] = {
	{ "rep stosq", form_rep_stosq, 15, 1, 0 },
	{ "rep stosb", form_rep_stosb, 15, 1, 0 },
	{ "rep movsb", form_rep_movsb, 15, 1, 0 },
	{ "fxsave", form_fxsave, 15, 0, 0 },
	{ "fnsave", form_fnsave, 15, 0, 0 },
	{ "fnstenv", form_fnstenv, 15, 0, 0 },
	{ "zmm9", form_zmm, 15, 1, 1 },
	{ "zmm31", form_zmm_far, 15, 1, 1 },
	{ "ymm17", form_ymm_far, 15, 1, 1 },
	{ "masked", form_masked, 5, 1, 1 },
	{ "vpcompressq", form_compress, 15, 1, 1 },
	{ "vextracti64x4", form_extract, 15, 1, 1 },
	{ "vextracti32x4", form_extract_quarter, 6, 1, 1 },
	{ "vextracti128", form_extract_ymm, 6, 1, 1 },
	{ "vpmovqd", form_narrow, 15, 0, 1 },
	{ "vcvtps2ph", form_half_floats, 15, 0, 1 },
	{ "vpscatterqq", form_scatter, 3, 0, 1 },
};

static void arm_all(void)
{
	sample_begin();
	for (unsigned int i = 0; i < WORDS; i++) {
		const struct control_watch about = sample_about(i, words + 8 * (size_t)i, 8);

		sample_arm(&about);
	}
	for (unsigned int i = 0; i < sizeof(other); i++)
		other[i] = (uint8_t)(i * 7 + 1);
}

/* Each word is written by an instruction of its own first: no word has what a form stores. */
static void prepare(unsigned int round)
{
	for (unsigned int i = 0; i < WORDS; i++)
		((volatile uint64_t *)(void *)words)[i] = UINT64_C(0x4242424242424242) + i + round;
}

/*
 * The last event of each word has memory's value. Each hit that the kernel counted has an event, or
 * was excluded by a store's mask.
 */
static void check(const struct form *form, unsigned int *seen)
{
	uint64_t events[WORDS], hits = 0, taken = 0, beside = 0;

	sample_collect(8);
	for (unsigned int i = 0; i < WORDS; i++) {
		const struct watch_row *row = &sample_table->rows[i];
		uint64_t now;

		hits += sample_counted(i);
		taken += row->taken;
		beside += row->beside;
		events[i] = row->taken - row->masked;
		memcpy(&now, words + 8 * (size_t)i, sizeof(now));
		cr_assert_eq(row->last.value, now, "%s: word %u: %lx, not %lx", form->name, i,
			     row->last.value, now);
		cr_assert_eq(events[i] > seen[i], form->writes >> i & 1, "%s: word %u", form->name,
			     i);
		cr_assert_eq(row->inexact - seen[WORDS + i],
			     form->is_exact ? 0 : events[i] - seen[i], "%s: word %u", form->name,
			     i);
	}
	/* a processor may report words that a store's mask excluded: AMD's Zen 5, but no Intel */
	cr_assert(hits >= taken && hits <= taken + beside, "%s: %lu hits, %lu taken, %lu beside",
		  form->name, hits, taken, beside);
}

static void remember(unsigned int *seen)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		const struct watch_row *row = &sample_table->rows[i];

		seen[i] = (unsigned int)(row->taken - row->masked);
		seen[WORDS + i] = (unsigned int)row->inexact;
	}
}

Test(several, one_instruction_is_an_event_of_each_word_that_it_writes, .timeout = 60)
{
	int has_avx512 = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
	unsigned int seen[2 * WORDS];

	arm_all();
	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (forms[i].is_avx512 && !has_avx512)
			continue;
		prepare(i);
		remember(seen);
		forms[i].run();
		check(&forms[i], seen);
	}
	for (unsigned int i = 0; i < WORDS; i++)
		sample_end(i);
}

/* How far xsave writes is not read: the words that it changed are its own. */
Test(several, store_of_unknown_reach_is_an_event_of_each_word_that_changed, .timeout = 30)
{
	unsigned int seen[2 * WORDS];

	if (!__builtin_cpu_supports("avx"))
		cr_skip_test("this processor has no XSAVE");
	arm_all();
	prepare(0);
	remember(seen);
	form_xsave();
	for (unsigned int i = 0; i < WORDS; i++) {
		const struct watch_row *row = &sample_table->rows[i];
		uint64_t now;

		memcpy(&now, words + 8 * (size_t)i, sizeof(now));
		cr_assert_eq(row->last.value, now, "word %u", i);
		cr_assert_leq(row->taken, sample_counted(i), "word %u", i);
		sample_end(i);
	}
}
