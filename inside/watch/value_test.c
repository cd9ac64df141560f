/* SPDX-License-Identifier: MIT */
/* Old and new values: of every form of store, of one thread and of several. */
#include "inside/watch/testing/fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8

/* ---- values ---- */

static uint64_t word[4] __attribute__((aligned(64)));

Test(watch, a_store_is_an_event_with_what_was_there_and_what_is, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	word[0] = 7;
	sample_begin();
	sample_arm(&about);
	*(volatile uint64_t *)word = 8;
	*(volatile uint64_t *)word = 8;
	*(volatile uint64_t *)word = UINT64_C(0x123456789abcdef0);
	cr_assert_eq(sample_counted(0), 3);
	cr_assert_eq(sample_collect(8), 3);
	cr_assert_eq(sample_told[0].old, 7);
	cr_assert_eq(sample_told[0].now, 8);
	cr_assert_eq(sample_told[1].old, 8);
	cr_assert_eq(sample_told[1].now, 8);
	cr_assert_eq(sample_told[2].now, UINT64_C(0x123456789abcdef0));
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(sample_told[i].how, WATCH_NEW_EXACT, "how %x", sample_told[i].how);
		cr_assert(sample_is_here(sample_told[i].ip));
		cr_assert_eq((int)sample_told[i].tid, gettid());
	}
	cr_assert_eq(sample_table->rows[0].taken, 3);
	cr_assert_eq(sample_table->rows[0].inexact, 0);
	sample_end(0);
}

/* ---- what instructions reveal ---- */

#define FORM(name, text)                                                                           \
	static __attribute__((noinline)) void name(uint64_t *to, uint64_t value)                   \
	{                                                                                          \
		__asm__ volatile(text                                                              \
				 : "+D"(to), "+S"(value)                                           \
				 :                                                                 \
				 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r12", "xmm0", "cc",    \
				   "memory");                                                      \
	}

FORM(form_mov, "mov %%rsi, (%%rdi)")
FORM(form_mov_high, "mov %%rsi, %%rax\n\tmov %%ah, (%%rdi)")
FORM(form_mov_index, "xor %%r12, %%r12\n\tmov %%esi, 0x0(%%rdi,%%r12,4)")
FORM(form_mov_imm, "movq $-5, (%%rdi)")
FORM(form_mov_word, "movw $0x1234, (%%rdi)")
FORM(form_xchg, "mov %%rsi, %%rax\n\txchg %%rax, (%%rdi)")
FORM(form_xadd, "mov %%rsi, %%rax\n\tlock xadd %%rax, (%%rdi)")
FORM(form_xchg_word, "mov $0x1234, %%eax\n\tlea (%%rdi), %%rcx\n\txchg %%ax, (%%rcx)")
FORM(form_xchg_zero, "xor %%r9d, %%r9d\n\txchg %%r9, (%%rdi)")
FORM(form_xadd_imm, "mov $-2, %%rbx\n\tmov (%%rdi), %%rcx\n\tlock xadd %%rbx, (%%rdi)")
FORM(form_xadd_load, "push %%rsi\n\tmov (%%rsp), %%eax\n\tlock xadd %%rax, (%%rdi)\n\tpop %%rsi")
FORM(form_xchg_hidden, "lea (%%rsi), %%rax\n\txchg %%rax, (%%rdi)")
FORM(form_xadd_jump, "mov %%rsi, %%rax\n\tjmp 1f\n\tmov $77, %%rax\n1:\tlock xadd %%rax, (%%rdi)")
FORM(form_xchg_stale, "mov %%rsi, %%rax\n\tmov $5, %%esi\n\txchg %%rax, (%%rdi)")
FORM(form_cmpxchg16,
     "lea -8(%%rdi), %%rdi\n\tmov (%%rdi), %%rax\n\tmov 8(%%rdi), %%rdx\n\tmov %%rax, %%rbx\n\t"
     "mov %%rsi, %%rcx\n\tlock cmpxchg16b (%%rdi)")
FORM(form_cmpxchg8, "mov (%%rdi), %%eax\n\tmov 4(%%rdi), %%edx\n\tmov %%esi, %%ebx\n\t"
		    "mov %%edx, %%ecx\n\tlock cmpxchg8b (%%rdi)")
FORM(form_cmpxchg, "mov (%%rdi), %%rax\n\tlock cmpxchg %%rsi, (%%rdi)")
FORM(form_cmpxchg_not, "mov $-1, %%rax\n\tlock cmpxchg %%rsi, (%%rdi)")
FORM(form_add, "add %%rsi, (%%rdi)")
FORM(form_inc, "lock incq (%%rdi)")
FORM(form_not, "notq (%%rdi)")
FORM(form_and_imm, "andq $0x0f, (%%rdi)")
FORM(form_sub_byte, "subb $1, (%%rdi)")
FORM(form_shift, "shlq $1, (%%rdi)")
FORM(form_setcc, "cmp %%rdi, %%rdi\n\tsete (%%rdi)")
FORM(form_stos, "mov %%rsi, %%rax\n\tstosq")
FORM(form_rep_stos, "mov %%rsi, %%rax\n\tmov $2, %%ecx\n\trep stosq")
FORM(form_movs, "mov %%rsi, word_source(%%rip)\n\tlea word_source(%%rip), %%rsi\n\tmovsq")
FORM(form_movq, "movq %%rsi, %%xmm0\n\tmovq %%xmm0, (%%rdi)")
FORM(form_movups, "movq %%rsi, %%xmm0\n\tpunpcklqdq %%xmm0, %%xmm0\n\tmovups %%xmm0, -8(%%rdi)")
FORM(form_movss, "movq %%rsi, %%xmm0\n\tmovss %%xmm0, (%%rdi)")
FORM(form_push, "mov %%rsp, %%r8\n\tlea 8(%%rdi), %%rsp\n\tpush %%rsi\n\tmov %%r8, %%rsp")

FORM(form_fstp, "mov %%rsi, word_source(%%rip)\n\tfildq word_source(%%rip)\n\tfstpt -8(%%rdi)")
FORM(form_fld, "fldt -8(%%rdi)\n\tfstp %%st(0)")
FORM(form_evex, "movq %%rsi, %%xmm0\n\tlea 8(%%rdi), %%rdi\n\tvmovdqu64 %%xmm0, -16(%%rdi)")

FORM(form_movdqa_load, "movdqa -8(%%rdi), %%xmm0")
FORM(form_paddq, "paddq -8(%%rdi), %%xmm0")
FORM(form_pextr, "movdqu -8(%%rdi), %%xmm0\n\tpextrq $1, %%xmm0, -4(%%rdi)")

uint64_t word_source;

#define EXACT WATCH_NEW_EXACT
#define BOTH (WATCH_NEW_EXACT | WATCH_OLD_EXACT)

static const struct form {
	const char *name;
	void (*run)(uint64_t *to, uint64_t value);
	uint64_t before, value, after;
	uint16_t how;
} forms[] = {
	{ "mov", form_mov, 3, 9, 9, EXACT },
	{ "mov ah", form_mov_high, 0x100, 0x4200, 0x142, EXACT },
	{ "mov esi, index", form_mov_index, UINT64_C(7) << 32, 9, (UINT64_C(7) << 32) + 9, EXACT },
	{ "mov $", form_mov_imm, 3, 0, (uint64_t)-5, EXACT },
	{ "movw $", form_mov_word, 0x11110000, 0, 0x11111234, EXACT },
	{ "xchg", form_xchg, 3, 9, 9, BOTH },
	{ "xchg word", form_xchg_word, 0x11110000, 0, 0x11111234, EXACT },
	{ "xchg of 0", form_xchg_zero, 3, 0, 0, BOTH },
	{ "xadd", form_xadd, 3, 9, 12, BOTH },
	{ "xadd $", form_xadd_imm, 3, 0, 1, BOTH },
	{ "xadd of a variable", form_xadd_load, 3, 9, 12, BOTH },
	{ "xchg, operand unknown", form_xchg_hidden, 3, 9, 9, WATCH_OLD_EXACT },
	{ "xadd, behind a jump", form_xadd_jump, 3, 9, 12, WATCH_OLD_EXACT },
	{ "xchg, source changed", form_xchg_stale, 3, 9, 9, WATCH_OLD_EXACT },
	{ "cmpxchg16b", form_cmpxchg16, 3, 9, 9, BOTH },
	{ "cmpxchg8b", form_cmpxchg8, UINT64_C(7) << 32 | 3, 9, UINT64_C(7) << 32 | 9, BOTH },
	{ "cmpxchg", form_cmpxchg, 3, 9, 9, BOTH },
	{ "add", form_add, 3, 9, 12, EXACT },
	{ "inc", form_inc, 3, 0, 4, EXACT },
	{ "not", form_not, 3, 0, ~UINT64_C(3), EXACT },
	{ "and $", form_and_imm, 0x73, 0, 3, EXACT },
	{ "subb $", form_sub_byte, 0x100, 0, 0x1ff, 0 },
	{ "shl", form_shift, 3, 0, 6, 0 },
	{ "sete", form_setcc, 0x700, 0, 0x701, EXACT },
	{ "stos", form_stos, 3, 9, 9, EXACT },
	{ "rep stos", form_rep_stos, 3, 9, 9, EXACT },
	{ "movs", form_movs, 3, 9, 9, EXACT },
	{ "movq xmm", form_movq, 3, 9, 9, EXACT },
	{ "movups", form_movups, 3, 9, 9, EXACT },
	{ "movss", form_movss, UINT64_C(7) << 32, 9, (UINT64_C(7) << 32) + 9, EXACT },
	{ "push", form_push, 3, 9, 9, EXACT },
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))

Test(watch, the_instruction_tells_what_it_stored, .timeout = 60)
{
	struct control_watch about = sample_about(0, &word[1], 8);

	sample_begin();
	sample_arm(&about);
	for (size_t i = 0; i < FORMS; i++) {
		word[1] = forms[i].before;
		forms[i].run(&word[1], forms[i].value);
		cr_assert_eq(word[1], forms[i].after, "%s", forms[i].name);
	}
	cr_assert_eq(sample_collect(8), 2 * FORMS);
	for (size_t i = 0; i < FORMS; i++) {
		const struct sample_told *one = &sample_told[2 * i + 1];

		cr_assert_eq(sample_told[2 * i].now, forms[i].before, "%s", forms[i].name);
		cr_assert_eq(one->old, forms[i].before, "%s: %lx", forms[i].name, one->old);
		cr_assert_eq(one->now, forms[i].after, "%s: %lx", forms[i].name, one->now);
		cr_assert_eq(one->how, forms[i].how, "%s: how %x", forms[i].name, one->how);
	}
	cr_assert_eq(sample_counted(0), sample_table->rows[0].taken);
	sample_end(0);
}

/*
 * Another thread's store that no signal reports, as the kernel's are: the computed value is wrong.
 */
Test(watch, what_an_instruction_does_not_tell_is_read, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	sample_table->rows[0].last.value = 1000; /* no signal's */
	form_inc(word, 0);
	form_mov_word(word, 0);
	cr_assert_eq(sample_collect(8), 2);
	cr_assert_eq(sample_told[0].now, 1);
	cr_assert_eq(sample_told[0].how, 0, "not the chain's 1001");
	cr_assert_eq(sample_told[1].now, 0x1234);
	cr_assert_eq(sample_told[1].how, EXACT | WATCH_OLD_UNCERTAIN, "the chain is right again");
	cr_assert_eq(sample_table->rows[0].inexact, 1);
	sample_end(0);
}

Test(watch, a_failed_exchange_is_told_with_what_it_met, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);

	word[0] = 3;
	sample_begin();
	sample_arm(&about);
	form_cmpxchg_not(word, 9);
	cr_assert_eq(sample_collect(8), sample_counted(0),
		     "processors differ on whether it stores");
	if (sample_told_count) {
		cr_assert_eq(sample_told[0].now, 3);
		cr_assert_eq(sample_told[0].old, 3);
	}
	sample_end(0);
}

/* ---- which instruction it was ---- */

FORM(form_mov_rep,
     "mov %%rsi, %%rax\n\tmov $8, %%ecx\n\tmov %%rdi, %%rbx\n\tmov %%eax, (%%rbx)\n\trep stosb")
FORM(form_lea_rep, "mov %%rsi, %%rax\n\tmov $8, %%ecx\n\tlea lea_to(%%rip), %%rdi\n"
		   "form_lea_rep_at:\n\trep stosb\nform_lea_rep_end:")
FORM(form_call_slot, "xor %%eax, %%eax\nform_call_at:\n\tcall *call_slot(%%rip)")
FORM(form_call_push, "mov %%rsp, %%r8\n\tlea 8(%%rdi), %%rsp\nform_push_at:\n\tcall led_to\n"
		     "\tmov %%r8, %%rsp")
FORM(form_jump_slot, "lea 1f(%%rip), %%r12\n\tjmp *jump_slot(%%rip)\n1:")
FORM(form_fxsave, "form_fxsave_at:\n\tfxsave -512+32(%%rdi)")

extern const char form_lea_rep_at[], form_lea_rep_end[], form_call_at[], form_push_at[],
	form_fxsave_at[];
extern void led_to(void), jumped_to(void);
uint64_t lea_to __attribute__((aligned(64)));
void (*call_slot)(void) __attribute__((aligned(64))) = led_to;
void (*jump_slot)(void) __attribute__((aligned(64))) = jumped_to;

__asm__(".text\n\t.p2align 4\n\t.type led_to, @function\nled_to:\n\t.cfi_startproc\n\tret\n\t.cfi_endproc\n"
	"\t.p2align 4\n\t.type jumped_to, @function\njumped_to:\n\t.cfi_startproc\n\tjmp *%r12\n\t.cfi_endproc\n");

/* While a repeated one comes after another store to the same bytes, either can have been it. */
Test(watch, a_repeated_store_is_not_taken_for_the_one_before, .timeout = 30)
{
	struct control_watch about = sample_about(0, word, 8);
	unsigned int as_stored = 0;

	sample_begin();
	sample_arm(&about);
	form_mov_rep(word, 0x44332211);
	cr_assert_eq(word[0], UINT64_C(0x1111111111111111));
	cr_assert_geq(sample_collect(8), 3);
	for (unsigned int i = 0; i < sample_told_count; i++)
		as_stored += sample_told[i].now == 0x44332211 && sample_told[i].how & EXACT;
	cr_assert_eq(as_stored, 1, "the mov alone: %u", as_stored);
	cr_assert_eq(sample_told[sample_told_count - 1].now, UINT64_C(0x1111111111111111));
	sample_end(0);
}

Test(watch, an_address_that_is_loaded_is_no_store, .timeout = 30)
{
	struct control_watch about = sample_about(0, &lea_to, 8);

	sample_begin();
	sample_arm(&about);
	form_lea_rep(word, 7);
	cr_assert_geq(sample_collect(8), 1);
	for (unsigned int i = 0; i < sample_told_count; i++)
		cr_assert_eq(sample_told[i].ip, (uintptr_t)form_lea_rep_at, "how %x",
			     sample_told[i].how);
	sample_end(0);
}

/*
 * One hit, which is found to be that of the instruction at `at`; NULL: of none. It stays
 * sample_told[0]; sample_end(0) is next.
 */
static void hit_once(struct control_watch *about, void (*run)(uint64_t *to, uint64_t value),
		     uint64_t *to, const char *at)
{
	sample_begin();
	sample_arm(about);
	run(to, 0);
	cr_assert_eq(sample_collect(8), 1);
	cr_assert_eq(sample_told[0].ip, (uintptr_t)at, "how %x", sample_told[0].how);
}

Test(watch, a_call_is_found_from_where_it_led, .timeout = 30)
{
	struct control_watch about = sample_about(0, &call_slot, 8);

	about.on = WATCH_ON_ACCESS;
	hit_once(&about, form_call_slot, word, form_call_at);
	cr_assert(sample_told[0].how & WATCH_READ);
	cr_assert_eq(sample_told[0].now, (uintptr_t)led_to);
	sample_end(0);
}

Test(watch, a_call_that_stores_where_it_returns_to_is_found, .timeout = 30)
{
	static uint64_t stack[1024] __attribute__((aligned(64)));
	struct control_watch about = sample_about(0, &stack[1000], 8);

	hit_once(&about, form_call_push, &stack[1000], form_push_at);
	cr_assert_eq(sample_told[0].how, EXACT);
	sample_end(0);
}

Test(watch, a_jump_is_not_taken_for_what_stands_before_its_target, .timeout = 30)
{
	struct control_watch about = sample_about(0, &jump_slot, 8);

	about.on = WATCH_ON_ACCESS;
	hit_once(&about, form_jump_slot, word, NULL);
	cr_assert(sample_told[0].how & WATCH_IP_UNKNOWN, "how %x", sample_told[0].how);
	sample_end(0);
}

Test(watch, a_large_store_is_found_and_its_value_read, .timeout = 30)
{
	static uint8_t area[4096] __attribute__((aligned(64)));
	struct control_watch about = sample_about(0, area + 512 + 160, 8);

	hit_once(&about, form_fxsave, (uint64_t *)(void *)(area + 512 + 512 - 32), form_fxsave_at);
	cr_assert_eq(sample_told[0].how & EXACT, 0);
	sample_end(0);
}

/* ---- what reads alone ---- */

FORM(read_mov, "mov (%%rdi), %%rax")
FORM(read_addsd, "addsd (%%rdi), %%xmm0")
FORM(read_movq, "movq (%%rdi), %%xmm0")
FORM(read_ucomisd, "ucomisd (%%rdi), %%xmm0")
FORM(read_cvt, "cvttsd2si (%%rdi), %%rax")
FORM(read_imul, "imul $3, (%%rdi), %%rax")
FORM(read_bt, "btq $3, (%%rdi)")
FORM(read_popcnt, "popcnt (%%rdi), %%rax")
FORM(read_movbe, "movbe (%%rdi), %%rax")
FORM(read_vex, "vaddsd (%%rdi), %%xmm0, %%xmm0")
FORM(read_vex_other, "vpmovzxbw (%%rdi), %%xmm0")
FORM(read_lods, "mov %%rdi, %%rsi\n\tlodsq")
FORM(read_scas, "scasq")
FORM(read_cmps, "mov %%rdi, %%rsi\n\tlea word_source(%%rip), %%rdi\n\tcmpsq")
FORM(read_movs, "mov %%rdi, %%rsi\n\tlea word_source(%%rip), %%rdi\n\tmovsq")
FORM(read_rep_movs,
     "mov %%rdi, %%rsi\n\tlea word_source(%%rip), %%rdi\n\tmov $1, %%ecx\n\trep movsq")
FORM(read_pop, "mov %%rsp, %%r8\n\tmov %%rdi, %%rsp\n\tpop %%rax\n\tmov %%r8, %%rsp")
FORM(read_leave, "mov %%rsp, %%r8\n\tmov %%rbp, %%r12\n\tmov %%rdi, %%rbp\n\tleave\n\t"
		 "mov %%r8, %%rsp\n\tmov %%r12, %%rbp")

static const struct {
	const char *name;
	void (*run)(uint64_t *to, uint64_t value);
	int is_avx;
} readers[] = {
	{ "mov", read_mov, 0 },
	{ "addsd", read_addsd, 0 },
	{ "movq", read_movq, 0 },
	{ "ucomisd", read_ucomisd, 0 },
	{ "cvttsd2si", read_cvt, 0 },
	{ "imul", read_imul, 0 },
	{ "bt", read_bt, 0 },
	{ "popcnt", read_popcnt, 0 },
	{ "movbe", read_movbe, 0 },
	{ "vaddsd", read_vex, 1 },
	{ "vpmovzxbw", read_vex_other, 1 },
	{ "lods", read_lods, 0 },
	{ "scas", read_scas, 0 },
	{ "cmps", read_cmps, 0 },
	{ "movs", read_movs, 0 },
	{ "rep movs", read_rep_movs, 0 },
	{ "pop", read_pop, 0 },
	{ "leave", read_leave, 0 },
};

/* Vector instructions, strings and the stack's read as well as a mov does. */
Test(watch, what_reads_alone_is_told_as_a_read, .timeout = 60)
{
	/* a signal's frame comes below what is taken for the stack */
	static uint64_t area[4096] __attribute__((aligned(64)));
	uint64_t *at = &area[4000];
	struct control_watch about = sample_about(0, at, 8);
	unsigned int count = 0;

	about.on = WATCH_ON_ACCESS;
	*at = 7;
	sample_begin();
	sample_arm(&about);
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++)
		if (!readers[i].is_avx || __builtin_cpu_supports("avx"))
			readers[i].run(at, 0);
	sample_collect(8);
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		const struct sample_told *one = &sample_told[count];

		if (readers[i].is_avx && !__builtin_cpu_supports("avx"))
			continue;
		count++;
		cr_assert_eq(one->how, WATCH_READ | EXACT, "%s: how %x", readers[i].name, one->how);
		cr_assert_eq(one->now, 7, "%s", readers[i].name);
		cr_assert_eq(one->old, 7, "%s", readers[i].name);
	}
	cr_assert_eq(sample_told_count, count);
	sample_end(0);
}

/* ---- several ---- */

Test(watch, one_store_to_two_watches_is_both, .timeout = 30)
{
	struct control_watch low = sample_about(0, &word[0], 8),
			     high = sample_about(1, &word[1], 8);

	sample_begin();
	sample_arm(&low);
	sample_arm(&high);
	for (uint64_t i = 1; i <= 10; i++)
		form_movups(&word[1], i); /* word[0] and word[1] */
	cr_assert_eq(sample_counted(0), 10);
	cr_assert_eq(sample_counted(1), 10);
	cr_assert_eq(sample_table->rows[0].taken, 10);
	cr_assert_eq(sample_table->rows[1].taken, 10);
	cr_assert_eq(sample_table->rows[0].shared + sample_table->rows[1].shared, 10);
	cr_assert_eq(sample_collect(8), 20);
	for (unsigned int i = 0; i < sample_told_count; i++) {
		cr_assert_eq(sample_told[i].now, i / 2 + 1);
		cr_assert_eq(sample_told[i].old, i / 2);
	}
	sample_end(0);
	sample_end(1);
}

/* Their values are read, but how far they reach is known. */
static void meets_two(const char *name, void (*run)(uint64_t *to, uint64_t value), int is_read)
{
	struct control_watch low = sample_about(0, &word[0], 8),
			     high = sample_about(1, &word[1], 8);

	low.on = high.on = is_read ? WATCH_ON_ACCESS : WATCH_ON_WRITE;
	sample_begin();
	sample_arm(&low);
	sample_arm(&high);
	run(&word[1], 3);
	run(&word[1], 4);
	cr_assert_eq(sample_counted(0), 2, "%s", name);
	cr_assert_eq(sample_counted(1), 2, "%s", name);
	cr_assert_eq(sample_table->rows[0].taken, 2, "%s", name);
	cr_assert_eq(sample_table->rows[1].taken, 2, "%s", name);
	cr_assert_eq(sample_collect(8), 4, "%s", name);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq((sample_told[i].how & WATCH_READ) != 0, is_read, "%s: how %x", name,
			     sample_told[i].how);
	sample_end(0);
	sample_end(1);
}

Test(watch, what_x87_stores_to_two_watches_is_both, .timeout = 30)
{
	meets_two("fstp", form_fstp, 0);
}

Test(watch, what_x87_loads_from_two_watches_is_a_read_of_both, .timeout = 30)
{
	meets_two("fld", form_fld, 1);
}

Test(watch, what_a_vector_is_loaded_from_is_a_read_of_both, .timeout = 30)
{
	meets_two("movdqa", form_movdqa_load, 1);
}

Test(watch, what_a_vector_is_added_from_is_a_read_of_both, .timeout = 30)
{
	meets_two("paddq", form_paddq, 1);
}

Test(watch, what_a_part_of_a_vector_is_stored_to_is_both, .timeout = 30)
{
	meets_two("pextrq", form_pextr, 0);
}

Test(watch, what_evex_stores_to_two_watches_is_both, .timeout = 30)
{
	if (!__builtin_cpu_supports("avx512vl"))
		cr_skip_test("this processor has no AVX-512");
	meets_two("vmovdqu64", form_evex, 0);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sequence;

static void *write_in_turn(void *unused)
{
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&turn);
		*(volatile uint64_t *)word = ++sequence;
		pthread_mutex_unlock(&turn);
	}
	return unused;
}

static void run_threads(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, body, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

Test(watch, writes_in_turn_are_all_there_in_their_order, .timeout = 60)
{
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	run_threads(write_in_turn);
	cr_assert_eq(sample_counted(0), 100 * THREADS);
	cr_assert_eq(sample_collect(8), 100 * THREADS);
	for (uint64_t i = 0; i < sample_told_count; i++) {
		cr_assert_eq(sample_told[i].old, i);
		cr_assert_eq(sample_told[i].now, i + 1);
		cr_assert_eq(sample_told[i].how, WATCH_NEW_EXACT);
	}
	sample_end(0);
}

static void *write_at_once(void *number)
{
	for (uint64_t i = 1; i <= 200; i++)
		*(volatile uint64_t *)word = (uint64_t)(uintptr_t)number << 32 | i;
	return NULL;
}

/*
 * No lock: the order of the writes is unknown, but each value is its thread's own, and the chain
 * has no gap.
 */
Test(watch, writes_at_once_are_all_there_each_with_its_own_value, .timeout = 60)
{
	struct control_watch about = sample_about(0, word, 8);
	uint64_t last[THREADS] = { 0 };
	uint32_t tids[THREADS] = { 0 };

	sample_begin();
	sample_arm(&about);
	run_threads(write_at_once);
	cr_assert_eq(sample_counted(0), 200 * THREADS);
	cr_assert_eq(sample_collect(8), 200 * THREADS);
	for (unsigned int i = 0; i < sample_told_count; i++) {
		uint64_t thread = sample_told[i].now >> 32;

		cr_assert_lt(thread, THREADS);
		cr_assert_eq((uint32_t)sample_told[i].now, ++last[thread]);
		if (!tids[thread])
			tids[thread] = sample_told[i].tid;
		cr_assert_eq(sample_told[i].tid, tids[thread]);
		cr_assert_eq(sample_told[i].old, i ? sample_told[i - 1].now : 0);
		cr_assert_eq(sample_told[i].how, WATCH_NEW_EXACT);
		cr_assert(!i || sample_told[i].ticks > sample_told[i - 1].ticks);
	}
	cr_assert_eq(sample_table->rows[0].inexact, 0);
	sample_end(0);
}

static void *exchange_at_once(void *number)
{
	for (uint64_t i = 1; i <= 200; i++)
		form_xadd(word, 1);
	return number;
}

Test(watch, exchanges_at_once_tell_what_each_met, .timeout = 60)
{
	static uint8_t met[200 * THREADS];
	struct control_watch about = sample_about(0, word, 8);

	sample_begin();
	sample_arm(&about);
	run_threads(exchange_at_once);
	cr_assert_eq(word[0], 200 * THREADS);
	cr_assert_eq(sample_collect(8), 200 * THREADS);
	for (unsigned int i = 0; i < sample_told_count; i++) {
		cr_assert(sample_told[i].how & WATCH_OLD_EXACT);
		cr_assert_lt(sample_told[i].old, 200 * THREADS);
		met[sample_told[i].old]++;
	}
	for (unsigned int i = 0; i < 200 * THREADS; i++)
		cr_assert_eq(met[i], 1, "%u", i);
	sample_end(0);
}
