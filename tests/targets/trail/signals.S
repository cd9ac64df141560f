/* SPDX-License-Identifier: MIT */
/*
 * Signals to itself: handled at once, nested, blocked and later, two at a time, on a stack of their
 * own, once only, ignored, and one whose handler changes where it continues.
 */
#include "program.inc"

	expect	plain counting restorer nested nesting inside counting restorer after_inside restorer
	expect	blocked pending unblocking second restorer counting restorer unblocked
	expect	on_stack standing restorer once counting restorer ignored
	expect	moving mover restorer moved done
	action	on_count, counting
	action	on_nest, nesting
	action	on_second, second
	action	on_stand, standing, SA_ONSTACK
	action	on_once, counting, SA_RESETHAND
	action	on_move, mover
	action	ignore, 1
_start:
	catch	SIGUSR1, on_count
	catch	SIGUSR2, on_nest
plain:
	raise	SIGUSR1
nested:
	raise	SIGUSR2
blocked:
	catch	SIGUSR2, on_second
	mov	$0, %edi		/* SIG_BLOCK */
	call	mask
	raise	SIGUSR1
	raise	SIGUSR2
pending:
	nop
unblocking:
	mov	$1, %edi		/* SIG_UNBLOCK */
	call	mask
unblocked:
	lea	stack(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_sigaltstack
	catch	SIGUSR2, on_stand
on_stack:
	raise	SIGUSR2
	catch	SIGUSR1, on_once
once:
	raise	SIGUSR1
	catch	SIGUSR1, ignore
ignored:
	raise	SIGUSR1
	catch	SIGUSR1, on_move
moving:
	raise	SIGUSR1
never_a:
	nop
moved:
	cmpl	$4, count(%rip)
	jne	never_wrong
	jmp	done
never_wrong:
	quit	1
mask:
	lea	both(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	call_system __NR_rt_sigprocmask
	ret
counting:
	incl	count(%rip)
	ret
nesting:
	nop
inside:
	raise	SIGUSR1
after_inside:
	ret
second:
	ret
standing:
	lea	stack_end(%rip), %rax
	sub	%rsp, %rax
	cmp	$8192, %rax
	ja	never_wrong
	ret
mover:
	lea	moved(%rip), %rax
	mov	%rax, UC_RIP(%rdx)
	ret
done:
	quit
	returns

	.data
	.balign	8
both:	.quad	1 << (SIGUSR1 - 1) | 1 << (SIGUSR2 - 1)
stack:	.quad	handler_stack, 0, 8192
count:	.quad	0
	.bss
	.balign	16
handler_stack:
	.skip	8192
stack_end:
	.skip	64
