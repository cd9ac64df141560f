/* SPDX-License-Identifier: MIT */
/*
 * What a thread that is stepped runs, instruction by instruction, written down as blocks and
 * events.
 */
#include "record/trail/testing/step/step_own.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define PAGE 4096u

/* ---- where it is ---- */

/* The bytes of code at an address: as many as there are. */
static size_t code_read(pid_t tid, uint64_t at, uint8_t code[STEP_CODE_MAX])
{
	size_t here = PAGE - at % PAGE;
	struct iovec to = { code, STEP_CODE_MAX };
	struct iovec from[2] = {
		{ (void *)(uintptr_t)at, here < STEP_CODE_MAX ? here : STEP_CODE_MAX },
		{ (void *)(uintptr_t)(at + here), here < STEP_CODE_MAX ? STEP_CODE_MAX - here : 0 }
	};
	ssize_t got = process_vm_readv(tid, &to, 1, from, here < STEP_CODE_MAX ? 2 : 1, 0);

	return got > 0 ? (size_t)got : 0;
}

/* The same, of pages that may only be executed. */
static size_t code_peek(pid_t tid, uint64_t at, uint8_t code[STEP_CODE_MAX])
{
	size_t got = 0;

	while (got < STEP_CODE_MAX) {
		uint64_t from = (at + got) & ~UINT64_C(7);
		size_t skip = (size_t)(at + got - from), bytes = sizeof(long) - skip;
		long word;

		errno = 0;
		word = ptrace(PTRACE_PEEKTEXT, tid, from, 0);
		if (errno)
			break;
		if (bytes > STEP_CODE_MAX - got)
			bytes = STEP_CODE_MAX - got;
		memcpy(code + got, (char *)&word + skip, bytes);
		got += bytes;
	}
	return got;
}

int step_decode(const struct step *step, pid_t tid, uint64_t at, uint8_t code[STEP_CODE_MAX],
		struct block_insn *insn)
{
	if (!block_insn_of(insn, step->maker, at, code, code_read(tid, at, code)))
		return 0;
	return block_insn_of(insn, step->maker, at, code, code_peek(tid, at, code));
}

/* Load the instruction at `at`, which the thread runs next. */
void step_load(const struct step *step, struct step_thread *thread, uint64_t at)
{
	thread->at = at;
	if (step_decode(step, thread->tid, at, thread->code, &thread->insn))
		thread->insn = (struct block_insn){ 0 };
}

/* ---- what ran, written down ---- */

void step_failed(struct step *step, int err)
{
	if (err < 0 && !step->root->error)
		step->root->error = err;
}

void step_block_end(struct step *step, struct step_thread *thread)
{
	if (!thread->cut.entry.instructions || !thread->trail)
		return;
	step_failed(step, step->sink->calls->block(step->sink, thread->trail, &thread->cut.entry,
						   thread->cut.code, ticks_monotonic_ns()));
	thread->cut.entry = (struct trail_entry){ 0 };
}

void step_put(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
	      uint64_t first, uint64_t second)
{
	struct trail_between between = { .event = kind, .at = at, .values = { first, second } };

	step_block_end(step, thread);
	if (!thread->trail)
		return;
	step_failed(step, step->sink->calls->event(step->sink, thread->trail, &between,
						   ticks_monotonic_ns()));
}

/* A system call's end, which was open. */
void step_settle(struct step *step, struct step_thread *thread, uint64_t at, long long result)
{
	if (!thread->is_broken_off)
		return;
	thread->is_broken_off = 0;
	step_put(step, thread, TRAIL_SYSCALLED, at, thread->rax, (uint64_t)result);
}

void step_event(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
		uint64_t first, uint64_t second)
{
	step_settle(step, thread, thread->at, thread->broken_result);
	if (thread->is_native)
		step_put(step, thread, TRAIL_GAP, at, TRAIL_GAP_NATIVE, 0);
	thread->is_native = 0;
	step_put(step, thread, kind, at, first, second);
}

static void add_instruction(struct step *step, struct step_thread *thread)
{
	if (block_cut_add(&thread->cut, thread->at, thread->code, &thread->insn))
		step_block_end(step, thread);
}

/*
 * Whether that instruction leads there. If not, it has not run, but the thread was put elsewhere:
 * out of a critical section of rseq(2), which every stop breaks off.
 */
static int leads(const struct step_thread *thread, uint64_t rip)
{
	const struct block_insn *insn = &thread->insn;
	uint64_t next = thread->at + insn->bytes;

	switch (insn->kind) {
	case TRAIL_FALL:
		return rip == next || (insn->repeats && rip == thread->at);
	case TRAIL_JUMP:
	case TRAIL_CALL:
		return rip == insn->target;
	case TRAIL_BRANCH:
		return rip == next || rip == insn->target;
	default:
		return 1;
	}
}

void step_ran(struct step *step, struct step_thread *thread, uint64_t rip)
{
	step_settle(step, thread, thread->at, thread->broken_result);
	if (!thread->insn.bytes || thread->is_unseen || !leads(thread, rip)) {
		step_block_end(step, thread);
		thread->is_native = 1;
		return;
	}
	if (thread->insn.repeats && rip == thread->at)
		return; /* a round of a string instruction */
	thread->is_over = 1;
	add_instruction(step, thread);
}
