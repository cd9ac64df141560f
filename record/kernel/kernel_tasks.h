/* SPDX-License-Identifier: MIT */
/*
 * The processes that the kernel's events are about, as the trace needs them: which files lay where
 * when an address was recorded. A process of the session is in the trace already; it gets its
 * modules here if its agent does not report them. Others are put into the trace when they are met
 * first. Their maps come from /proc, and from the kernel's records of new mappings, so that one
 * that ended at once has them too.
 *
 * Also gathers the kernel's addresses, to name them at the end. One thread at a time.
 */
#ifndef RECORD_KERNEL_KERNEL_TASKS_H
#define RECORD_KERNEL_KERNEL_TASKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel_tasks;
struct sampler_record;
struct callstack_thread;
struct wm_session;

#define KERNEL_TASKS_MAX 4096u /* processes that the trace gets this way */

/* 0 or -ENOMEM. Free allows NULL. */
int kernel_tasks_new(struct kernel_tasks **tasks, struct wm_session *session);
void kernel_tasks_free(struct kernel_tasks *tasks);

/* All below allow NULL. What can't be written is the session's trace_error. */

/*
 * Read its mappings now, while it lives. The kernel's records have the later ones. A short program
 * ends before its first record is read.
 */
void kernel_tasks_follow(struct kernel_tasks *tasks, pid_t pid);

/* An address of this process, or of the kernel, is about to be recorded. 0: none. */
void kernel_tasks_meet(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns, uint64_t address);

/*
 * Of an address that was met: where the program is when a thread is there, or returns there, if
 * `is_caller`. Another one for code that Waymark has moved (task_moved.h) or translated
 * (task_engine.h); 0: it is no place of the program's.
 */
uint64_t kernel_tasks_place(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns,
			    uint64_t address, int is_caller);

/* Detours of the process are about to be run. */
void kernel_tasks_moved(struct kernel_tasks *tasks, pid_t pid);

/*
 * The frames of a thread of a process that was met, as callstack_frames(). 0: they can't be had.
 */
size_t kernel_tasks_unwind(struct kernel_tasks *tasks, pid_t pid, uint64_t time_ns,
			   const struct callstack_thread *thread, uint64_t *frames, size_t most,
			   int *is_cut);

/*
 * Of a record of SAMPLER_EXIT: the thread has not ended; it executes a program with more
 * privileges.
 */
int kernel_tasks_is_privileged(const struct kernel_tasks *tasks,
			       const struct sampler_record *record);

/* A record of SAMPLER_MMAP, _COMM, _FORK or _EXIT. */
void kernel_tasks_take(struct kernel_tasks *tasks, const struct sampler_record *record);

/* Give processes their modules that the session has since put into the trace. */
void kernel_tasks_attend(struct kernel_tasks *tasks);

/* Take over the kernel's addresses of those before, whose events have ended. */
void kernel_tasks_continue(struct kernel_tasks *tasks, struct kernel_tasks *before);

/* Write the names of the kernel's addresses. Once, at the end. */
void kernel_tasks_end(struct kernel_tasks *tasks);

/* How many processes were met that the trace has no place for. */
uint64_t kernel_tasks_refused(const struct kernel_tasks *tasks);

#endif
