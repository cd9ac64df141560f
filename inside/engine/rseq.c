/* SPDX-License-Identifier: MIT */
#include "inside/engine/rseq.h"
#include "inside/engine/sys.h"

#include <errno.h>

#define RSEQ_UNREGISTER 1
#define RSEQ_BYTES_MIN 32u

long rseq_call(struct thread *thread)
{
	uint64_t at = thread->regs.gpr[7], flags = thread->regs.gpr[2];
	uint32_t bytes = (uint32_t)thread->regs.gpr[6], signature = (uint32_t)thread->regs.gpr[10];
	int is_same = thread->rseq.at && thread->rseq.at == at && thread->rseq.bytes == bytes;

	if (!thread->is_taken)
		return -ENOSYS;
	if ((uint32_t)flags & ~(uint32_t)RSEQ_UNREGISTER || !at || bytes < RSEQ_BYTES_MIN ||
	    at % RSEQ_BYTES_MIN)
		return -EINVAL;
	if ((uint32_t)flags || thread->rseq.at) {
		if (!is_same)
			return -EINVAL;
		if (thread->rseq.signature != signature)
			return -EPERM;
		if (!(uint32_t)flags)
			return -EBUSY;
		at = 0;
	}
	thread->rseq.at = at;
	thread->rseq.bytes = bytes;
	thread->rseq.signature = signature;
	return 0;
}

static long ask(const struct thread *thread, int flags)
{
	return sys_call(SYS_rseq, (long)thread->rseq.at, thread->rseq.bytes, flags,
			thread->rseq.signature, 0, 0);
}

long rseq_take(struct thread *thread)
{
	long err = ask(thread, RSEQ_UNREGISTER);

	if (err)
		thread->rseq.at = 0;
	return err;
}

void rseq_restore(struct thread *thread)
{
	if (thread->rseq.at)
		ask(thread, 0);
	thread->rseq.at = 0;
}

void rseq_inherit(struct thread *child, const struct thread *thread, int shares_memory)
{
	child->is_taken = thread->is_taken;
	if (!shares_memory)
		child->rseq = thread->rseq;
}
