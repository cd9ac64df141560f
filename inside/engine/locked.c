/* SPDX-License-Identifier: MIT */
#include "inside/engine/locked.h"
#include "inside/engine/mapped.h"
#include "inside/engine/places.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define KERNEL (UINT64_C(1) << 47) /* the vsyscall page is not the program's */

static int locks_what_comes;

static int is_the_programs(const struct mapped *mapped)
{
	return mapped->start < KERNEL && !places_meet(mapped->start, mapped->end - mapped->start);
}

/*
 * What the program has mapped; or, is_locking, lock each of it as it would be locked. -errno: it
 * can't be known.
 */
static long each_mapped(uint64_t flags, int is_locking)
{
	uint64_t bytes = 0;
	struct mapped mapped;
	int err = mapped_open(&mapped);

	if (err)
		return err;
	while (mapped_next(&mapped, NULL, 0)) {
		if (!is_the_programs(&mapped))
			continue;
		bytes += mapped.end - mapped.start;
		/* what can't be had, as of PROT_NONE, is passed over by mlockall(2), too */
		if (is_locking)
			sys_call3(SYS_mlock2, (long)mapped.start, (long)(mapped.end - mapped.start),
				  flags & MCL_ONFAULT ? MLOCK_ONFAULT : 0);
	}
	mapped_close(&mapped);
	return (long)bytes;
}

/*
 * The kernel weighs all that is mapped against the limit (mm/mlock.c, mlockall); here what is the
 * program's.
 */
static long lock_each(uint64_t flags)
{
	struct rlimit limit;
	long bytes = each_mapped(flags, 0);

	if (bytes < 0 || sys_call(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)&limit, 0, 0) ||
	    (uint64_t)bytes > limit.rlim_cur)
		return -ENOMEM;
	/* of what comes nothing is weighed yet */
	if (flags & MCL_FUTURE && sys_call3(SYS_mlockall, MCL_FUTURE | MCL_ONFAULT, 0, 0))
		return -ENOMEM;
	each_mapped(flags, 1);
	return 0;
}

long locked_call(const struct thread *thread)
{
	uint64_t asked = thread->regs.gpr[7], flags = asked;
	long err;

	if (flags & (MCL_CURRENT | MCL_FUTURE))
		flags |= MCL_ONFAULT;
	err = sys_call3(SYS_mlockall, (long)flags, 0, 0);
	if (err == -ENOMEM && asked & MCL_CURRENT)
		err = lock_each(asked);
	if (!err)
		__atomic_store_n(&locks_what_comes, (asked & MCL_FUTURE) != 0, __ATOMIC_RELAXED);
	return err;
}

void locked_spare(const void *at, size_t bytes)
{
	if (__atomic_load_n(&locks_what_comes, __ATOMIC_RELAXED))
		sys_call3(SYS_munlock, (long)at, (long)bytes, 0);
}
