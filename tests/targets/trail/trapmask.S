/* SPDX-License-Identifier: MIT */
/*
 * SIGTRAP blocked, with a handler: the handler is still there afterwards, the mask is what it was
 * set to, and one that is sent meanwhile comes when it is unblocked; also where a handler's own
 * mask, or its frame, blocks it.
 */
#include "program.inc"

#define TRAP_BIT (1 << (SIGTRAP - 1))

	oracle	unwalked
	expect	blocked asked sent trapped restorer unblocked after int3_run trapped restorer other masked restorer
	expect	last trapped restorer suspending counted restorer suspended done
	action	on_trap, trapped
	action	on_other, masked, 0, TRAP_BIT
	action	on_count, counted
_start:
	catch	SIGTRAP, on_trap
	mov	$0, %edi
	call	mask
blocked:
	nop
	nop
	mov	$0, %edi		/* and by how much more; what was */
	call	mask
asked:
	testl	$TRAP_BIT, old(%rip)
	jz	never_wrong
	raise	SIGTRAP
sent:
	nop
	mov	$1, %edi
	call	mask
unblocked:
	testl	$TRAP_BIT, old(%rip)
	jz	never_wrong
after:
	nop
int3_run:
	int3
	catch	SIGUSR1, on_other
other:
	raise	SIGUSR1
	mov	$1, %edi
	call	mask
	testl	$TRAP_BIT, old(%rip)
	jnz	never_wrong
last:
	int3
	mov	$0, %edi		/* waits with none blocked, while one is sent already */
	call	mask_all
	catch	SIGUSR1, on_count
	raise	SIGUSR1
suspending:
	lea	nothing(%rip), %rdi
	mov	$8, %esi
	call_system __NR_rt_sigsuspend
suspended:
	cmp	$-4, %rax
	jne	never_wrong
	mov	$0, %edi
	call	mask
	testl	$TRAP_BIT, old(%rip)
	jz	never_wrong
	mov	$1, %edi
	call	mask_all
	jmp	done
never_wrong:
	quit	1
mask:
	lea	trap(%rip), %rsi
1:	lea	old(%rip), %rdx
	mov	$8, %r10d
	call_system __NR_rt_sigprocmask
	ret
mask_all:
	lea	all(%rip), %rsi
	jmp	1b
trapped:
	ret
masked:
	nop
	push	%rdx
	mov	$0, %edi
	call	mask
	pop	%rdx
	testl	$TRAP_BIT, old(%rip)
	jz	never_wrong
	testl	$TRAP_BIT, UC_SIGMASK(%rdx)
	jnz	never_wrong
	ret
counted:
	testl	$TRAP_BIT, UC_SIGMASK(%rdx)
	jz	never_wrong
	ret
done:
	quit
	returns

	.data
	.balign	8
trap:	.quad	TRAP_BIT
all:	.quad	-1
old:	.quad	0
nothing: .quad	0
