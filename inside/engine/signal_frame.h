/* SPDX-License-Identifier: MIT */
/*
 * Signal frames as the kernel lays them out (arch/x86/include/asm/sigframe.h, struct rt_sigframe):
 * those that our handlers are entered with, and those that the program's handlers must find on its
 * stack.
 */
#ifndef INSIDE_ENGINE_SIGNAL_FRAME_H
#define INSIDE_ENGINE_SIGNAL_FRAME_H

#include "inside/engine/engine_thread.h"

#include <signal.h>
#include <stdint.h>
#include <sys/ucontext.h>

#define FRAME_STATE_MAX 16384u /* of vector registers, as they are saved */

/* The kernel's ucontext_t; libc's is longer. */
struct frame_context {
	uint64_t uc_flags, uc_link;
	stack_t uc_stack;
	mcontext_t uc_mcontext;
	uint64_t uc_sigmask;
};

_Static_assert(sizeof(struct frame_context) == 304, "as the kernel's");

struct frame {
	uint64_t returns; /* to the action's restorer */
	struct frame_context context;
	siginfo_t info;
};

static inline uint64_t *frame_gpr(struct frame_context *context, unsigned int reg)
{
	static const uint8_t at[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					REG_R12, REG_R13, REG_R14, REG_R15 };

	return (uint64_t *)&context->uc_mcontext.gregs[at[reg]];
}

static inline uint64_t *frame_rip(struct frame_context *context)
{
	return (uint64_t *)&context->uc_mcontext.gregs[REG_RIP];
}

static inline uint64_t *frame_flags(struct frame_context *context)
{
	return (uint64_t *)&context->uc_mcontext.gregs[REG_EFL];
}

static inline uint64_t *frame_mask(struct frame_context *context)
{
	return &context->uc_sigmask;
}

/* Where the frame stores xmm15. */
static inline uint64_t *frame_xmm15(struct frame_context *context)
{
	return (uint64_t *)&context->uc_mcontext.fpregs->_xmm[15];
}

/* The thread's pointer and blocks in the frame's xmm15. */
static inline void frame_pointer_get(struct frame_context *context, struct thread *thread)
{
	thread->pointer = frame_xmm15(context)[0];
	thread->blocks = frame_xmm15(context)[1];
}

static inline void frame_pointer_set(struct frame_context *context, const struct thread *thread)
{
	frame_xmm15(context)[0] = thread->pointer;
	frame_xmm15(context)[1] = thread->blocks;
}

/* Look where the processor saves what. Once. */
void frame_open(void);

/*
 * How many bytes the frame's vector registers take, as it says itself; 0: it has none, or says what
 * can't be.
 */
uint32_t frame_state_bytes(const void *state);

/* Set a handler's initial state: the processor's initial state, except for the protection keys. */
void frame_vectors_begin(void *state);

/* zmm15 in the saved state, as far as there is one. */
void frame_vector15_get(const void *state, uint8_t value[64]);
void frame_vector15_set(void *state, const uint8_t value[64]);

#endif
