/* SPDX-License-Identifier: MIT */
#include "agent/trail/code.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/lock.h"
#include "agent/trail/pages.h"
#include "agent/trail/ranges.h"

#include <sys/mman.h>

/* A range is now `protection`; of a file: what it is called is to be read. */
static void changed(uint64_t start, uint64_t bytes, uint64_t protection, int is_file)
{
	bytes = (bytes + 4095) & ~UINT64_C(4095);
	pages_drop(start, bytes);
	ranges_drop(start, bytes);
	if (!(protection & PROT_EXEC) || !(protection & PROT_READ))
		return;
	if (is_file)
		ranges_read();
	else
		ranges_add(start, bytes, protection & PROT_WRITE ? RANGE_WRITABLE : 0);
}

static void after(const uint64_t *gpr, uint64_t result)
{
	uint32_t flags;

	switch (gpr[0]) {
	case SYS_mmap:
		changed(result, gpr[6], gpr[2], !(gpr[10] & MAP_ANONYMOUS) || gpr[10] & MAP_SHARED);
		return;
	case SYS_munmap:
		changed(gpr[7], gpr[6], PROT_NONE, 0);
		return;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		flags = ranges_flags(gpr[7]);
		/* What was no code before may be a file's. */
		changed(gpr[7], gpr[6], gpr[2], !flags || flags & RANGE_SHARED);
		return;
	case SYS_mremap:
		changed(gpr[7], gpr[6], PROT_NONE, 0);
		changed(result, gpr[2], PROT_NONE, 0);
		ranges_read();
		return;
	default: /* shmat, shmdt */
		ranges_read();
	}
}

/*
 * The lock is held across the call: nobody translates what is going away. What is unmapped is given up before it is, for the kernel gives its
 * addresses out again at once.
 */
long code_call(struct thread *thread, long (*plain)(const struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	long result;

	if (gpr[0] == SYS_mmap && !(gpr[2] & PROT_EXEC) && !(gpr[10] & MAP_FIXED))
		return plain(thread);
	lock_take(&dispatch_lock);
	result = plain(thread);
	if (!sys_failed(result))
		after(gpr, (uint64_t)result);
	lock_give(&dispatch_lock);
	return result;
}
