/* SPDX-License-Identifier: MIT */
#include "agent/trail/code.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/lock.h"
#include "agent/trail/map.h"
#include "agent/trail/pages.h"
#include "agent/trail/ranges.h"
#include "agent/trail/sys.h"
#include "agent/trail/trace.h"

#include <errno.h>
#include <linux/personality.h>
#include <sys/mman.h>

#define ALL_PAGES (UINT64_C(1) << 47)

static uint64_t whole_pages(uint64_t start, uint64_t bytes)
{
	return ((start & 4095) + bytes + 4095) & ~UINT64_C(4095);
}

/* With READ_IMPLIES_EXEC all that can be read can be run. */
static int is_code(uint64_t protection)
{
	long personality;

	if (!(protection & PROT_READ) || protection & PROT_EXEC)
		return !!(protection & PROT_READ);
	personality = sys_call3(SYS_personality, 0xffffffff, 0, 0);
	return !sys_failed(personality) && personality & READ_IMPLIES_EXEC;
}

static void gone(uint64_t start, uint64_t bytes)
{
	if (ranges_drop(start, bytes))
		map_disclaim(start, bytes);
}

/* What was there before is gone already. `is_told`: what it is of is to be read; where that can't be, what the call says must do. */
static void here(uint64_t start, uint64_t bytes, uint64_t protection, uint32_t flags, int is_told)
{
	if (!is_code(protection))
		return;
	ranges_add(start, bytes, flags | (protection & PROT_WRITE ? RANGE_WRITABLE : 0));
	if (is_told)
		ranges_read();
}

/* Where what translated code was made of goes, before it does: the kernel gives its addresses out again at once. */
static void before(const uint64_t *gpr)
{
	switch (gpr[0]) {
	case SYS_mmap:
		if (gpr[10] & MAP_FIXED)
			pages_forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		pages_forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_madvise:
		pages_open(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mremap:
		pages_forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		if (gpr[10] & MREMAP_FIXED)
			pages_forget(gpr[8], whole_pages(gpr[8], gpr[2]));
		return;
	default: /* shmat may lie over others, shmdt says not how much goes */
		pages_forget(0, ALL_PAGES);
	}
}

static void protect(const uint64_t *gpr)
{
	uint64_t bytes = whole_pages(gpr[7], gpr[6]);
	uint32_t was = ranges_flags(gpr[7]);

	gone(gpr[7], bytes);
	/* what was no code before may be a file's, or others may write it elsewhere */
	here(gpr[7], bytes, gpr[2], was & RANGE_SHARED, !was || was & RANGE_SHARED);
}

static void after(const uint64_t *gpr, uint64_t result)
{
	int is_file = !(gpr[10] & MAP_ANONYMOUS);

	switch (gpr[0]) {
	case SYS_mmap:
		/* who runs natively may have unmapped what was there */
		pages_forget(result, whole_pages(result, gpr[6]));
		gone(result, whole_pages(result, gpr[6]));
		here(result, whole_pages(result, gpr[6]), gpr[2],
		     gpr[10] & MAP_SHARED ? RANGE_SHARED : 0, is_file);
		return;
	case SYS_munmap:
		gone(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		protect(gpr);
		return;
	case SYS_madvise:
		pages_kill(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mremap:
		gone(gpr[7], whole_pages(gpr[7], gpr[6]));
		gone(result, whole_pages(result, gpr[2]));
		ranges_read();
		return;
	default:
		ranges_read();
	}
}

static int is_discard(uint64_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == 24 /* MADV_DONTNEED_LOCKED */;
}

/* The lock is held across the call: nobody translates what is going away. */
long code_call(struct thread *thread, long (*plain)(const struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	long result;

	if (gpr[0] == SYS_mmap && !is_code(gpr[2]) && !(gpr[10] & MAP_FIXED))
		return plain(thread);
	if (gpr[0] == SYS_madvise && !is_discard(gpr[2]))
		return plain(thread);
	lock_take(&dispatch_lock);
	before(gpr);
	result = plain(thread);
	if (result == -ENOMEM && pages_guarded()) { /* each guard may be a mapping more */
		pages_release();
		result = plain(thread);
	}
	if (!sys_failed(result))
		after(gpr, (uint64_t)result);
	else if (result == -ENOMEM) /* some of it may have been done */
		ranges_read();
	traces_turn();
	lock_give(&dispatch_lock);
	return result;
}

void code_open(uint64_t start, uint64_t bytes)
{
	if (!pages_guarded())
		return;
	lock_take(&dispatch_lock);
	pages_open(start, bytes);
	lock_give(&dispatch_lock);
}

int code_refused(void)
{
	uint32_t guarded;

	if (!pages_guarded())
		return 0;
	lock_take(&dispatch_lock);
	guarded = pages_guarded();
	pages_release();
	lock_give(&dispatch_lock);
	return guarded != 0;
}
