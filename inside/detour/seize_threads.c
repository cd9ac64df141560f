/* SPDX-License-Identifier: MIT */
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
#include "inside/detour/janitor_process.h"

#include "base/syscall.h"
#include "inside/detour/trap_book.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/seccomp_yield.h"

#include <waymark/error.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/wait.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
	long fd, got;

	at = sizeof path;
	path[--at] = 0;
	for (const char *tail = "sutats/"; *tail; tail++)
		path[--at] = *tail;
	for (int32_t left = tid; left; left /= 10)
		path[--at] = (char)('0' + left % 10);
	fd = syscall_raw(SYS_openat, job->tasks_fd, (long)(path + at), O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	got = syscall_raw(SYS_read, fd, (long)text, (long)bytes - 1, 0);
	syscall_raw(SYS_close, fd, 0, 0, 0);
	text[got > 0 ? got : 0] = 0;
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

int threads_is_filtered(const struct stop_job *job, const struct stopped *thread)
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

int threads_has_trap(const struct stop_job *job, const struct stopped *thread)
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

/* Those whose hits are to be looked at; the others run on. */
static int stop_some(struct stop_job *job)
{
	int error = 0;

	for (uint32_t i = 0; i < job->stranded->count && !error; i++)
		error = seize(job, job->stranded->of[i].tid, job->stranded->of[i].tid);
	for (uint32_t i = 0; i < job->thread_count && !error; i++)
		error = wait_for(job, &job->threads[i]);
	return error;
}

int threads_stop(struct stop_job *job)
{
	uint32_t waited = 0, before;
	int error;

	if (job->stranded)
		return stop_some(job);
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

void threads_resume(struct stop_job *job)
{
	/* those that are still on their way to a stop are let go by this process's end */
	for (uint32_t i = 0; i < job->thread_count; i++) {
		if (job->threads[i].is_stopped)
			syscall_raw(SYS_ptrace, PTRACE_DETACH, job->threads[i].tid, 0,
				    job->threads[i].signal);
	}
}
