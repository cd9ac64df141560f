/* SPDX-License-Identifier: MIT */
/*
 * Instructions that the kernel emulates where the processor has UMIP. Linux raises no trap behind
 * them, so a step of such an instruction ends one instruction later, on any machine.
 */
#include "program.inc"

	expect	plain plain_end chain chain_end branching branched calling callee called faulting handler restorer
	expect	faulted done
	action	on_fault, handler
_start:
plain:
	smsw	%eax
	nop
plain_end:
	nop
chain:
	smsw	%eax
	smsw	%ebx
	smsw	%ecx
	nop
chain_end:
	nop
branching:
	sgdt	table(%rip)
	jmp	branched
never_a:
	nop
branched:
	lea	callee(%rip), %rsi
calling:
	sidt	table(%rip)
	call	*%rsi
called:
	catch	SIGILL, on_fault
faulting:
	sidt	table(%rip)
	ud2
faulted:
	jmp	done
handler:
	sgdt	table(%rip)
	addq	$2, UC_RIP(%rdx)
	ret
callee:
	smsw	%eax
	ret
done:
	quit
	returns

	.data
table:	.skip	16
