/* SPDX-License-Identifier: MIT */
#include "agent/trail/code.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/lock.h"
#include "agent/trail/map.h"
#include "agent/trail/ranges.h"

#include <sys/mman.h>

long code_call(struct thread *thread, long (*plain)(const struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	long result = plain(thread);

	if (sys_failed(result))
		return result;
	if (gpr[0] == SYS_mmap && !(gpr[10] & MAP_FIXED))
		return result;
	lock_take(&dispatch_lock);
	ranges_drop(gpr[0] == SYS_mmap ? (uint64_t)result : gpr[7], gpr[6]);
	lock_give(&dispatch_lock);
	return result;
}
