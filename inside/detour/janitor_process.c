/* SPDX-License-Identifier: MIT */
#include "inside/detour/janitor_process.h"

#include "base/kernel.h"
#include "inside/detour/return.h"
#include "inside/detour/trap_book.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/seccomp_yield.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/wait.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <time.h>
#include <waymark/error.h>

__thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));

#define STACK_MAX ((uintptr_t)64 << 20) /* a thread's, from its stack pointer on */
#define STACK_UNKNOWN ((uintptr_t)1 << 20)
#define STACKS_MAX 8	       /* on which one thread's signal handlers run */
#define MASK_STATUS_BYTES 8192 /* of a status: it has all groups before the masks */
#define WORD sizeof(uint64_t)
#define PAGE_BYTES 4096u
#define LOOK_NS 100000000 /* between two looks whether the control thread lives */

/* ---- what a thread is about ---- */

/* A line of a thread's status that is a set of signals; all of them, if that can't be had. */
static uint64_t status_set(const struct stop_job *job, const struct halt_thread *thread,
			   const char *name)
{
	char text[MASK_STATUS_BYTES];
	const char *at;
	uint64_t set = 0;

	if (!halt_threads_status(&job->halt, thread->listed, text, sizeof text))
		return ~UINT64_C(0);
	at = halt_threads_value(text, name);
	for (; at && *at && *at != '\n'; at++)
		set = set << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return at ? set : ~UINT64_C(0);
}

/* Whether it is under seccomp filters that our own threads are not under. */
static int threads_is_filtered(const struct stop_job *job, const struct halt_thread *thread)
{
	char text[MASK_STATUS_BYTES];
	const char *at;
	int32_t number = 0;

	if (!halt_threads_status(&job->halt, thread->listed, text, sizeof text))
		return 0;
	at = halt_threads_value(text, "Seccomp_filters:\t");
	for (; at && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (*at - '0');
	return number > job->filters;
}

/*
 * Whether it is about to be given a SIGTRAP of its own, or in the handler of one. Any doubt counts.
 */
static int threads_has_trap(const struct stop_job *job, const struct halt_thread *thread)
{
	struct halt_regs regs;

	/*
	 * one that it was stopped with is not pending any more; the handler blocks all, and lets
	 * SIGTRAP in for a hit; so does a thread that waits for us
	 */
	if (thread->signal == SIGTRAP || status_set(job, thread, "SigPnd:\t") & TRAP_SIGNAL_BIT)
		return 1;
	if (!halt_regs_get(thread->tid, &regs) &&
	    seccomp_yield_is_waiting(halt_thread_pointer(&regs)))
		return 0;
	return (status_set(job, thread, "SigBlk:\t") | TRAP_SIGNAL_BIT) ==
	       ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
}

/*
 * With every thread stopped: where the threads are, and the stores. A jump replaces one
 * instruction, so no thread is in the middle of what changes.
 */

static long copy(const struct stop_job *job, long number, void *mine, uintptr_t theirs,
		 size_t bytes)
{
	struct iovec local = { mine, bytes }, remote = { (void *)theirs, bytes };

	/* our own number: any process that reads it has the program's memory, as we have */
	return syscall_raw6(number, job->self, (long)&local, 1, (long)&remote, 1, 0);
}

static int read_memory(const struct stop_job *job, void *to, uintptr_t from, size_t bytes)
{
	return copy(job, SYS_process_vm_readv, to, from, bytes) == (long)bytes ? 0 : -EFAULT;
}

/* ---- guards ---- */

/*
 * A thread that is in a function when its guard is stored may be about to do what the guard has to
 * prevent. The store is tried again when no thread is there.
 */
static void keep_out_of_guarded(struct stop_job *job, uintptr_t pc)
{
	for (size_t i = 0; job->has_guards && i < job->count; i++) {
		const struct control_detour *record = job->sites[i].detour->record;

		if (record->flags & DETOUR_GUARDS && pc > record->address &&
		    pc < record->point + record->guard_bytes)
			job->sites[i].error = -WM_E_DETOUR_BUSY;
	}
}

struct stack {
	uintptr_t from, to;
};

/* Returns whether it was a stack not seen before, which is then to be looked at too. */
static void add_stack(struct stack *stacks, unsigned int *count, uintptr_t from, uintptr_t to)
{
	for (unsigned int i = 0; i < *count; i++) {
		if (from >= stacks[i].from && from < stacks[i].to)
			return;
	}
	if (*count < STACKS_MAX)
		stacks[(*count)++] = (struct stack){ from & ~(uintptr_t)(WORD - 1), to };
}

/* Of the stack that libc or the kernel gave the thread, if `from` is on it. */
static uintptr_t stack_end(const struct stop_job *job, uintptr_t from, uintptr_t thread_pointer)
{
	if (thread_pointer > from && thread_pointer - from < STACK_MAX)
		return thread_pointer;
	if (job->main_stack_end > from && job->main_stack_end - from < STACK_MAX)
		return job->main_stack_end;
	return from + STACK_UNKNOWN;
}

static void note_near(struct stop_job *job, uintptr_t pc, uintptr_t stack)
{
	if (job->sweep && return_is_code(pc) && job->near.count < RETURN_NEAR_MAX)
		job->near.of[job->near.count++] = stack;
}

static void scan_stack(struct stop_job *job, struct stack *stacks, unsigned int *count,
		       unsigned int which, uintptr_t thread_pointer)
{
	uintptr_t at = stacks[which].from, to = stacks[which].to;

	while (at < to) {
		size_t want = to - at < sizeof job->words ? to - at : sizeof job->words;
		long got = copy(job, SYS_process_vm_readv, job->words, at, want);
		size_t have = got > 0 ? (size_t)got / WORD : 0, i;

		/* a frame's other words must be in sight too */
		for (i = 0; i + HALT_FRAME_WORDS_BEHIND < have; i++) {
			uint64_t word = job->words[i];

			if (i && halt_is_frame(job->words, i)) {
				uintptr_t stack = job->words[i - 1];

				note_near(job, word, stack);
				keep_out_of_guarded(job, word);
				add_stack(stacks, count, stack,
					  stack_end(job, stack, thread_pointer));
			}
		}
		if ((size_t)(got > 0 ? got : 0) < want || have <= 8)
			return;
		/* one more than is needed behind, for the word before a PC */
		at += (have - HALT_FRAME_WORDS_BEHIND - 1) * WORD;
		if (to - at <= (HALT_FRAME_WORDS_BEHIND + 1) * WORD)
			break;
	}
}

/* A signal that the kernel is delivering decides by itself what becomes of an interrupted call. */
static int restart(const struct stop_job *job, const struct halt_thread *thread,
		   struct halt_regs *regs)
{
	return !thread->signal &&
	       halt_restart(regs, halt_is_resuming(regs) && threads_is_filtered(job, thread));
}

static void look_at_thread(struct stop_job *job, const struct halt_thread *thread)
{
	struct stack stacks[STACKS_MAX];
	struct halt_regs regs;
	unsigned int count = 0;

	if (halt_regs_get(thread->tid, &regs))
		return; /* it has been killed */
	if (restart(job, thread, &regs))
		halt_regs_set(thread->tid, &regs);
	keep_out_of_guarded(job, halt_pc(&regs));
	note_near(job, halt_pc(&regs), halt_stack(&regs));
	add_stack(stacks, &count, halt_stack(&regs),
		  stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs)));
	for (unsigned int i = 0; i < count; i++)
		scan_stack(job, stacks, &count, i, halt_thread_pointer(&regs));
}

/* It matters not where it is. */
static void keep_calls(const struct stop_job *job, const struct halt_thread *thread)
{
	struct halt_regs regs;

	if (!halt_regs_get(thread->tid, &regs) && restart(job, thread, &regs))
		halt_regs_set(thread->tid, &regs);
}

/* ---- signal masks ---- */

#define GETSIGMASK 0x420a /* linux/ptrace.h, which can't be included beside sys/ptrace.h */
#define SETSIGMASK 0x420b
#define MASK_BYTES 8
#define LIBCS_OWN (UINT64_C(3) << (32 - 1))

/*
 * The address of the thread's record; NULL: it is not a thread of libc's, or not yet. Its first
 * word names itself (x86-64 psABI, the thread control block).
 */
static struct trap_thread *book_of(const struct stop_job *job, const struct halt_thread *thread)
{
	struct halt_regs regs;
	uintptr_t pointer, self;

	if (halt_regs_get(thread->tid, &regs))
		return NULL;
	pointer = halt_thread_pointer(&regs);
	if (!pointer || read_memory(job, &self, pointer, sizeof self) || self != pointer)
		return NULL;
	return (struct trap_thread *)(pointer +
				      job->book_at); /* NOLINT(performance-no-int-to-ptr) */
}

static void set_mask(const struct halt_thread *thread, uint64_t mask)
{
	syscall_raw(SYS_ptrace, SETSIGMASK, thread->tid, MASK_BYTES, (long)&mask);
}

/*
 * Threads that blocked SIGTRAP before the guards were in place, as in programs that leave all
 * signals to one thread: their hits would be missed. While they are stopped, SIGTRAP is removed
 * from their masks, and the guards' record says that it is blocked, as if they had asked for it
 * since; when the guards go, it is restored (job->masks).
 */
static void change_mask(const struct stop_job *job, const struct halt_thread *thread)
{
	struct trap_thread *book;
	uint64_t mask = 0;

	if (thread->tid == job->halt.tid || thread->tid == job->keeper ||
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
		syscall_raw(SYS_tgkill, job->halt.pid, thread->tid, SIGTRAP, 0);
	book->is_pending = 0;
}

void janitor_spans_clear(struct stop_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (!job->sites[i].is_done)
			job->sites[i].error = 0;
	}
	for (uint32_t i = 0; i < job->halt.count; i++) {
		if (!job->halt.threads[i].is_stopped)
			continue;
		if (job->masks)
			change_mask(job, &job->halt.threads[i]);
		if (job->looks)
			job->has_pending |= threads_has_trap(job, &job->halt.threads[i]);
		if (job->has_guards || job->sweep)
			look_at_thread(job, &job->halt.threads[i]);
		else
			keep_calls(job, &job->halt.threads[i]);
	}
}

/* ---- storing ---- */

static int write_code(const struct stop_job *job, uintptr_t to, const uint8_t *bytes, size_t count,
		      int prot)
{
	uintptr_t start = to & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t length = (to + count - start + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	long error;

	if (job->memory_fd >= 0) {
		error = syscall_raw(SYS_pwrite64, job->memory_fd, (long)bytes, (long)count,
				    (long)to);
		return error == (long)count ? 0 : error < 0 ? (int)error : -EFAULT;
	}
	error = syscall_raw(SYS_mprotect, (long)start, (long)length,
			    PROT_READ | PROT_WRITE | PROT_EXEC, 0);
	if (error)
		return error == -ENOMEM ? -EFAULT : -WM_E_NO_TEXT_WRITE;
	for (size_t i = 0; i < count; i++)
		((volatile uint8_t *)to)[i] = bytes[i];
	syscall_raw(SYS_mprotect, (long)start, (long)length, prot, 0);
	return 0;
}

static void store_site(const struct stop_job *job, struct janitor_site *site, const uint8_t *found)
{
	const struct detour *detour = site->detour;
	const struct control_detour *record = detour->record;
	struct detour_store store;

	for (unsigned int i = 0; i < DETOUR_FOUND_BYTES; i++)
		site->found[i] = i < detour_owned(record) ? found[i] : 0;
	site->error = detour_choose(detour, job->arm, found, &store);
	if (!site->error && store.count)
		site->error = write_code(job, record->address + store.at, store.bytes, store.count,
					 detour->prot);
	site->is_done = !site->error;
}

/* Read many at once. */
static void store_group(struct stop_job *job, struct janitor_site *sites, size_t count)
{
	struct iovec remote[STOP_GROUP], local[STOP_GROUP];
	long bytes = 0, got;

	for (size_t i = 0; i < count; i++) {
		const struct control_detour *record = sites[i].detour->record;

		local[i] = (struct iovec){ job->bytes[i], detour_owned(record) };
		remote[i] = (struct iovec){ (void *)record->address, detour_owned(record) };
		bytes += (long)detour_owned(record);
	}
	got = syscall_raw6(SYS_process_vm_readv, job->self, (long)local, (long)count, (long)remote,
			   (long)count, 0);
	for (size_t i = 0; i < count; i++) {
		const struct control_detour *record = sites[i].detour->record;

		if (sites[i].is_done || sites[i].error)
			continue;
		if (got != bytes &&
		    read_memory(job, job->bytes[i], record->address, detour_owned(record)))
			sites[i].error = -EFAULT;
		else
			store_site(job, &sites[i], job->bytes[i]);
	}
}

void janitor_spans_store(struct stop_job *job)
{
	for (size_t at = 0; at < job->count; at += STOP_GROUP)
		store_group(job, job->sites + at,
			    job->count - at < STOP_GROUP ? job->count - at : STOP_GROUP);
}

/* ---- the process ---- */

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
	int error = halt_threads_stop(&job->halt);

	if (!error) {
		find_guards(job);
		janitor_spans_clear(job);
		janitor_spans_store(job);
		if (job->sweep)
			return_free_left(job->self, &job->near);
		/* a running thread passes a serializing instruction before it sees the new code */
		syscall_raw(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0, 0);
		halt_serialize();
		job->done_ns = lock_now_ns();
	}
	halt_threads_resume(&job->halt);
	job->stopped_ns = lock_now_ns() - begin_ns;
	return error;
}

/*
 * Whether the control thread has ended, with its process or without it, by exec. Where that came
 * before PR_SET_PDEATHSIG, no signal comes.
 */
static int is_over(const struct stop_job *job)
{
	return syscall_raw(SYS_getppid, 0, 0, 0, 0) != job->halt.pid ||
	       syscall_raw(SYS_tgkill, job->halt.pid, job->halt.tid, 0, 0) == -ESRCH;
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
