/* SPDX-License-Identifier: MIT */
/*
 * Switches between translated code and the engine. The program's registers are saved and restored
 * whole. Its stack is not touched: the red zone is below its rsp. Its vector registers keep their
 * values, for no code of the engine uses any.
 */
#include "inside/engine/gpr.S"

	.text

/* All flags off but NT and ID, which rt_sigreturn does not restore. */
	.macro flags_quiet
	pushfq
	andl	$0x204002, (%rsp)
	popfq
	.endm

/* esi: why. Enters with the program's registers, except those named at each gate. */
	.macro gate name, why
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	mov	%rsp, GPR(4)
	mov	%gs:THREAD_STACK, %rsp
	mov	%rsi, GPR(6)
	mov	$\why, %esi
	jmp	gate_enter
	.size \name, . - \name
	.endm

	gate gate_exit, 0
	gate gate_miss, 1	/* rcx: the low half of where to; the program's is in `scratch` */
	gate gate_syscall, 2
	gate gate_refused, 3
	gate gate_changed, 4	/* rcx: where to; the program's is in `scratch` */

	.type gate_enter, @function
gate_enter:
	mov	%rax, GPR(0)
	mov	%rcx, GPR(1)
	mov	%rdx, GPR(2)
	mov	%rbx, GPR(3)
	mov	%rbp, GPR(5)
	mov	%rdi, GPR(7)
	mov	%r8, GPR(8)
	mov	%r9, GPR(9)
	mov	%r10, GPR(10)
	mov	%r11, GPR(11)
	mov	%r12, GPR(12)
	mov	%r13, GPR(13)
	mov	%r14, GPR(14)
	mov	%r15, GPR(15)
	pushfq
	popq	%gs:THREAD_FLAGS
	flags_quiet
	movups	%xmm15, %gs:THREAD_POINTER
	mov	%gs:0, %rdi
	xor	%ebp, %ebp
	call	engine_enter
	/* falls through */

	/*
	 * Into translated code. Up to gate_leave_end the program is where thread->regs say: a
	 * signal is delivered there at once. One that was deferred before the look is delivered
	 * now.
	 */
	.globl gate_leave
	.hidden gate_leave
gate_leave:
	cmpl	$0, %gs:THREAD_DEFERRED
	jne	gate_signal
	movups	%gs:THREAD_POINTER, %xmm15
	pushq	%gs:THREAD_FLAGS
	popfq
	.globl gate_leave_regs
	.hidden gate_leave_regs
gate_leave_regs:
	load_registers
	mov	GPR(4), %rsp
	jmp	*%gs:THREAD_NEXT
	.globl gate_leave_end
	.hidden gate_leave_end
gate_leave_end:
	.size gate_enter, . - gate_enter

/*
 * The engine's entry: rdi the channel, rsi where we are mapped, rdx the boot. Nothing of the
 * program's is in registers: the tool has put all that into the boot.
 */
	.globl engine_entry
	.type engine_entry, @function
engine_entry:
	lea	start_stack_end(%rip), %rsp
	xor	%ebp, %ebp
	cld
	mov	%rdx, %rcx
	lea	_DYNAMIC(%rip), %rdx
	call	engine_start	/* eax: not 0: back to native code at once */
	jmp	gate_leave
	.size engine_entry, . - engine_entry

/* The kernel enters us here. It has cleared DF; under AC compiled code would fault. */
	.globl gate_handler
	.hidden gate_handler
	.type gate_handler, @function
gate_handler:
	flags_quiet
	jmp	signal_handle
	.size gate_handler, . - gate_handler

/* An engine signal handler returns to here. */
	.globl gate_sigreturn
	.hidden gate_sigreturn
	.type gate_sigreturn, @function
gate_sigreturn:
	mov	$15, %eax	/* rt_sigreturn */
	syscall
	.size gate_sigreturn, . - gate_sigreturn

/*
 * gate_call(number, six arguments, the sixth on the stack): the program's system calls.
 *
 * A thread that a handler interrupts from gate_call_check on, before the kernel takes the call, is
 * at the call. At gate_call_done the result is there. -513, which no call returns: signals are
 * deferred, and come first.
 */
	.globl gate_call
	.hidden gate_call
	.type gate_call, @function
gate_call:
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	mov	%r9, %r8
	mov	8(%rsp), %r9
	.globl gate_call_check
	.hidden gate_call_check
gate_call_check:
	cmpl	$0, %gs:THREAD_DEFERRED
	jne	1f
	.globl gate_call_at
	.hidden gate_call_at
gate_call_at:
	syscall
	.globl gate_call_done
	.hidden gate_call_done
gate_call_done:
	ret
1:	mov	$-513, %rax
	ret
	.size gate_call, . - gate_call

/*
 * gate_mask(mask): set the signal mask, unless signals are deferred. A handler that comes here from
 * gate_mask_check on makes it skip.
 */
	.globl gate_mask
	.hidden gate_mask
	.type gate_mask, @function
gate_mask:
	mov	%rdi, %rsi
	mov	$2, %edi	/* SIG_SETMASK */
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$14, %eax	/* rt_sigprocmask */
	.globl gate_mask_check
	.hidden gate_mask_check
gate_mask_check:
	cmpl	$0, %gs:THREAD_DEFERRED
	jne	gate_mask_done
	.globl gate_mask_at
	.hidden gate_mask_at
gate_mask_at:
	syscall
	.globl gate_mask_done
	.hidden gate_mask_done
gate_mask_done:
	ret
	.size gate_mask, . - gate_mask

/* The handler takes thread->regs for where the program is, and does not come back. */
	.globl gate_signal
	.hidden gate_signal
	.type gate_signal, @function
gate_signal:
	ud2
	.size gate_signal, . - gate_signal

/* leave(): the handler has put the program into thread->regs, and us on our own stack. */
	.globl gate_quit
	.hidden gate_quit
	.type gate_quit, @function
gate_quit:
	mov	%gs:0, %rdi
	mov	%gs:THREAD_RIP, %rsi
	xor	%ebp, %ebp
	call	leave
	.size gate_quit, . - gate_quit

/* dispatch_to(), in the same way */
	.globl gate_resume
	.hidden gate_resume
	.type gate_resume, @function
gate_resume:
	mov	%gs:0, %rdi
	mov	%gs:THREAD_RIP, %rsi
	xor	%edx, %edx
	xor	%ebp, %ebp
	call	dispatch_to
	jmp	gate_leave
	.size gate_resume, . - gate_resume

/*
 * gate_chain(context, number, info, handler): another handler for the same signal, its frame the
 * one that the kernel made for ours
 */
	.globl gate_chain
	.hidden gate_chain
	.type gate_chain, @function
gate_chain:
	lea	-8(%rdi), %rsp
	mov	%rdx, %r8
	mov	%rdi, %rdx
	mov	%esi, %edi
	mov	%r8, %rsi
	xor	%eax, %eax
	jmp	*%rcx
	.size gate_chain, . - gate_chain

/*
 * gate_copy(to, from, bytes), gate_read(): 0, or 1 if memory can't be read or written: then the
 * handler resumes at NAME_failed
 */
	.macro copier name
	.globl \name, \name\()_done, \name\()_failed
	.hidden \name, \name\()_done, \name\()_failed
	.type \name, @function
\name:
	mov	%rdx, %rcx
	rep movsb
\name\()_done:
	xor	%eax, %eax
	ret
\name\()_failed:
	mov	$1, %eax
	ret
	.size \name, . - \name
	.endm

	copier gate_copy
	copier gate_read

/* gate_return(frame): rt_sigreturn(2) with that frame */
	.globl gate_return
	.hidden gate_return
	.type gate_return, @function
gate_return:
	mov	%rdi, %rsp
	mov	$15, %eax
	syscall
	.size gate_return, . - gate_return

/* gate_clone(number, args, child, begin) */
	.globl gate_clone
	.hidden gate_clone
	.type gate_clone, @function
gate_clone:
	push	%rbx
	push	%r12
	push	%r13
	mov	%rdx, %rbx
	mov	%rcx, %r12
	mov	%rdi, %rax
	mov	%rsi, %r13
	mov	0(%r13), %rdi
	mov	8(%r13), %rsi
	mov	16(%r13), %rdx
	mov	24(%r13), %r10
	mov	32(%r13), %r8
	mov	40(%r13), %r9
	syscall
	test	%rax, %rax
	jz	1f
	pop	%r13
	pop	%r12
	pop	%rbx
	ret
1:	mov	THREAD_STACK(%rbx), %rsp
	xor	%ebp, %ebp
	mov	%rbx, %rdi
	call	*%r12
	jmp	gate_leave
	.size gate_clone, . - gate_clone

/* gate_end(thread, bytes, status): no stack is left behind the first call */
	.globl gate_end
	.hidden gate_end
	.type gate_end, @function
gate_end:
	mov	%rdx, %r12
	mov	$11, %eax	/* munmap */
	syscall
	mov	%r12, %rdi
1:	mov	$60, %eax	/* exit */
	syscall
	jmp	1b
	.size gate_end, . - gate_end

	.bss
	.balign 16
start_stack:
	.skip	65536
	.globl start_stack_end
	.hidden start_stack_end
start_stack_end:

	.section .note.GNU-stack, "", @progbits
