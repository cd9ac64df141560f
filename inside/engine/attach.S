/* SPDX-License-Identifier: MIT */
/* The ways of threads that the tool has stopped: attach.h. */
#include "inside/engine/gpr.S"

	.text

	.macro begin name
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	.endm

	.macro end name
	.size \name, . - \name
	.endm

/*
 * The tool enters here, on the engine's stack. The argument is a struct engine_taken, or the
 * thread. If the function returns, the thread continues in translated code.
 */
	.macro way name, what
begin \name
	cld
	xor	%ebp, %ebp
	call	\what
	jmp	gate_leave
end \name
	.endm

/*
 * From where the engine has begun, on to be taken: its struct engine_taken, and its stack of the
 * engine's.
 */
begin attach_way_first
	mov	%rsi, %rsp
	/* falls through */
end attach_way_first

	way attach_way_take, attach_take
	way attach_way_commit, attach_commit
	way attach_way_undo, attach_undo
	way attach_way_leave, attach_leave

/*
 * A system call that the program was in when it was taken is over: on the stack at gate_call_done.
 */
begin attach_called
	mov	%gs:0, %rdi
	mov	%rax, %rsi
	mov	%gs:THREAD_STACK, %rsp
	xor	%ebp, %ebp
	call	attach_call_over
	jmp	gate_leave
end attach_called

/*
 * attach_native(): continue natively as thread->regs say, with the mask at thread->spill. All
 * signals are blocked.
 *
 * The flags are popped from where they are stored. A handler that runs before the end uses the
 * program's stack.
 */
begin attach_native
	mov	%gs:0, %rsp
	lea	THREAD_FLAGS(%rsp), %rsp
	popfq
	mov	GPR(4), %rsp
	mov	$14, %eax	/* rt_sigprocmask */
	mov	$2, %edi	/* SIG_SETMASK */
	mov	%gs:0, %rsi
	lea	THREAD_SPILL(%rsi), %rsi
	mov	$0, %edx
	mov	$8, %r10d
	syscall
	load_registers
	jmp	*%gs:THREAD_RIP
end attach_native

/*
 * attach_vector_save(value, width), attach_vector_load(value, width): zmm15, as far as the
 * processor has it: enum vector_width
 */
begin attach_vector_save
	cmp	$1, %esi
	ja	2f
	je	1f
	movdqu	%xmm15, (%rdi)
	ret
1:	vmovdqu	%ymm15, (%rdi)
	ret
2:	vmovdqu64 %zmm15, (%rdi)
	ret
end attach_vector_save

begin attach_vector_load
	cmp	$1, %esi
	ja	2f
	je	1f
	movdqu	(%rdi), %xmm15
	ret
1:	vmovdqu	(%rdi), %ymm15
	ret
2:	vmovdqu64 (%rdi), %zmm15
	ret
end attach_vector_load

	.section .note.GNU-stack, "", @progbits
