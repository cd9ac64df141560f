/* SPDX-License-Identifier: MIT */
#include "inside/detour/janitor_process.h"

#include "base/syscall.h"
#include "inside/runtime/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#define LOOK_NS 100000000 /* between two looks whether the control thread lives */

static void find_guards(struct stop_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		const struct detour *detour = job->sites[i].detour;

		job->has_guards |= job->arm && detour->record->flags & DETOUR_GUARDS;
		if (!job->arm && detour->record->flags & DETOUR_GUARD_MASK)
			job->masks = STOP_MASKS_GIVE;
	}
}

static int run(struct stop_job *job)
{
	uint64_t begin_ns = lock_now_ns();
	int error = threads_stop(job);

	if (!error) {
		find_guards(job);
		spans_clear(job);
		spans_store(job);
		if (job->sweep)
			return_free_left(job->self, &job->near);
		/* a running thread passes a serializing instruction before it sees the new code */
		syscall_raw(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0);
		halt_serialize();
		job->done_ns = lock_now_ns();
	}
	threads_resume(job);
	job->stopped_ns = lock_now_ns() - begin_ns;
	return error;
}

/*
 * Whether the control thread has ended, with its process or without it, by exec. Where that came
 * before PR_SET_PDEATHSIG, no signal comes.
 */
static int is_over(const struct stop_job *job)
{
	return syscall_raw(SYS_getppid, 0, 0, 0, 0) != job->pid ||
	       syscall_raw(SYS_tgkill, job->pid, job->tid, 0, 0) == -ESRCH;
}

void janitor_stop_main(void *data)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct stop_job *job = data;

	job->self = (int32_t)syscall_raw(SYS_getpid, 0, 0, 0, 0);
	/* the control thread's end, by exec or exit, is ours: no thread may stay stopped */
	syscall_raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	while (!__atomic_load_n(&job->go, __ATOMIC_ACQUIRE) && !is_over(job))
		syscall_raw(SYS_futex, (long)&job->go, FUTEX_WAIT, 0, (long)&pause);
	if (__atomic_load_n(&job->go, __ATOMIC_ACQUIRE) == 1 && !is_over(job))
		__atomic_store_n(&job->result, run(job), __ATOMIC_RELEASE);
}
