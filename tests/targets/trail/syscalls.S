/* SPDX-License-Identifier: MIT */
/* System calls by both instructions: fine, failing, unknown ones. */
#include "program.inc"

	expect	first second third fourth after_yield fifth done
	oracle	int80
_start:
	call_system __NR_getpid
first:
	lea	first(%rip), %rdx
	cmp	%rdx, %rcx
	jne	never_wrong
	mov	%eax, %ebx
	cmpl	$1, (%rsp)		/* argc */
	jne	second
	mov	$20, %eax		/* getpid of 32 bits */
	int	$0x80
second:
	cmp	%eax, %ebx
	jne	never_wrong
	call_system 99999
third:
	cmp	$-38, %eax
	jne	never_wrong
	mov	$-1, %edi
	call_system __NR_close
fourth:
	call_system __NR_sched_yield
after_yield:
	mov	$5, %ebp
1:	call_system __NR_gettid
	dec	%ebp
	jnz	1b
	mov	$-1, %rax
	syscall
fifth:
	cmp	$-38, %eax
	jne	never_wrong
	jmp	done
never_wrong:
	quit	1
done:
	quit
