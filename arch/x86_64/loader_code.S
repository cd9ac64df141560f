/* SPDX-License-Identifier: MIT */
/*
 * Brings the agent in; arch/loader.h. %rbx is struct loader_data throughout. Copied into the
 * process, so it calls by pointers and refers to nothing outside itself.
 */
#include "arch/loader.h"

#define SYS_futex 202
#define SYS_gettid 186
#define SYS_exit 60
#define SYS_rt_sigprocmask 14
#define SIG_SETMASK 2
#define RTLD_NOW 2

	.section .rodata.loader, "a"
	.globl loader_code, loader_code_end, loader_clone, loader_restore_jump
	.hidden loader_code, loader_code_end, loader_clone, loader_restore_jump
	.balign 16
loader_code:

loader_clone:
	syscall
	test	%rax, %rax
	jz	raw_thread
	.byte	0xe9			/* jmp: to `restore`, in the borrowed thread's code */
loader_restore_jump:
	.long	0

raw_thread:
	xor	%ebp, %ebp
	movl	$LOADER_RAW, LOADER_STATUS(%rbx)
	/*
	 * Of all signals, those of glibc's own must reach the thread that is made here: setuid(3).
	 */
	mov	$SYS_rt_sigprocmask, %eax
	mov	$SIG_SETMASK, %edi
	lea	LOADER_MASK(%rbx), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	mov	LOADER_TLS_INIT(%rbx), %rax
	test	%rax, %rax
	jz	1f
	mov	LOADER_TCB(%rbx), %rdi
	mov	$1, %esi
	call	*%rax
1:	lea	LOADER_ATTR(%rbx), %rdi
	call	*LOADER_ATTR_INIT(%rbx)
	lea	LOADER_ATTR(%rbx), %rdi
	mov	$1, %esi
	call	*LOADER_ATTR_DETACH(%rbx)
	lea	LOADER_ATTR(%rbx), %rdi
	mov	LOADER_STACK_BYTES(%rbx), %rsi
	call	*LOADER_ATTR_STACK(%rbx)
	lea	LOADER_THREAD(%rbx), %rdi
	lea	LOADER_ATTR(%rbx), %rsi
	lea	proper_thread(%rip), %rdx
	mov	%rbx, %rcx
	call	*LOADER_CREATE(%rbx)
	mov	$LOADER_CREATED, %edx
	test	%eax, %eax
	jz	1f
	mov	%eax, LOADER_ERROR(%rbx)
	mov	$LOADER_CREATE_FAILED, %edx
	/*
	 * RAW -> CREATED or CREATE_FAILED; the proper thread waits for our end before it continues
	 */
1:	mov	%edx, LOADER_STATUS(%rbx)
	mov	$SYS_exit, %eax
	xor	%edi, %edi
	syscall
	ud2

proper_thread:
	push	%rbx
	push	%rbp
	push	%r12
	mov	%rdi, %rbx
	mov	$SYS_gettid, %eax
	syscall
	mov	%eax, LOADER_TID(%rbx)
	/*
	 * The kernel clears the raw thread's number and wakes us when it is gone
	 * (CLONE_CHILD_CLEARTID).
	 */
	mov	LOADER_TID_AT(%rbx), %rdi
1:	mov	(%rdi), %edx
	test	%edx, %edx
	jz	2f
	xor	%esi, %esi		/* FUTEX_WAIT, not private: as the kernel wakes */
	xor	%r10d, %r10d
	mov	$SYS_futex, %eax
	syscall
	jmp	1b

	/*
	 * Its memory allocator's per-thread state (a cache and a hold on an arena) would be lost
	 * with it. What libc keeps in thread-local words that are still zero here is taken over, so
	 * that this thread's end gives it back.
	 */
2:	call	*LOADER_ERRNO_AT(%rbx)
	sub	LOADER_ERRNO_OFFSET(%rbx), %rax		/* libc's TLS block, here */
	mov	%rax, %rdx
	sub	%fs:0x10, %rdx
	add	LOADER_TCB(%rbx), %rdx			/* and in the raw thread */
	mov	LOADER_TLS_WORDS(%rbx), %rcx
3:	sub	$1, %rcx
	jc	4f
	cmpq	$0, (%rax, %rcx, 8)
	jne	3b
	mov	(%rdx, %rcx, 8), %rsi
	mov	%rsi, (%rax, %rcx, 8)
	jmp	3b

4:	lea	LOADER_AGENT_PATH(%rbx), %rdi
	mov	$RTLD_NOW, %esi
	call	*LOADER_DLOPEN(%rbx)
	test	%rax, %rax
	jz	failed
	movl	$LOADER_OPENED, LOADER_STATUS(%rbx)
	mov	%rax, %rdi
	lea	LOADER_SYMBOL(%rbx), %rsi
	call	*LOADER_DLSYM(%rbx)
	test	%rax, %rax
	jz	failed
	cmpl	$0, LOADER_ABANDONED(%rbx)
	jne	leave
	lea	LOADER_SOCKET_DIR(%rbx), %rdi
	call	*%rax
	mov	%eax, LOADER_ERROR(%rbx)
	movl	$LOADER_STARTED, LOADER_STATUS(%rbx)	/* OPENED -> STARTED */
	jmp	leave

failed:
	call	*LOADER_DLERROR(%rbx)
	test	%rax, %rax
	jz	2f
	xor	%ecx, %ecx
1:	mov	(%rax, %rcx), %dl
	mov	%dl, LOADER_TEXT(%rbx, %rcx)
	test	%dl, %dl
	jz	2f
	inc	%ecx
	cmp	$(LOADER_TEXT_BYTES - 1), %ecx
	jb	1b
2:	movl	$LOADER_FAILED, LOADER_STATUS(%rbx)	/* CREATED or OPENED -> FAILED */
leave:	xor	%eax, %eax
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
loader_code_end:

	.section .rodata.loader_tcb, "a"
	.globl loader_tcb
	.hidden loader_tcb
	.balign 2
loader_tcb:			/* glibc's sysdeps/x86_64/nptl/tls.h, tcbhead_t */
	.short	0x00, 0x10	/* tcb, self */
	.short	0x08		/* dtv */
	.short	0x18		/* multiple_threads */
	.short	0x28, 8		/* stack_guard */
	.short	0x30, 8		/* pointer_guard */
	.short	0x48, 4		/* feature_1 */
	.short	0x2c0, 0x400	/* tid: 0x2d0 in glibc 2.34 to 2.41 */
	.section .note.GNU-stack, "", @progbits
