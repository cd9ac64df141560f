/* SPDX-License-Identifier: MIT */
#include "inside/engine/cache.h"
#include "inside/engine/state.h"
#include "inside/engine/thread_words.h"

/* The instructions of a block from a piece on. */
static uint32_t left_from(const struct trace *trace, uint32_t piece, uint32_t block)
{
	uint32_t left = 0;

	for (uint32_t i = piece; i < trace->piece_count && trace->pieces[i].block == block; i++)
		left += trace->pieces[i].program_bytes != 0;
	return left;
}

static void found(struct state *state, uint32_t index, int is_first_byte)
{
	const struct piece *piece = &state->trace->pieces[index];

	state->block = piece->block;
	state->flags = piece->flags;
	state->left = left_from(state->trace, index, piece->block);
	if (!piece->program_bytes && !(piece->flags & PIECE_CHECKS))
		state->kind = STATE_BETWEEN;
	else if (piece->flags & (PIECE_SPILLED | PIECE_RECORDED))
		state->kind = STATE_IN;
	else
		state->kind = is_first_byte ? STATE_AT : STATE_AMID;
}

/*
 * A jump that left no code: the thread is at it only where engine instructions follow. Else it is
 * at the instruction that has the code, which may have faulted.
 */
static int is_at_jump(const struct trace *trace, uint32_t index)
{
	if (trace->pieces[index].cache_bytes || !trace->pieces[index].program_bytes)
		return 0;
	while (++index < trace->piece_count)
		if (trace->pieces[index].cache_bytes)
			return !trace->pieces[index].program_bytes;
	return 1;
}

void state_look(struct state *state, uint64_t at)
{
	uint32_t block = UINT32_MAX;
	uint64_t cache;

	*state = (struct state){ .kind = STATE_ENGINE, .trace = trace_of(at) };
	if (!state->trace)
		return;
	state->kind = STATE_BETWEEN;
	cache = (uint64_t)state->trace->head;
	if (at < cache || at >= (uint64_t)state->trace->end)
		return;
	for (uint32_t i = 0; i < state->trace->piece_count; i++) {
		const struct piece *piece = &state->trace->pieces[i];

		if (piece->block != block && piece->block < state->trace->blocks) {
			block = piece->block;
			state->pc = state->trace->starts[block];
			state->ran = 0;
		}
		if (at < cache + piece->cache_bytes ||
		    (at == cache && is_at_jump(state->trace, i))) {
			found(state, i, at == cache);
			return;
		}
		cache += piece->cache_bytes;
		state->pc += piece->program_bytes;
		state->ran += piece->program_bytes != 0;
	}
}

void state_left(struct state *state, const struct thread *thread, const struct exit *exit)
{
	struct trace *trace = trace_left(thread, exit);
	uint32_t block = exit->blocks - 1u, bytes = 0;

	*state = (struct state){ .kind = STATE_IN, .trace = trace, .block = block, .left = 1 };
	state->pc = trace->starts[block];
	for (uint32_t i = 0; i < trace->piece_count; i++) {
		if (trace->pieces[i].block != block || !trace->pieces[i].program_bytes)
			continue;
		state->pc += bytes;
		state->ran += bytes != 0;
		bytes = trace->pieces[i].program_bytes;
	}
}

void state_unrecord(struct thread *thread)
{
	thread->blocks -= trace_path_blocks(thread, ring_last(thread));
	thread->pointer -= 4;
}

int state_x87(struct _libc_fpstate *vectors)
{
	struct state state;

	if (!cache_has(vectors->rip))
		return 0;
	state_look(&state, vectors->rip);
	vectors->rip = state.kind == STATE_ENGINE ? 0 : state.pc;
	return 1;
}

void state_x87_now(void)
{
	struct _libc_fpstate now __attribute__((aligned(16)));

	now.rip = 0; /* AMD's fxsave may leave it out */
	__asm__ volatile("fxsave64 %0" : "+m"(now));
	if (state_x87(&now))
		__asm__ volatile("fxrstor64 %0" : : "m"(now));
}

void state_to_program(const struct state *state, struct thread *thread,
		      struct frame_context *context)
{
	void *vectors = context->uc_mcontext.fpregs;

	*frame_rip(context) = state->pc;
	if (state->flags & PIECE_SPILLED)
		*frame_gpr(context, 1) = thread->scratch;
	if (state->flags & PIECE_SWAPPED) {
		frame_vector15_get(vectors, thread->vector15);
	} else {
		uint64_t pointer = frame_xmm15(context)[0];

		/* Not where the kernel has refused to load it: signal_return_call(). */
		if (pointer - (uint64_t)thread->words <=
		    (uint64_t)thread->words_end - (uint64_t)thread->words)
			frame_pointer_get(context, thread);
		frame_vector15_set(vectors, thread->vector15);
	}
	if (state->flags & PIECE_RECORDED)
		state_unrecord(thread);
}
