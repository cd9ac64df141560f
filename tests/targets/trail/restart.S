/* SPDX-License-Identifier: MIT */
/*
 * System calls that signals of a timer break off: made again (SA_RESTART), not made again, for the
 * rest of their time where no handler is, and broken off more than once.
 */
#include "program.inc"

	oracle	unwalked
	expect	reading handler restorer was_read sleeping (handler restorer)? slept
	expect	pausing (handler restorer)+ paused ignoring rested done
	action	on_again, handler, SA_RESTART
	action	on_alarm, handler
	action	ignore, 1
_start:
	lea	pipe(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_pipe2
	catch	SIGALRM, on_again
	call	start
reading:
	mov	pipe(%rip), %edi
	lea	byte(%rip), %rsi
	mov	$1, %edx
	call_system __NR_read
was_read:
	cmp	$1, %eax
	jne	never_wrong
	catch	SIGALRM, on_alarm
	call	start
sleeping:
	lea	second(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_nanosleep
slept:
	cmp	$-4, %rax
	jne	never_wrong
	call	start
pausing:
	call_system __NR_pause
paused:
	cmp	$-4, %rax
	jne	never_wrong
	catch	SIGALRM, ignore
	call	start
ignoring:
	lea	third(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_nanosleep
rested:
	test	%rax, %rax
	jnz	never_wrong
	jmp	done
never_wrong:
	quit	1
handler:				/* what it waits for */
	mov	pipe + 4(%rip), %edi
	lea	byte(%rip), %rsi
	mov	$1, %edx
	call_system __NR_write
	ret
start:
	xor	%edi, %edi		/* ITIMER_REAL */
	lea	time(%rip), %rsi
	xor	%edx, %edx
	call_system __NR_setitimer
	ret
done:
	quit
	returns

	.data
	.balign	8
pipe:	.quad	0
byte:	.quad	0
time:	.quad	0, 0, 0, 250000
second:	.quad	20, 0
third:	.quad	0, 500000000
