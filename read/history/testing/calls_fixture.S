/* SPDX-License-Identifier: MIT */
/*
 * Names at known places, 64 bytes each, for paths that calls_test.c makes up. Nothing of it runs.
 */
	.macro	function name
	.globl	\name
	.type	\name, @function
\name:
	.skip	64, 0x90
	.size	\name, 64
	.endm

	.text
	.globl	_start
_start:
	function main
	function f
	function g
	function longjmp
	function _setjmp
	function f.cold
	function thunk
	function handler
	function swap
	.skip	32, 0x90	/* without a name: 0x401240 */
	/* as marker/site.h enters the agent: 0x401260 */
	add	$-128, %rsp
	push	%rax
	push	1f+8(%rip)
	call	*1f(%rip)
1:	add	$144, %rsp
	nop
	nop
	.byte	0xe9
	.long	f - . - 4
	int3

	.section .plt, "ax", @progbits
	.skip	64, 0x90
	.section .note.GNU-stack, "", @progbits
