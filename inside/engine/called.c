/* SPDX-License-Identifier: MIT */
#include "inside/engine/action.h"
#include "inside/engine/called.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

static int is_clone(uint64_t number)
{
	return number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
	       number == SYS_vfork;
}

void called_tell(struct thread *thread, uint64_t next, long result)
{
	uint64_t number = thread->regs.gpr[0];

	if (channel.flags & ENGINE_BOOT_EVENTS)
		thread_words_event(thread, TRAIL_SYSCALLED, next, 0, number, (uint64_t)result);
	if (is_clone(number) && result > 0)
		thread_words_event(thread, TRAIL_FORK, next, 0, (uint64_t)result, 0);
}

void called_broken_off(struct thread *thread)
{
	pending_signals_wait_over(thread);
	if (!thread->is_executing)
		return;
	thread->is_executing = 0;
	process_executed();
	thread_words_take_back(thread);
	action_exec(1);
}
