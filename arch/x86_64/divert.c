/* SPDX-License-Identifier: MIT */
#include "arch/divert.h"

#include <errno.h>
#include <string.h>

void (*hook_handler)(void) __attribute__((visibility("hidden")));

__asm__(".text\n"
	".globl divert_entry_code\n"
	".hidden divert_entry_code\n"
	".type divert_entry_code, @function\n"
	"divert_entry_code:\n\t"
	".cfi_startproc\n\t"
	"endbr64\n\t" /* the far jump is an indirect one */
	"pushfq\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rax\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rcx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rdx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rsi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %rdi\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %r8\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %r9\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %r10\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"push %r11\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	"pushq $2\n\t" /* for the handler, no DF and no AC */
	".cfi_adjust_cfa_offset 8\n\t"
	"popfq\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"lea -8(%rsp), %rsp\n\t" /* eleven words and the return address: aligned to 16 */
	".cfi_adjust_cfa_offset 8\n\t"
	"call *hook_handler(%rip)\n\t"
	"lea 8(%rsp), %rsp\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %r11\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %r10\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %r9\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %r8\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rdi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rsi\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rdx\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rcx\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"pop %rax\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"popfq\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"ret\n\t"
	".cfi_endproc\n\t"
	".size divert_entry_code, . - divert_entry_code\n");

/*
 * The padding that assemblers write (Intel SDM volume 2, NOP, table 4-12; int3). Its length, or 0.
 */
static size_t padding_length(const uint8_t *code, size_t bytes)
{
	size_t prefixes = 0, length;

	while (prefixes < bytes && (code[prefixes] == 0x66 || code[prefixes] == 0x2e))
		prefixes++;
	if (prefixes < bytes && code[prefixes] == 0x90)
		return prefixes + 1;
	if (!prefixes && bytes && code[0] == 0xcc)
		return 1;
	if (bytes < prefixes + 3 || code[prefixes] != 0x0f || code[prefixes + 1] != 0x1f)
		return 0;
	switch (code[prefixes + 2]) {
	case 0x00:
		length = 3;
		break;
	case 0x40:
		length = 4;
		break;
	case 0x44:
		length = 5;
		break;
	case 0x80:
		length = 7;
		break;
	case 0x84:
		length = 8;
		break;
	default:
		return 0;
	}
	return prefixes + length;
}

int divert_find(const uint8_t code[DIVERT_LOOK_BYTES])
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = memcmp(code, endbr64, sizeof endbr64) ? 0 : sizeof endbr64;
	size_t end = at + 1;

	if (code[at] != 0xc3)
		return -1;
	while (end < at + DIVERT_BYTES) {
		size_t length = padding_length(code + end, DIVERT_LOOK_BYTES - end);

		if (!length)
			return -1;
		end += length;
	}
	return (int)at;
}

int divert_jump(uintptr_t from, uintptr_t to, uint8_t jump[DIVERT_BYTES])
{
	intptr_t distance = (intptr_t)(to - from - DIVERT_BYTES);
	int32_t displacement = (int32_t)distance;

	if (displacement != distance)
		return -ERANGE;
	jump[0] = 0xe9;
	memcpy(jump + 1, &displacement, sizeof displacement);
	return 0;
}

void divert_far_jump(uintptr_t to, uint8_t jump[DIVERT_FAR_BYTES])
{
	static const uint8_t code[] = { 0xff, 0x25, 0, 0, 0, 0 }; /* jmp *0(%rip) */

	memset(jump, 0xcc, DIVERT_FAR_BYTES);
	memcpy(jump, code, sizeof code);
	memcpy(jump + sizeof code, &to, sizeof to);
}
