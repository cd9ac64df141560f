/* SPDX-License-Identifier: MIT */
/* Compiled as the hit path is: it runs in the janitor (janitor_process.h). */
#include "inside/detour/unblock.h"

#include "base/syscall.h"
#include "inside/detour/trap_book.h"

#include <sys/uio.h>

#define GETSIGMASK 0x420a /* linux/ptrace.h, which can't be included beside sys/ptrace.h */
#define SETSIGMASK 0x420b
#define MASK_BYTES 8
#define LIBCS_OWN (UINT64_C(3) << (32 - 1))

/*
 * The address of the thread's record; NULL: it is not a thread of libc's, or not yet. Its first
 * word names itself (x86-64 psABI, the thread control block).
 */
static struct trap_thread *book_of(const struct stop_job *job, const struct stopped *thread)
{
	struct halt_regs regs;
	uintptr_t pointer, self = 0;
	struct iovec local = { &self, sizeof self }, remote;

	if (halt_regs_get(thread->tid, &regs))
		return NULL;
	pointer = halt_thread_pointer(&regs);
	remote = (struct iovec){ (void *)pointer,
				 sizeof self }; /* NOLINT(performance-no-int-to-ptr) */
	if (!pointer ||
	    syscall_raw6(SYS_process_vm_readv, job->self, (long)&local, 1, (long)&remote, 1, 0) !=
		    sizeof self ||
	    self != pointer)
		return NULL;
	return (struct trap_thread *)(pointer +
				      job->book_at); /* NOLINT(performance-no-int-to-ptr) */
}

static void set_mask(const struct stopped *thread, uint64_t mask)
{
	syscall_raw(SYS_ptrace, SETSIGMASK, thread->tid, MASK_BYTES, (long)&mask);
}

void unblock_thread(const struct stop_job *job, const struct stopped *thread)
{
	struct trap_thread *book;
	uint64_t mask = 0;

	if (thread->tid == job->tid || thread->tid == job->keeper ||
	    syscall_raw(SYS_ptrace, GETSIGMASK, thread->tid, MASK_BYTES, (long)&mask))
		return;
	if (job->masks == STOP_MASKS_TAKE) {
		/*
		 * libc itself blocks its own, too, for a moment; what it restores then is seen at
		 * another look
		 */
		if (!(mask & TRAP_SIGNAL_BIT) || mask & LIBCS_OWN)
			return;
		book = book_of(job, thread);
		if (!book)
			return;
		book->is_blocked = 1;
		set_mask(thread, mask & ~TRAP_SIGNAL_BIT);
		return;
	}
	book = book_of(job, thread);
	if (!book || !book->is_blocked)
		return;
	book->is_blocked = 0;
	set_mask(thread, mask | TRAP_SIGNAL_BIT);
	if (book->is_pending)
		syscall_raw(SYS_tgkill, job->pid, thread->tid, SIGTRAP, 0);
	book->is_pending = 0;
}
