/* SPDX-License-Identifier: MIT */
/* Where translated code comes to when it does not know on: gate.S calls engine_enter(). */
#include "engine/channel.h"
#include "engine/dispatch.h"
#include "engine/engine_syscall.h"
#include "engine/gate.h"
#include "engine/leave.h"
#include "engine/thread_words.h"

#include <errno.h>

/* Where an indirect branch leads, by what its exit says of it. */
static uint64_t indirect_target(const struct thread *thread, const struct exit *exit)
{
	switch (exit->kind) {
	case EXIT_RETURN: /* still there, below what it dropped */
		return *(const uint64_t *)(thread->regs.gpr[4] - exit->pops - 8);
	case EXIT_REGISTER:
		return thread->regs.gpr[exit->reg];
	default:
		return thread->target;
	}
}

void engine_enter(struct thread *thread, enum gate why)
{
	struct exit *exit = exit_of(ring_last(thread));

	switch (why) {
	case GATE_EXIT:
		dispatch_to(thread, exit->target, exit);
		return;
	case GATE_MISS:
		thread->regs.gpr[1] = thread->scratch;
		dispatch_to(thread, indirect_target(thread, exit), NULL);
		return;
	case GATE_SYSCALL:
		trace_out(thread);
		call_make(thread, exit->target);
		dispatch_to(thread, thread->regs.rip, NULL);
		return;
	case GATE_REFUSED:
		channel.head->error = -ENOEXEC;
		channel_native(ENGINE_NATIVE_CODE);
		leave(thread, exit->target);
	}
}
