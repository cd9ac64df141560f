/* SPDX-License-Identifier: MIT */
/*
 * Whether a probed place leaves every register as it was: registers ROUNDS. Each round sets
 * all there are, goes through a function's entry, its return and an address in it, and compares. It
 * ends with 0 when nothing had changed, else names what had.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 64 /* bytes of a vector register */

struct state {
	uint64_t general[15]; /* rax rbx rcx rdx rsi rdi rbp r8-r15 */
	uint64_t flags;
	uint8_t x87[10], control[2];
	uint32_t mxcsr;
	uint64_t masks[8];
	uint8_t vectors[32][WIDE] __attribute__((aligned(64)));
};

/* pass_through() of the first into the second, with those vector registers that there are. */
void enter_512(const struct state *before, struct state *after);
void enter_256(const struct state *before, struct state *after);

/*
 * passed: the probed function, which changes nothing. `inner` comes after its first instructions,
 * where the flags are needed and the red zone is in use.
 */
__asm__(".text\n"
	".globl passed, passed_inner\n.type passed, @function\n"
	"passed:\n.cfi_startproc\n"
	"	movq	%r15, -8(%rsp)\n"
	"	movq	%r14, -120(%rsp)\n"
	"passed_inner:\n"
	"	movq	-8(%rsp), %r15\n"
	"	movq	-120(%rsp), %r14\n"
	"	jc	1f\n" /* looks at the flags */
	"1:	ret\n"
	".cfi_endproc\n.size passed, . - passed\n");

#define FOR_16(X)                                                                                  \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define FOR_32(X)                                                                                  \
	FOR_16(X)                                                                                  \
	X(16)                                                                                      \
	X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define FOR_MASKS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define LOAD_512(n) "vmovdqu64 %c[vectors]+64*" #n "(%%rax), %%zmm" #n "\n"
#define STORE_512(n) "vmovdqu64 %%zmm" #n ", %c[vectors]+64*" #n "(%%rax)\n"
#define LOAD_256(n) "vmovdqu %c[vectors]+64*" #n "(%%rax), %%ymm" #n "\n"
#define STORE_256(n) "vmovdqu %%ymm" #n ", %c[vectors]+64*" #n "(%%rax)\n"
#define LOAD_MASK(n) "kmovq %c[masks]+8*" #n "(%%rax), %%k" #n "\n"
#define STORE_MASK(n) "kmovq %%k" #n ", %c[masks]+8*" #n "(%%rax)\n"

#define ENTER(load, store)                                                                         \
	__asm__ volatile("pushq %%rbp\n"                                                           \
			 "pushq %%rbx\n"                                                           \
			 "pushq %[after]\n"                                                        \
			 "movq %[before], %%rax\n"                                                 \
			 "fninit\n"                                                                \
			 "fldcw %c[control](%%rax)\n"                                              \
			 "fldt %c[x87](%%rax)\n"                                                   \
			 "ldmxcsr %c[mxcsr](%%rax)\n" load "movq 8(%%rax), %%rbx\n"                \
			 "movq 16(%%rax), %%rcx\n"                                                 \
			 "movq 24(%%rax), %%rdx\n"                                                 \
			 "movq 32(%%rax), %%rsi\n"                                                 \
			 "movq 40(%%rax), %%rdi\n"                                                 \
			 "movq 48(%%rax), %%rbp\n"                                                 \
			 "movq 56(%%rax), %%r8\n"                                                  \
			 "movq 64(%%rax), %%r9\n"                                                  \
			 "movq 72(%%rax), %%r10\n"                                                 \
			 "movq 80(%%rax), %%r11\n"                                                 \
			 "movq 88(%%rax), %%r12\n"                                                 \
			 "movq 96(%%rax), %%r13\n"                                                 \
			 "movq 104(%%rax), %%r14\n"                                                \
			 "movq 112(%%rax), %%r15\n"                                                \
			 "pushq %c[flags](%%rax)\n"                                                \
			 "movq (%%rax), %%rax\n"                                                   \
			 "popfq\n"                                                                 \
			 "call passed\n"                                                           \
			 "pushfq\n"                                                                \
			 "cld\n"                                                                   \
			 "pushq %%rax\n"                                                           \
			 "movq 16(%%rsp), %%rax\n"                                                 \
			 "popq (%%rax)\n"                                                          \
			 "popq %c[flags](%%rax)\n"                                                 \
			 "movq %%rbx, 8(%%rax)\n"                                                  \
			 "movq %%rcx, 16(%%rax)\n"                                                 \
			 "movq %%rdx, 24(%%rax)\n"                                                 \
			 "movq %%rsi, 32(%%rax)\n"                                                 \
			 "movq %%rdi, 40(%%rax)\n"                                                 \
			 "movq %%rbp, 48(%%rax)\n"                                                 \
			 "movq %%r8, 56(%%rax)\n"                                                  \
			 "movq %%r9, 64(%%rax)\n"                                                  \
			 "movq %%r10, 72(%%rax)\n"                                                 \
			 "movq %%r11, 80(%%rax)\n"                                                 \
			 "movq %%r12, 88(%%rax)\n"                                                 \
			 "movq %%r13, 96(%%rax)\n"                                                 \
			 "movq %%r14, 104(%%rax)\n"                                                \
			 "movq %%r15, 112(%%rax)\n" store "stmxcsr %c[mxcsr](%%rax)\n"             \
			 "fnstcw %c[control](%%rax)\n"                                             \
			 "fstpt %c[x87](%%rax)\n"                                                  \
			 "fninit\n"                                                                \
			 "addq $8, %%rsp\n"                                                        \
			 "popq %%rbx\n"                                                            \
			 "popq %%rbp\n"                                                            \
			 :                                                                         \
			 : [before] "D"(before), [after] "S"(after),                               \
			   [control] "i"(offsetof(struct state, control)),                         \
			   [x87] "i"(offsetof(struct state, x87)),                                 \
			   [mxcsr] "i"(offsetof(struct state, mxcsr)),                             \
			   [flags] "i"(offsetof(struct state, flags)),                             \
			   [masks] "i"(offsetof(struct state, masks)),                             \
			   [vectors] "i"(offsetof(struct state, vectors))                          \
			 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",     \
			   "r15", "cc", "memory")

__attribute__((target("avx512f,avx512bw"), noinline)) void enter_512(const struct state *before,
								     struct state *after)
{
	ENTER(FOR_32(LOAD_512) FOR_MASKS(LOAD_MASK), FOR_32(STORE_512) FOR_MASKS(STORE_MASK));
	__asm__ volatile("vzeroupper");
}

__attribute__((target("avx"), noinline)) void enter_256(const struct state *before,
							struct state *after)
{
	ENTER(FOR_16(LOAD_256), FOR_16(STORE_256));
	__asm__ volatile("vzeroupper");
}

static void fill(struct state *state, unsigned int seed)
{
	static const uint8_t one[10] = { [7] = 0x80, 0xff, 0x3f };
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	uint8_t *bytes = (uint8_t *)state;

	for (size_t i = 0; i < sizeof(*state); i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		bytes[i] = (uint8_t)(random >> 56);
	}
	/* carry, parity, adjust, zero, sign, direction, overflow */
	state->flags = 0x202 | (random >> 8 & 0xcd5);
	state->mxcsr = 0x1f80 | (seed % 4) << 13; /* rounding */
	memcpy(state->control, (uint8_t[]){ 0x7f, (uint8_t)(seed % 4 << 2) }, 2);
	memcpy(state->x87, one, sizeof(one));
}

static int differ(const char *what, const void *a, const void *b, size_t bytes, unsigned int round)
{
	if (!memcmp(a, b, bytes))
		return 0;
	printf("round %u: %s changed\n", round, what);
	return 1;
}

static int compare(const struct state *a, const struct state *b, int wide, unsigned int round)
{
	int bad = differ("a general register", a->general, b->general, sizeof(a->general), round);

	bad |= differ("the flags", &a->flags, &b->flags, sizeof(a->flags), round);
	bad |= differ("MXCSR", &a->mxcsr, &b->mxcsr, sizeof(a->mxcsr), round);
	bad |= differ("the x87 control word", a->control, b->control, sizeof(a->control), round);
	bad |= differ("an x87 register", a->x87, b->x87, sizeof(a->x87), round);
	if (wide)
		return bad |
		       differ("a mask register", a->masks, b->masks, sizeof(a->masks), round) |
		       differ("a vector register", a->vectors, b->vectors, sizeof(a->vectors),
			      round);
	for (int i = 0; i < 16; i++)
		bad |= differ("a vector register", a->vectors[i], b->vectors[i], 32, round);
	return bad;
}

static void *run(void *data)
{
	unsigned int rounds = *(unsigned int *)data;
	int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
	static __thread struct state before, after;
	int bad = 0;

	for (unsigned int round = 0; round < rounds && !bad; round++) {
		fill(&before, round);
		if (wide)
			enter_512(&before, &after);
		else
			enter_256(&before, &after);
		bad = compare(&before, &after, wide, round);
	}
	return bad ? data : NULL;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 1;
	pthread_t other;
	void *result;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx"))
		return 77;
	/* a thread's first hit finds out about it: in the main one and in another */
	if (run(&rounds) || pthread_create(&other, NULL, run, &rounds) ||
	    pthread_join(other, &result))
		return 1;
	return result != NULL;
}
