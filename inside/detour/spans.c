/* SPDX-License-Identifier: MIT */
/*
 * With every thread stopped: where the threads are, and the stores. A jump replaces one
 * instruction, so no thread is in the middle of what changes.
 */
#include "inside/detour/janitor_process.h"

#include "base/syscall.h"
#include "inside/detour/return.h"
#include "inside/detour/unblock.h"

#include <waymark/error.h>

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define STACK_MAX ((uintptr_t)64 << 20) /* a thread's, from its stack pointer on */
#define STACK_UNKNOWN ((uintptr_t)1 << 20)
#define STACKS_MAX 8 /* on which one thread's signal handlers run */
#define WORD sizeof(uint64_t)
#define PAGE_BYTES 4096u

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

/* The end of the stack that libc or the kernel gave the thread, if the thread is on it; else 0. */
static uintptr_t own_stack_end(const struct stop_job *job, uintptr_t from, uintptr_t thread_pointer)
{
	if (thread_pointer > from && thread_pointer - from < STACK_MAX)
		return thread_pointer;
	if (job->main_stack_end > from && job->main_stack_end - from < STACK_MAX)
		return job->main_stack_end;
	return 0;
}

static uintptr_t stack_end(const struct stop_job *job, uintptr_t from, uintptr_t thread_pointer)
{
	uintptr_t own = own_stack_end(job, from, thread_pointer);

	return own ? own : from + STACK_UNKNOWN;
}

static void note_near(struct stop_job *job, uintptr_t pc, uintptr_t stack)
{
	if (job->sweep && return_is_code(pc) && job->near.count < RETURN_NEAR_MAX)
		job->near.of[job->near.count++] = stack;
}

/* Returns how far it came. */
static uintptr_t scan_stack(struct stop_job *job, struct stack *stacks, unsigned int *count,
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
				stranded_place(job->stranded, word, stack);
				keep_out_of_guarded(job, word);
				add_stack(stacks, count, stack,
					  stack_end(job, stack, thread_pointer));
			}
		}
		if ((size_t)(got > 0 ? got : 0) < want || have <= 8)
			return at + (have > HALT_FRAME_WORDS_BEHIND
					     ? (have - HALT_FRAME_WORDS_BEHIND) * WORD
					     : 0);
		/* one more than is needed behind, for the word before a PC */
		at += (have - HALT_FRAME_WORDS_BEHIND - 1) * WORD;
		if (to - at <= (HALT_FRAME_WORDS_BEHIND + 1) * WORD)
			break;
	}
	return at;
}

/* A signal that the kernel is delivering decides by itself what becomes of an interrupted call. */
static int restart(const struct stop_job *job, const struct stopped *thread, struct halt_regs *regs)
{
	return !thread->signal &&
	       halt_restart(regs, halt_is_resuming(regs) && threads_is_filtered(job, thread));
}

static void look_at_thread(struct stop_job *job, const struct stopped *thread)
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
	if (job->stranded &&
	    !stranded_begin(job->stranded, thread->tid, halt_pc(&regs), halt_stack(&regs),
			    own_stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs))))
		return;
	add_stack(stacks, &count, halt_stack(&regs),
		  stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs)));
	for (unsigned int i = 0; i < count; i++) {
		uintptr_t end = scan_stack(job, stacks, &count, i, halt_thread_pointer(&regs));

		stranded_stack(job->stranded, stacks[i].from, end);
	}
	stranded_end(job->stranded);
}

/* It matters not where it is. */
static void keep_calls(const struct stop_job *job, const struct stopped *thread)
{
	struct halt_regs regs;

	if (!halt_regs_get(thread->tid, &regs) && restart(job, thread, &regs))
		halt_regs_set(thread->tid, &regs);
}

void spans_clear(struct stop_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (!job->sites[i].is_done)
			job->sites[i].error = 0;
	}
	for (uint32_t i = 0; i < job->thread_count; i++) {
		if (!job->threads[i].is_stopped)
			continue;
		if (job->masks)
			unblock_thread(job, &job->threads[i]);
		if (job->looks)
			job->has_pending |= threads_has_trap(job, &job->threads[i]);
		if (job->has_guards || job->sweep || job->stranded)
			look_at_thread(job, &job->threads[i]);
		else
			keep_calls(job, &job->threads[i]);
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

void spans_store(struct stop_job *job)
{
	for (size_t at = 0; at < job->count; at += STOP_GROUP)
		store_group(job, job->sites + at,
			    job->count - at < STOP_GROUP ? job->count - at : STOP_GROUP);
}
