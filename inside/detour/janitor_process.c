/* SPDX-License-Identifier: MIT */
#include "inside/detour/janitor_process.h"

#include "base/kernel.h"
#include "inside/detour/return.h"
#include "inside/detour/trap_book.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/seccomp_yield.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/wait.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

static int threads_has_trap(const struct stop_job *job, const struct stopped *thread);
static int threads_is_filtered(const struct stop_job *job, const struct stopped *thread);

/*
 * With every thread stopped: where the threads are, and the stores. A jump replaces one
 * instruction, so no thread is in the middle of what changes.
 */

__thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));

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
	add_stack(stacks, &count, halt_stack(&regs),
		  stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs)));
	for (unsigned int i = 0; i < count; i++)
		scan_stack(job, stacks, &count, i, halt_thread_pointer(&regs));
}

/* It matters not where it is. */
static void keep_calls(const struct stop_job *job, const struct stopped *thread)
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
static struct trap_thread *book_of(const struct stop_job *job, const struct stopped *thread)
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

static void set_mask(const struct stopped *thread, uint64_t mask)
{
	syscall_raw(SYS_ptrace, SETSIGMASK, thread->tid, MASK_BYTES, (long)&mask);
}

/*
 * Threads that blocked SIGTRAP before the guards were in place, as in programs that leave all
 * signals to one thread: their hits would be missed. While they are stopped, SIGTRAP is removed
 * from their masks, and the guards' record says that it is blocked, as if they had asked for it
 * since; when the guards go, it is restored (job->masks).
 */
static void change_mask(const struct stop_job *job, const struct stopped *thread)
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

void janitor_spans_clear(struct stop_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (!job->sites[i].is_done)
			job->sites[i].error = 0;
	}
	for (uint32_t i = 0; i < job->thread_count; i++) {
		if (!job->threads[i].is_stopped)
			continue;
		if (job->masks)
			change_mask(job, &job->threads[i]);
		if (job->looks)
			job->has_pending |= threads_has_trap(job, &job->threads[i]);
		if (job->has_guards || job->sweep)
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

void janitor_spans_store(struct stop_job *job)
{
	for (size_t at = 0; at < job->count; at += STOP_GROUP)
		store_group(job, job->sites + at,
			    job->count - at < STOP_GROUP ? job->count - at : STOP_GROUP);
}

/*
 * Each pass lists the threads and seizes those that it has not seized yet. The passes end when one
 * finds no new thread and the kernel's count agrees: a listing ends early where a thread ends just
 * then (fs/proc/base.c, next_tid()). Then every thread is stopped, so none can start another.
 *
 * A thread that is about to take a signal stays there, and gets the signal when it continues: its
 * registers show what it was doing as well there as anywhere. A thread that SIGSTOP stopped stays
 * so. A thread that waits for the child of its vfork(2), which runs on our memory, can't be
 * stopped: then the time runs out, as it should.
 */

#define SPINS 100 /* looks before the first sleep: most stops come within 20 us */
#define STATUS_BYTES 1024
#define MASK_STATUS_BYTES 8192 /* it has all groups before the masks */
#define SLEEP_FIRST_NS 10000
#define SLEEP_LAST_NS 500000

struct entry { /* getdents64(2) */
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static uint32_t *slot_of(const struct stop_job *job, int32_t tid)
{
	uint32_t at = (uint32_t)tid * 2654435761u & job->slot_mask;

	while (job->slots[at] && job->threads[job->slots[at] - 1].tid != tid)
		at = (at + 1) & job->slot_mask;
	return &job->slots[at];
}

/* ---- why a thread can't be seized: /proc/PID/task/TID/status ---- */

static int has_prefix(const char *at, const char *prefix)
{
	while (*prefix) {
		if (*at++ != *prefix++)
			return 0;
	}
	return 1;
}

static const char *line_of(const char *text, const char *name)
{
	for (const char *at = text; *at; at++) {
		if ((at == text || at[-1] == '\n') && has_prefix(at, name))
			return at;
	}
	return NULL;
}

/*
 * The start of the thread's status in `text`, NUL-terminated; its state's letter, 0 if it is gone.
 */
static char read_status(const struct stop_job *job, int32_t tid, char *text, size_t bytes)
{
	unsigned int at;
	char path[32];
	const char *line;

	at = sizeof path;
	path[--at] = 0;
	for (const char *tail = "sutats/"; *tail; tail++)
		path[--at] = *tail;
	for (int32_t left = tid; left; left /= 10)
		path[--at] = (char)('0' + left % 10);
	kernel_read_text(job->tasks_fd, path + at, text, bytes);
	line = line_of(text, "State:\t");
	return line ? line[7] : 0;
}

static int why_not(struct stop_job *job, int32_t tid, int32_t listed, int error)
{
	char text[STATUS_BYTES], state = read_status(job, listed, text, sizeof text);
	const char *line;

	if (!state || state == 'Z' || state == 'X') {
		job->has_leader_ended |= tid == job->pid && state == 'Z';
		return 0;
	}
	line = line_of(text, "TracerPid:\t");
	return line && line[11] != '0' ? -WM_E_TRACED : error;
}

/*
 * Whether to stop waiting for a thread's stop: 0, -WM_E_STRICT, or 1 for a thread that has ended. A
 * thread that waits for a processor is not late, and stops before it runs on. A thread in an
 * uninterruptible sleep (D) may stay there for long. wait(2) reports nothing about a leader (Z)
 * before the last of its threads has ended.
 */
static int is_late(struct stop_job *job, const struct stopped *thread)
{
	char text[STATUS_BYTES], state;
	uint64_t now = lock_now_ns();

	if (now > job->deadline_ns)
		return -WM_E_STRICT;
	state = now > job->patience_ns ? read_status(job, thread->listed, text, sizeof text) : 0;
	if (state != 'Z' || thread->tid != job->pid)
		return state == 'D' ? -WM_E_STRICT : 0;
	job->has_leader_ended = 1;
	return 1;
}

/* A line of a thread's status that is a set of signals; all of them, if that can't be had. */
static uint64_t status_set(const struct stop_job *job, const struct stopped *thread,
			   const char *name)
{
	char text[MASK_STATUS_BYTES];
	const char *line;
	uint64_t set = 0;

	if (!read_status(job, thread->listed, text, sizeof text))
		return ~UINT64_C(0);
	line = line_of(text, name);
	for (line = line ? line + 8 : NULL; line && *line && *line != '\n'; line++)
		set = set << 4 | (uint64_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10);
	return line ? set : ~UINT64_C(0);
}

/* Whether it is under seccomp filters that our own threads are not under. */
static int threads_is_filtered(const struct stop_job *job, const struct stopped *thread)
{
	char text[MASK_STATUS_BYTES];
	const char *line;
	int32_t number = 0;

	if (!read_status(job, thread->listed, text, sizeof text))
		return 0;
	line = line_of(text, "Seccomp_filters:\t");
	for (line = line ? line + 17 : ""; *line >= '0' && *line <= '9'; line++)
		number = number * 10 + (*line - '0');
	return number > job->filters;
}

/*
 * Whether it is about to be given a SIGTRAP of its own, or in the handler of one. Any doubt counts.
 */
static int threads_has_trap(const struct stop_job *job, const struct stopped *thread)
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

/* ---- stopping ---- */

/*
 * The number of a thread in its own, innermost namespace: the last in its NSpid line. 0: it is
 * gone.
 */
static int32_t inner_number(const struct stop_job *job, int32_t listed)
{
	char text[STATUS_BYTES];
	const char *line;
	int32_t number = 0;

	if (!read_status(job, listed, text, sizeof text))
		return 0;
	line = line_of(text, "NSpid:");
	for (; line && *line && *line != '\n'; line++) {
		if (*line >= '0' && *line <= '9')
			number = number * 10 + (*line - '0');
		else
			number = 0;
	}
	return number;
}

static int seize(struct stop_job *job, int32_t tid, int32_t listed)
{
	uint32_t *slot = slot_of(job, tid);
	long error;

	if (*slot)
		return 0;
	if (job->thread_count == job->room)
		return -ENOBUFS;
	error = syscall_raw(SYS_ptrace, PTRACE_SEIZE, tid, 0, 0);
	if (error)
		return error == -ESRCH ? 0 : why_not(job, tid, listed, (int)error);
	job->threads[job->thread_count++] = (struct stopped){ .tid = tid, .listed = listed };
	*slot = job->thread_count;
	syscall_raw(SYS_ptrace, PTRACE_INTERRUPT, tid, 0, 0);
	return 0;
}

static int seize_listed(struct stop_job *job, long bytes, int *found_self)
{
	for (long at = 0; at < bytes;) {
		const struct entry *entry = (const struct entry *)(job->list + at);
		int32_t listed = 0, tid;
		int error;

		for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
			listed = listed * 10 + (*c - '0');
		at += entry->bytes;
		tid = listed && job->is_foreign_proc ? inner_number(job, listed) : listed;
		if (!tid)
			continue; /* "." and ".."; one that is gone */
		*found_self |= tid == job->tid;
		error = seize(job, tid, listed);
		if (error)
			return error;
	}
	return 0;
}

/* Seize all that are not yet, side by side. */
static int seize_all(struct stop_job *job)
{
	int error = 0, found_self = 0;
	long bytes;

	syscall_raw(SYS_lseek, job->tasks_fd, 0, SEEK_SET, 0);
	while (!error && (bytes = syscall_raw(SYS_getdents64, job->tasks_fd, (long)job->list,
					      sizeof job->list, 0)) > 0)
		error = seize_listed(job, bytes, &found_self);
	/* those would not be our threads */
	return error ? error : found_self ? 0 : -WM_E_NO_PTRACE;
}

static int wait_for(struct stop_job *job, struct stopped *thread)
{
	struct timespec pause = { .tv_nsec = SLEEP_FIRST_NS };

	for (unsigned int tries = 0;; tries++) {
		int status = 0;
		long got = syscall_raw(SYS_wait4, thread->tid, (long)&status, WNOHANG | __WALL, 0);
		int late;

		if (got == thread->tid && (status & 0xff) == 0x7f) {
			/* an event is a stop of ptrace's own; else a signal is to be delivered */
			thread->signal = status >> 16 ? 0 : status >> 8 & 0xff;
			thread->is_stopped = 1;
			return 0;
		}
		if (got == thread->tid || (got < 0 && got != -EINTR))
			return 0; /* it has ended */
		if (tries < SPINS)
			continue;
		late = is_late(job, thread);
		if (late)
			return late < 0 ? late : 0;
		syscall_raw(SYS_nanosleep, (long)&pause, 0, 0, 0);
		if (pause.tv_nsec < SLEEP_LAST_NS)
			pause.tv_nsec *= 2;
	}
}

/* By the number of links of /proc/PID/task: two, and one for each thread that there is. */
static int are_all_stopped(const struct stop_job *job)
{
	uint64_t count = (uint64_t)(job->has_leader_ended != 0);
	struct stat found;

	if (syscall_raw(SYS_fstat, job->tasks_fd, (long)&found, 0, 0))
		return 1;
	for (uint32_t i = 0; i < job->thread_count; i++)
		count += (uint64_t)(job->threads[i].is_stopped != 0);
	return (uint64_t)found.st_nlink <= count + 2;
}

/* Seize and stop every thread. 0, -WM_E_TRACED, -WM_E_STRICT, -EPERM, -ENOBUFS (room). */
static int threads_stop(struct stop_job *job)
{
	uint32_t waited = 0, before;
	int error;

	for (;;) {
		before = waited;
		error = seize_all(job);
		while (!error && waited < job->thread_count)
			error = wait_for(job, &job->threads[waited++]);
		if (error || (waited == before && are_all_stopped(job)))
			return error;
		if (waited == before && lock_now_ns() > job->patience_ns)
			return -WM_E_STRICT;
	}
}

/* Let all go that were seized. */
static void threads_resume(struct stop_job *job)
{
	/* those that are still on their way to a stop are let go by this process's end */
	for (uint32_t i = 0; i < job->thread_count; i++) {
		if (job->threads[i].is_stopped)
			syscall_raw(SYS_ptrace, PTRACE_DETACH, job->threads[i].tid, 0,
				    job->threads[i].signal);
	}
}
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
		janitor_spans_clear(job);
		janitor_spans_store(job);
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
