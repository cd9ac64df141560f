/* SPDX-License-Identifier: MIT */
/*
 * Each pass lists the threads and seizes those that it has not seized yet. The passes end when one
 * finds no new thread and the kernel's count agrees: a listing ends early where a thread ends just
 * then (fs/proc/base.c, next_tid()). Then every thread is stopped, so none can start another.
 */
#include "base/halt_threads.h"

#include "base/kernel.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <waymark/error.h>

#define SPINS 100 /* looks before the first sleep: most stops come within 20 us */
#define STATUS_BYTES 1024
#define NAME_BYTES 16
#define PATH_BYTES 32
#define SLEEP_FIRST_NS 10000
#define SLEEP_LAST_NS 500000

struct entry { /* getdents64(2) */
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Weak: a test counts the steps, and kills the caller between two. */
__attribute__((weak)) long halt_threads_ptrace(long request, int32_t tid, long data)
{
	return syscall_raw(SYS_ptrace, request, tid, 0, data);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	syscall_raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint32_t *slot_of(const struct halt_threads *halt, int32_t tid)
{
	uint32_t at = (uint32_t)tid * 2654435761u & halt->slot_mask;

	while (halt->slots[at] && halt->threads[halt->slots[at] - 1].tid != tid)
		at = (at + 1) & halt->slot_mask;
	return &halt->slots[at];
}

/* ---- /proc/PID/task/TID/status ---- */

const char *halt_threads_value(const char *text, const char *name)
{
	for (const char *at = text; *at; at++) {
		const char *want = name, *is = at;

		while (at == text || at[-1] == '\n') {
			if (!*want)
				return is;
			if (*is++ != *want++)
				break;
		}
	}
	return NULL;
}

/* The path of a thread's file, below the folder of tasks, at the end of `path`. */
static const char *path_of(int32_t listed, const char *file_reversed, char path[PATH_BYTES])
{
	unsigned int at = PATH_BYTES;

	path[--at] = 0;
	for (const char *tail = file_reversed; *tail; tail++)
		path[--at] = *tail;
	for (int32_t left = listed; left; left /= 10)
		path[--at] = (char)('0' + left % 10);
	return path + at;
}

char halt_threads_status(const struct halt_threads *halt, int32_t listed, char *text, size_t bytes)
{
	char path[PATH_BYTES];
	const char *state;

	kernel_read_text(halt->tasks_fd, path_of(listed, "sutats/", path), text, bytes);
	state = halt_threads_value(text, "State:\t");
	return state ? *state : 0;
}

/*
 * The number of a thread in its own, innermost namespace: the last in its NSpid line. 0: it is
 * gone.
 */
static int32_t inner_number(const struct halt_threads *halt, int32_t listed)
{
	char text[STATUS_BYTES];
	const char *at;
	int32_t number = 0;

	if (!halt_threads_status(halt, listed, text, sizeof text))
		return 0;
	at = halt_threads_value(text, "NSpid:");
	for (; at && *at && *at != '\n'; at++)
		number = *at >= '0' && *at <= '9' ? number * 10 + (*at - '0') : 0;
	return number;
}

/* ---- seizing ---- */

static int why_not(struct halt_threads *halt, int32_t tid, int32_t listed, int error)
{
	char text[STATUS_BYTES], state = halt_threads_status(halt, listed, text, sizeof text);
	const char *tracer;

	if (!state || state == 'Z' || state == 'X') {
		halt->has_leader_ended |= tid == halt->pid && state == 'Z';
		return 0;
	}
	tracer = halt_threads_value(text, "TracerPid:\t");
	return tracer && *tracer != '0' ? -WM_E_TRACED : error;
}

static int seize(struct halt_threads *halt, int32_t tid, int32_t listed)
{
	uint32_t *slot = slot_of(halt, tid);
	char path[PATH_BYTES];
	long error;

	if (*slot)
		return 0;
	if (halt->count == halt->room)
		return -ENOBUFS;
	error = halt_threads_ptrace(PTRACE_SEIZE, tid, 0);
	if (error)
		return error == -ESRCH ? 0 : why_not(halt, tid, listed, (int)error);
	halt->threads[halt->count++] = (struct halt_thread){ .tid = tid, .listed = listed };
	*slot = halt->count;
	halt_threads_ptrace(PTRACE_INTERRUPT, tid, 0);
	/* a thread that ended may have left its number to another process's; ours keeps it now */
	return syscall_raw(SYS_faccessat, halt->tasks_fd, (long)path_of(listed, "", path), F_OK, 0)
		       ? -EAGAIN
		       : 0;
}

static int seize_listed(struct halt_threads *halt, long bytes, int *found)
{
	for (long at = 0; at < bytes;) {
		const struct entry *entry = (const struct entry *)(halt->list + at);
		int32_t listed = 0, tid;
		int error;

		for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
			listed = listed * 10 + (*c - '0');
		at += entry->bytes;
		tid = listed && halt->is_foreign_proc ? inner_number(halt, listed) : listed;
		halt->has_kept |= tid && tid == halt->keep_tid;
		if (!tid || tid == halt->keep_tid)
			continue; /* "." and ".."; one that is gone */
		*found |= tid == halt->tid;
		error = seize(halt, tid, listed);
		if (error)
			return error;
	}
	return 0;
}

/* Seize all that are not yet, side by side. */
static int seize_all(struct halt_threads *halt)
{
	int error = 0, found = !halt->tid;
	long bytes;

	syscall_raw(SYS_lseek, halt->tasks_fd, 0, SEEK_SET, 0);
	do {
		bytes = syscall_raw(SYS_getdents64, halt->tasks_fd, (long)halt->list,
				    sizeof halt->list, 0);
		error = bytes < 0 && !halt->tid ? (int)bytes : seize_listed(halt, bytes, &found);
	} while (!error && bytes > 0);
	return error ? error : found ? 0 : -WM_E_NO_PTRACE;
}

/* ---- waiting ---- */

/*
 * Whether to stop waiting for a thread's stop: 0, -WM_E_STRICT, or 1 for a thread that has ended. A
 * thread that waits for a processor is not late, and stops before it runs on. A thread in an
 * uninterruptible sleep (D) may stay there for long. wait(2) reports nothing about a leader (Z)
 * before the last of its threads has ended.
 */
static int is_late(struct halt_threads *halt, const struct halt_thread *thread)
{
	char text[STATUS_BYTES], state;
	uint64_t now = now_ns();

	if (now > halt->deadline_ns)
		return -WM_E_STRICT;
	state = halt_threads_status(halt, thread->listed, text, sizeof text);
	if (state != 'Z' || thread->tid != halt->pid)
		return state == 'D' && now > halt->patience_ns ? -WM_E_STRICT : 0;
	halt->has_leader_ended = 1;
	return 1;
}

/*
 * As wait4(2), but what stopped the thread stays there (WNOWAIT): if the caller is killed, the
 * thread takes the signal that it was about to take. The first thread's end is left to who started
 * the process, which may be the caller: this would take it from there, too.
 */
static long look(const struct halt_threads *halt, int32_t tid, int *status)
{
	int ends = tid == halt->pid ? 0 : WEXITED;
	siginfo_t info;
	long error;

	info.si_pid = 0;
	error = syscall_raw6(SYS_waitid, P_PID, tid, (long)&info,
			     WSTOPPED | ends | WNOHANG | WNOWAIT | __WALL, 0, 0);
	if (error || !info.si_pid)
		return error;
	if (info.si_code != CLD_TRAPPED)
		return syscall_raw(SYS_wait4, tid, (long)status, WNOHANG | __WALL, 0);
	*status = info.si_status << 8 | 0x7f;
	if (info.si_status >> 8) /* ptrace's own, with no signal: no other thread is to see it */
		syscall_raw6(SYS_waitid, P_PID, tid, (long)&info, WSTOPPED | WNOHANG | __WALL, 0,
			     0);
	return tid;
}

static int wait_for(struct halt_threads *halt, struct halt_thread *thread)
{
	struct timespec pause = { .tv_nsec = SLEEP_FIRST_NS };

	for (unsigned int tries = 0;; tries++) {
		int status = 0;
		long got = look(halt, thread->tid, &status);
		int late;

		if (got == thread->tid && (status & 0xff) == 0x7f) {
			/* an event is a stop of ptrace's own; else a signal is to be delivered */
			thread->signal = status >> 16 ? 0 : status >> 8 & 0xff;
			thread->is_in_group_stop = status >> 16 && (status >> 8 & 0xff) != SIGTRAP;
			thread->is_stopped = 1;
			return 0;
		}
		if (got == thread->tid || (got < 0 && got != -EINTR)) {
			halt->has_leader_ended |= thread->tid == halt->pid;
			return 0; /* it has ended */
		}
		if (tries < SPINS)
			continue;
		late = is_late(halt, thread);
		if (late)
			return late < 0 ? late : 0;
		syscall_raw(SYS_nanosleep, (long)&pause, 0, 0, 0);
		if (pause.tv_nsec < SLEEP_LAST_NS)
			pause.tv_nsec *= 2;
	}
}

/* By the number of links of /proc/PID/task: two, and one for each thread that there is. */
static int are_all_stopped(const struct halt_threads *halt)
{
	uint64_t count = (uint64_t)(halt->has_leader_ended != 0) + (uint64_t)(halt->has_kept != 0);
	struct stat found;

	if (syscall_raw(SYS_fstat, halt->tasks_fd, (long)&found, 0, 0))
		return 1;
	for (uint32_t i = 0; i < halt->count; i++)
		count += (uint64_t)(halt->threads[i].is_stopped != 0);
	return (uint64_t)found.st_nlink <= count + 2;
}

int halt_threads_stop(struct halt_threads *halt)
{
	uint32_t waited = 0, before;
	int error;

	for (;;) {
		before = waited;
		error = seize_all(halt);
		while (!error && waited < halt->count)
			error = wait_for(halt, &halt->threads[waited++]);
		if (error || (waited == before && are_all_stopped(halt)))
			return error;
		if (waited == before && now_ns() > halt->patience_ns)
			return -WM_E_STRICT;
	}
}

void halt_threads_resume(const struct halt_threads *halt)
{
	for (uint32_t i = 0; i < halt->count; i++) {
		if (halt->threads[i].is_stopped)
			halt_threads_ptrace(PTRACE_DETACH, halt->threads[i].tid,
					    halt->threads[i].signal);
	}
}
