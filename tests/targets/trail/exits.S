/* SPDX-License-Identifier: MIT */
/* A first thread that leaves before the others; the process's end is the last one's. */
#include "program.inc"

#define CLONE_FLAGS 0x50f00

	oracle	unwalked
	expect	leaving
	expect_threads thread (sleeping)+ done
_start:
	mov	$CLONE_FLAGS, %edi
	lea	stack_end(%rip), %rsi
	xor	%edx, %edx
	xor	%r10d, %r10d
	call_system __NR_clone
	test	%eax, %eax
	jz	thread
leaving:
	mov	$3, %edi
	call_system __NR_exit
thread:
	mov	$3, %ebp
1:
sleeping:
	lea	time(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_nanosleep
	dec	%ebp
	jnz	1b
done:
	quit	5

	.data
	.balign	8
time:	.quad	0, 10000000
	.bss
	.balign	16
	.skip	4096
stack_end:
	.skip	64
