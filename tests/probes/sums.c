/* SPDX-License-Identifier: MIT */
/* Sums of three words whose carry is kept over a call. The status says whether one was wrong. */
#include <stdint.h>

__asm__(".text\n"
	".globl load_next\n.type load_next, @function\n"
	"load_next: .cfi_startproc\n"
	"	mov (%rsi), %rax\n	lea 8(%rsi), %rsi\n	ret\n"
	".cfi_endproc\n.size load_next, . - load_next\n"
	".globl add_three\n.type add_three, @function\n"
	"add_three: .cfi_startproc\n"
	"	call load_next\n	add %rax, (%rdi)\n"
	"	call load_next\n	adc %rax, 8(%rdi)\n"
	"	call load_next\n	adc %rax, 16(%rdi)\n"
	"	ret\n"
	".cfi_endproc\n.size add_three, . - add_three\n");

void add_three(uint64_t to[3], const uint64_t from[3]);

int main(void)
{
	unsigned int wrong = 0;

	for (uint64_t i = 0; i < 100; i++) {
		uint64_t to[3] = { UINT64_MAX - i, UINT64_MAX, 5 }, from[3] = { i + 1, 0, 7 };

		add_three(to, from);
		wrong += to[0] || to[1] || to[2] != 13;
	}
	return wrong != 0;
}
