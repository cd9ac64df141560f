/* SPDX-License-Identifier: MIT */
#include "agent/trail/threads.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/gate.h"
#include "agent/trail/leave.h"
#include "agent/trail/memory.h"
#include "agent/trail/ring.h"
#include "agent/trail/signal.h"
#include "agent/trail/sys.h"

#include <asm/prctl.h>
#include <errno.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/mman.h>

#define HEAD_BYTES ((sizeof(struct thread) + 4095) & ~(size_t)4095)

struct thread *thread_make(void)
{
	size_t bytes = HEAD_BYTES + THREAD_STACK_BYTES + THREAD_SIGNAL_BYTES;
	struct thread *thread = memory_map(0, bytes, PROT_READ | PROT_WRITE);

	if (!thread)
		return NULL;
	thread->self = thread;
	thread->stack = (uint64_t)thread + HEAD_BYTES + THREAD_STACK_BYTES;
	thread->signal_stack = thread->stack;
	thread->mapping_bytes = bytes;
	return thread;
}

void thread_free(struct thread *thread)
{
	memory_unmap(thread, thread->mapping_bytes);
}

int thread_enter(struct thread *thread)
{
	long err = sys_call3(SYS_arch_prctl, ARCH_SET_GS, (long)thread, 0);

	if (!err)
		err = signal_thread(thread);
	thread->tid = (uint32_t)sys_call3(SYS_gettid, 0, 0, 0);
	return (int)err;
}

/* A thread of this process: on in translated code. On its own stack of the engine's. */
static void child_thread(struct thread *thread)
{
	if (thread_enter(thread) || ring_open(thread))
		leave(thread, thread->regs.rip); /* unrecorded; counted by the channel */
	signal_let_all(thread);
	dispatch_to(thread, thread->regs.rip, NULL);
}

/* A process of its own: its trail is not ours to write. */
static void child_process(struct thread *thread)
{
	thread->is_process = 1;
	thread_enter(thread);
	thread->slot = NULL;
	leave(thread, thread->regs.rip);
}

/* The child as it will be: the caller's copy, behind the call. */
static struct thread *child_make(const struct thread *thread, uint64_t next, uint64_t stack,
				 int is_thread)
{
	struct thread *child = thread_make();

	if (!child)
		return NULL;
	child->regs = thread->regs;
	memory_copy(child->vector15, thread->vector15, sizeof(child->vector15));
	child->regs.gpr[0] = 0;
	child->regs.gpr[1] = next;
	child->regs.gpr[11] = thread->regs.rflags;
	child->regs.rip = next;
	if (stack)
		child->regs.gpr[4] = stack;
	signal_inherit(child, thread, is_thread);
	return child;
}

static long clone_with(struct thread *thread, uint64_t next, uint64_t flags, uint64_t stack,
		       const uint64_t args[6])
{
	struct thread *child = child_make(thread, next, stack, !!(flags & CLONE_THREAD));
	void (*begin)(struct thread *) = flags & CLONE_THREAD ? child_thread : child_process;
	long result;

	if (!child)
		return -ENOMEM;
	signal_hold_all();
	result = gate_clone((long)thread->regs.gpr[0], args, child, begin);
	signal_let_all(thread);
	/* A thread frees its own at its end; a forked child has its copy; who borrowed our memory by vfork has ended, or run another program. */
	if (sys_failed(result) || !(flags & CLONE_VM) || (flags & CLONE_VFORK))
		thread_free(child);
	return result;
}

long thread_clone_call(struct thread *thread, uint64_t next)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t args[6] = { gpr[7], gpr[6], gpr[2], gpr[10], gpr[8], gpr[9] };
	struct clone_args mine = { 0 };

	switch (gpr[0]) {
	case SYS_clone:
		return clone_with(thread, next, args[0], args[1], args);
	case SYS_fork:
		return clone_with(thread, next, 0, 0, args);
	case SYS_vfork:
		return clone_with(thread, next, CLONE_VM | CLONE_VFORK, 0, args);
	default: /* clone3: a copy, for the caller's may change */
		if (args[1] < CLONE_ARGS_SIZE_VER0 || args[1] > sizeof(mine))
			return sys_call3(SYS_clone3, (long)args[0], (long)args[1], 0);
		if (gate_copy(&mine, (const void *)args[0], args[1]))
			return -EFAULT;
		args[0] = (uint64_t)&mine;
		return clone_with(thread, next, mine.flags,
				  mine.stack ? mine.stack + mine.stack_size : 0, args);
	}
}

void thread_exit_call(struct thread *thread)
{
	long number = (long)thread->regs.gpr[0], status = (long)thread->regs.gpr[7];

	ring_event(thread, TRAIL_END, 0, 0, TRAIL_EXITED, (uint64_t)(status & 0xff));
	ring_close(thread);
	if (number == SYS_exit)
		gate_end(thread, thread->mapping_bytes, status);
	for (;;)
		sys_call3(SYS_exit_group, status, 0, 0);
}
