/* SPDX-License-Identifier: MIT */
/*
 * What is known of a process from outside, and whether the tool can attach to it.
 */
#ifndef TARGET_PROCESS_TARGET_H
#define TARGET_PROCESS_TARGET_H

#include "base/detail.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct target {
	pid_t pid;	 /* of the process, also where a thread was named */
	pid_t live_tid;	 /* a thread that has not ended; the leader may have */
	pid_t inner_pid; /* as the process itself sees it, in its pid namespace */
	pid_t ppid, tracer_pid;
	uid_t uid;	     /* effective */
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	unsigned int threads;
	unsigned int seccomp; /* 0 none, 1 strict, 2 filter */
	char state;	      /* 'R', 'S', 'D', 'T', 't', 'Z' */
	char comm[64];
	char exe[4096]; /* "" for a kernel thread, or when it may not be read */
};

/* Fill in. 0, -ESRCH when it does not exist or ended meanwhile, -errno. */
int target_read(struct target *target, pid_t pid);

/* Whether it was over then: the leader, and no other thread lived on. */
int target_has_ended(const struct target *target);

/*
 * A file under live_tid was not there, as that thread may have ended since: fill in again. Returns
 * whether there is another thread to look at; 0 where the leader lives, or the process has ended.
 */
int target_renew(struct target *target);

#define TARGET_RENEWALS                                                                            \
	20 /* that many are worth a try, in a process whose threads end all the time */

/*
 * Nothing is touched: would an agent be loaded into it? 0 or the cause, with words about it:
 * -ESRCH, -EPERM, -WM_E_GONE, -WM_E_TRACED, -WM_E_STOPPED, -WM_E_SECCOMP, -WM_E_FOREIGN_ARCH,
 * -WM_E_STATIC_PROGRAM, -WM_E_FOREIGN_LIBC, -EINVAL for ourselves and for a kernel thread.
 */
int target_check(const struct target *target, struct detail detail);

/*
 * Words for EPERM: its user, our user, and what else forbids it. Returns -EPERM; -WM_E_GONE if it
 * was just ending.
 */
int target_denied(const struct target *target, struct detail detail);

/*
 * Nothing is touched: would ptrace(2) take its threads, for now? 0, or the cause with words about
 * it: -EPERM, -WM_E_GONE, -WM_E_TRACED, -EINVAL for ourselves.
 */
int target_may_trace(const struct target *target, struct detail detail);

/*
 * Whether we may change its memory: ptrace(2) does not distinguish that from "traced already". 0,
 * -EPERM, -WM_E_GONE.
 */
int target_access(const struct target *target, struct detail detail);

/* Whether it is valgrind, in whose memory, and under whose process number, another program runs. */
int target_is_valgrind(const struct target *target);

/*
 * 0: the process may not trace its own threads, as it lacks CAP_SYS_PTRACE and is not dumpable.
 * prctl(2) has PR_SET_DUMPABLE; the kernel clears it when a process changes its user, and does not
 * show it of root's processes.
 */
int target_may_stop_itself(const struct target *target);

/* Whether it may, or we may do so for it (record/session/stopper.h). */
int target_may_be_stopped(const struct target *target);

/*
 * Whether a thread still has its memory. One that ends gives it up before its state says so; from
 * then on the kernel shows its files to root alone, as it does those of a process that we may not
 * trace.
 */
int target_has_memory(pid_t tid);

/* The number of a line "NAME:\tNUMBER" in /proc/PID/status; the last of several. -1: not there. */
long target_status_number(pid_t tid, const char *name);

/*
 * A value of /proc/TID/auxv, also of a program of 32 bits; `type` is AT_... 1; 0: not there; or why
 * the file can't be opened.
 */
int target_auxv(pid_t tid, uint64_t type, uint64_t *value);

/* A mask of signals in it, by its name there: "SigBlk", "SigCgt"; 0 if it can't be read. */
uint64_t target_status_mask(pid_t tid, const char *name);

/* A thread's name, which has 15 bytes at most; "" where it has ended. */
void target_comm(pid_t pid, pid_t tid, char comm[16]);

/*
 * Whether a thread has a child that it has not waited for; also where the kernel does not list
 * them.
 */
int target_has_child(pid_t pid, pid_t tid);

/*
 * Why the agent's start failed with this error, where the process has rules or limits that explain
 * it; else "". Static.
 */
const char *target_refusal(pid_t pid, int error);

/*
 * Words for EAGAIN, where the process could not start a thread: which limit is reached. Returns
 * detail_set()'s `error`.
 */
int target_thread_limit(const struct target *target, int error, struct detail detail);

/*
 * A limit by its name in /proc/TID/limits, as "Max open files", in that file's unit; UINT64_MAX:
 * unlimited, or not to be read. prlimit(2) needs CAP_SYS_RESOURCE for another user's process.
 */
uint64_t target_limit(pid_t tid, const char *name);

/*
 * About how many more threads its RLIMIT_NPROC and the pids.max of its cgroup allow; UINT64_MAX
 * where neither is known to bind.
 */
uint64_t target_threads_left(const struct target *target);

/* Whether its RLIMIT_NPROC certainly leaves no room for the agent's two threads. */
int target_lacks_threads(const struct target *target);

/* How many seccomp filters a thread is under; before Linux 5.9, whether it is under any. */
long target_filters(pid_t tid);

/* The state of a thread as one letter, 0 when it has ended. */
char target_thread_state(pid_t pid, pid_t tid);

/* Whether a thread in such a state is yet to end. */
int target_state_lives(char state);

/* Since the thread began; Documentation/scheduler/sched-stats.rst of the kernel. */
struct target_times {
	uint64_t ran_ns, waited_ns; /* on a processor; ready to run, without one */
};

/* 0; or a negative errno where it is gone, or the kernel keeps no such statistics. */
int target_thread_times(pid_t pid, pid_t tid, struct target_times *times);

/*
 * How often all threads of a process together were put off the CPU. While it stays the same, none
 * has begun to run; one may have gone on running.
 */
uint64_t target_switches(pid_t pid);

/*
 * Whether some thread of the process can open no more than `most` files. The agent's own have
 * tables of their own, and the same limit.
 */
int target_lacks_descriptors(pid_t pid, unsigned int most);

/* The parent of a process, 0 when it has ended. */
pid_t target_parent(pid_t pid);

/* Whether it is a thread of the kernel's own, which has no program. */
int target_is_kernels(pid_t tid);

/* Whether it has a program, whose memory and environment execve(2) has set up. */
int target_has_program(pid_t tid);

/* Whether a thread is in the kernel's exit code, or a zombie. */
int target_is_exiting(pid_t tid);

/*
 * When a process or thread began: field 22 of its stat; 0 when it has ended, or we may not see it.
 */
uint64_t target_start_time(pid_t tid);

/* Field `want` of /proc/TID/stat, past the second; 0 where it can't be read. */
uint64_t target_stat_field(pid_t tid, int want);

/*
 * Where the first thread's stack began, with its arguments. 0: the kernel does not report it, or
 * not to us.
 */
uint64_t target_first_stack(pid_t tid);

/* All processes that we may see. Returns how many, or an error as above. free() *pids. */
int target_processes(pid_t **pids);

/* A thread's descriptors, by number. Returns how many, or why we may not see them. free() them. */
int target_descriptors(pid_t tid, int **numbers);

/*
 * Whether a descriptor's link in /proc/TID/fd reads so, in fewer than 64 bytes; the first one's
 * number, -ENOENT, or an error as above.
 */
int target_descriptor_is(pid_t tid, int number, const char *link);
int target_descriptor_find(pid_t tid, const char *link);

/*
 * The threads of a process, in the order of their start. Returns how many, or an error as above.
 * free() *tids.
 */
int target_threads(pid_t pid, pid_t **tids);

/*
 * Whether these were all of its threads, at a moment during the call. A listing may lack some: the
 * kernel ends it early at a thread that ends meanwhile (fs/proc/base.c, next_tid()).
 */
int target_threads_are(pid_t pid, const pid_t *tids, int count);

/*
 * Read memory of a process, also if its main thread has ended. 0; -ESRCH: the process has ended;
 * -EFAULT: not all of these bytes are there; or another -errno.
 */
int target_memory(pid_t pid, uint64_t address, void *to, size_t bytes);

#endif
