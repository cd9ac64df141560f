/* SPDX-License-Identifier: MIT */
/*
 * Instructions that a hypervisor may emulate, and that may then have no trap, before instructions
 * of each kind but system calls. No instruction here depends on what cpuid returns.
 */
#include "program.inc"

	expect	plain plain_end chain chain_end taken taken_end untaken untaken_end
	expect	jumping jumped indirect indirect_end memory_jump memory_end
	expect	calling callee called pointing callee pointed memory_call callee memory_called
	expect	returning returned zero once rounds until until_end
	expect	(turn)*3 turned (again)*3 again_end (back)*3 back_end
	expect	faulting handler restorer faulted broken handler_broken restorer broken_end
	expect	long long_end others callee callee done
	action	on_fault, handler
	action	on_break, handler_broken

	.macro	emulated
	xor	%eax, %eax
	cpuid
	.endm

_start:
	lea	slot(%rip), %rbp
plain:
	emulated
	nop
plain_end:
	nop
chain:					/* several in a row */
	emulated
	cpuid
	pause
	cpuid
	nop
chain_end:
	nop
taken:
	cmp	%esp, %esp
	cpuid
	je	taken_end
never_a:
	nop
taken_end:
	nop
untaken:
	cmp	%esp, %esp
	cpuid
	jne	never_a
untaken_end:
	nop
jumping:
	cpuid
	jmp	jumped
never_b:
	nop
jumped:
	nop
indirect:
	lea	indirect_end(%rip), %rsi
	cpuid
	jmp	*%rsi
never_c:
	nop
indirect_end:
	nop
memory_jump:
	lea	memory_end(%rip), %rsi
	mov	%rsi, (%rbp)
	cpuid
	jmp	*(%rbp)
never_d:
	nop
memory_end:
	nop
calling:
	cpuid
	call	callee
called:
	nop
pointing:
	lea	callee(%rip), %rsi
	cpuid
	call	*%rsi
pointed:
	nop
memory_call:
	lea	callee(%rip), %rsi
	mov	%rsi, (%rbp)
	cpuid
	call	*(%rbp)
memory_called:
	nop
returning:
	lea	returned(%rip), %rsi
	push	%rsi
	cpuid
	ret	$0
never_e:
	nop
callee:
	cpuid
	ret
returned:
	lea	bytes(%rip), %rdi
zero:					/* a string instruction: no round, one, several */
	xor	%ecx, %ecx
	pause
	rep stosb
once:
	mov	$1, %ecx
	pause
	rep stosb
rounds:
	mov	$9, %ecx
	cpuid
	mov	$9, %ecx
	pause
	pause
	rep stosb
until:
	lea	bytes(%rip), %rsi
	lea	others_bytes(%rip), %rdi
	cpuid
	repe cmpsb
until_end:
	mov	$3, %esi
turn:					/* a loop that begins with one */
	cpuid
	dec	%esi
	jnz	turn
turned:
	mov	$3, %ecx
again:					/* a loop of no more than that */
	pause
	loop	again
again_end:
	lea	back_end(%rip), %rsi
	push	%rsi
	lea	back(%rip), %rsi
	push	%rsi
	push	%rsi
back:					/* a return to it */
	cpuid
	ret
back_end:
	catch	SIGILL, on_fault
faulting:
	emulated
	ud2
	jmp	faulted
handler:
	mov	%rdx, %rsi
	cpuid
	addq	$2, UC_RIP(%rsi)
	ret
faulted:
	catch	SIGTRAP, on_break
broken:
	emulated
	int3
broken_end:
	jmp	long
handler_broken:
	cpuid
	ret
long:					/* longer than a block */
	.rept	30
	cpuid
	nop
	pause
	.endr
long_end:
	nop
/* one whose traps come, on a machine that drops those of cpuid */
others:
	lea	callee(%rip), %rsi
	rdtsc
	call	*%rsi
	rdtsc
	call	callee
	lea	done(%rip), %rsi
	push	%rsi
	rdtsc
	ret
done:
	quit
	returns

	.data
	.balign	8
slot:	.quad	0
bytes:	.skip	16
others_bytes:
	.byte	0, 0, 0, 1
	.skip	12
