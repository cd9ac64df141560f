/* SPDX-License-Identifier: MIT */
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/glue.h"
#include "inside/engine/map.h"
#include "inside/engine/thread_words.h"

struct glue {
	struct thread *thread;
	struct frame_context *context;
	const uint8_t *at;
};

static int is_at(const struct glue *glue, const char *bytes, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (glue->at[i] != (uint8_t)bytes[i])
			return 0;
	return 1;
}

static int done(const struct glue *glue, unsigned int bytes)
{
	*frame_rip(glue->context) = (uint64_t)(glue->at + bytes);
	return 1;
}

static uint32_t read_32(const uint8_t *at)
{
	uint32_t value;

	memory_copy(&value, at, sizeof(value));
	return value;
}

/* What the four bytes that end an instruction count to. */
static uint64_t relative(const uint8_t *at)
{
	return (uint64_t)at + 4 + (uint64_t)(int64_t)(int32_t)read_32(at);
}

static void vector15_put(const struct glue *glue, const uint8_t value[64])
{
	frame_vector15_set(glue->context->uc_mcontext.fpregs, value);
}

/* A register, or a number, and %gs:offset. */
static int move(const struct glue *glue)
{
	const uint8_t *at = glue->at;
	unsigned int reg = (unsigned int)(at[3] >> 3 & 7) | (unsigned int)(at[1] >> 2 & 1) << 3;
	uint64_t *memory = (uint64_t *)((uint64_t)glue->thread + read_32(at + 5));

	if ((at[1] & 0xfb) != 0x48 || (at[3] & 0xc7) != 0x04 || at[4] != 0x25)
		return 0;
	if (at[2] == 0x89)
		*memory = *frame_gpr(glue->context, reg);
	else if (at[2] == 0x8b)
		*frame_gpr(glue->context, reg) = *memory;
	else if (at[2] == 0xc7)
		*memory = (uint64_t)(int64_t)(int32_t)read_32(at + 9);
	else
		return 0;
	return done(glue, at[2] == 0xc7 ? 13 : 9);
}

/*
 * xmm15 and the thread's pointer and blocks, or all of the register and what the program has in it.
 */
static int swap(const struct glue *glue)
{
	static const struct {
		const char *bytes;
		uint8_t count, is_pointer, is_load;
	} forms[] = {
		{ "\x65\x44\x0f\x10\x3c\x25", 6, 1, 1 },
		{ "\x65\x44\x0f\x11\x3c\x25", 6, 1, 0 },
		{ "\x65\xc5\x78\x10\x3c\x25", 6, 1, 1 },
		{ "\x65\xc5\x78\x11\x3c\x25", 6, 1, 0 },
		{ "\x65\xf3\x44\x0f\x6f\x3c\x25", 7, 0, 1 },
		{ "\x65\xf3\x44\x0f\x7f\x3c\x25", 7, 0, 0 },
		{ "\x65\xc5\x7e\x6f\x3c\x25", 6, 0, 1 },
		{ "\x65\xc5\x7e\x7f\x3c\x25", 6, 0, 0 },
		{ "\x65\x62\x71\xfe\x48\x6f\x3c\x25", 8, 0, 1 },
		{ "\x65\x62\x71\xfe\x48\x7f\x3c\x25", 8, 0, 0 },
	};
	static const uint8_t none[64];
	struct thread *thread = glue->thread;

	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!is_at(glue, forms[i].bytes, forms[i].count))
			continue;
		if (!forms[i].is_load && forms[i].is_pointer) {
			frame_pointer_get(glue->context, thread);
		} else if (!forms[i].is_load) {
			frame_vector15_get(glue->context->uc_mcontext.fpregs, thread->vector15);
		} else if (forms[i].is_pointer) {
			vector15_put(glue, none);
			frame_pointer_set(glue->context, thread);
		} else {
			vector15_put(glue, thread->vector15);
		}
		return done(glue, forms[i].count + 4u);
	}
	return 0;
}

/* movl $id, (reg) */
static int put(const struct glue *glue)
{
	unsigned int reg = glue->at[0] == 0x41 ? 8 : 0;
	const uint8_t *at = glue->at + (reg ? 1 : 0);
	struct thread *thread = glue->thread;
	uint64_t *where;

	if (at[0] != 0xc7 || at[1] > 7)
		return 0;
	where = frame_gpr(glue->context, reg | at[1]);
	if (*where != *frame_xmm15(glue->context))
		return 0;
	if (thread_words_is_guard(thread, *where)) {
		frame_pointer_get(glue->context, thread);
		thread_words_turn(thread);
		frame_pointer_set(glue->context, thread);
		*where = thread->pointer;
	}
	*(uint32_t *)*where = read_32(at + 2);
	return done(glue, reg ? 7 : 6);
}

/* The pointer to a register, and on by a word and the blocks that it means. */
static int pointer(const struct glue *glue)
{
	const uint8_t *at = glue->at;

	if (is_at(glue, "\xc5\x01\xd4\x3d", 4) || is_at(glue, "\x66\x44\x0f\xd4\x3d", 5)) {
		unsigned int opcode_bytes = at[0] == 0xc5 ? 4 : 5;
		const uint64_t *step = (const uint64_t *)relative(at + opcode_bytes);

		frame_xmm15(glue->context)[0] += step[0];
		frame_xmm15(glue->context)[1] += step[1];
		return done(glue, opcode_bytes + 4);
	}
	if (at[0] == 0xc4 && (at[1] == 0x61 || at[1] == 0x41) && at[2] == 0xf9 && at[3] == 0x7e &&
	    at[4] >= 0xf8) {
		*frame_gpr(glue->context,
			   (at[4] & 7u) | (at[1] == 0x41 ? 8 : 0)) = *frame_xmm15(glue->context);
		return done(glue, 5);
	}
	if (at[0] == 0x66 && (at[1] & 0xfe) == 0x4c && at[2] == 0x0f && at[3] == 0x7e &&
	    at[4] >= 0xf8) {
		*frame_gpr(glue->context,
			   (at[4] & 7u) | (at[1] & 1u) << 3) = *frame_xmm15(glue->context);
		return done(glue, 5);
	}
	return 0;
}

static int jump(const struct glue *glue)
{
	uint64_t *rip = frame_rip(glue->context), *rcx = frame_gpr(glue->context, 1);
	const uint8_t *at = glue->at;
	uint64_t entry;
	uint32_t value;

	if (at[0] == 0x90)
		return done(glue, 1);
	if (at[0] == 0xe9) {
		*rip = relative(at + 1);
		return 1;
	}
	if (is_at(glue, "\xff\x25", 2)) {
		*rip = *(const uint64_t *)relative(at + 2);
		return 1;
	}
	if (map_is_jump(at, *rcx, &entry)) {
		*rip = map_landing(entry);
		return 1;
	}
	if (is_at(glue, "\x48\xb8", 2)) {
		memory_copy(frame_gpr(glue->context, 0), at + 2, 8);
		return done(glue, 10);
	}
	if (is_at(glue, "\x48\xb9", 2)) {
		memory_copy(rcx, at + 2, 8);
		return done(glue, 10);
	}
	if (is_at(glue, "\x48\x8d\x0c\xc8", 4)) {
		*rcx = *frame_gpr(glue->context, 0) + *rcx * 8;
		return done(glue, 4);
	}
	if (is_at(glue, "\x89\xc9", 2)) {
		*rcx = (uint32_t)*rcx;
		return done(glue, 2);
	}
	if (is_at(glue, "\x8b\x0c\x24", 3)) {
		if (gate_copy(&value, (const void *)*frame_gpr(glue->context, 4), sizeof(value)))
			return 0;
		*rcx = value;
		return done(glue, 3);
	}
	if (is_at(glue, "\x48\x8d\xa4\x24", 4)) {
		*frame_gpr(glue->context, 4) += (uint64_t)(int64_t)(int32_t)read_32(at + 4);
		return done(glue, 8);
	}
	return 0;
}

int glue_step(struct thread *thread, struct frame_context *context)
{
	struct glue glue = { thread, context, (const uint8_t *)*frame_rip(context) };

	if (glue.at[0] == 0x65)
		return move(&glue) || swap(&glue);
	return jump(&glue) || pointer(&glue) || put(&glue);
}
