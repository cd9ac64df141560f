/* SPDX-License-Identifier: MIT */
/*
 * Stop every thread of a process by ptrace(2), and let all go. The caller is no thread of that
 * process. All calls come from one thread; when that ends, the kernel lets the threads go. Compiled
 * for the hit path, too: no libc, no vector register.
 *
 * A thread that is about to take a signal stays there, and gets the signal when it continues, also
 * if the caller is killed: its registers show what it was doing as well there as anywhere. A thread
 * that SIGSTOP stopped stays so. A thread that waits for the child of its vfork(2), which runs on
 * its memory, can't be stopped: then the time runs out, as it should.
 */
#ifndef BASE_HALT_THREADS_H
#define BASE_HALT_THREADS_H

#include <stddef.h>
#include <stdint.h>

#define HALT_LIST_BYTES 32768u

/* A thread that was seized. */
struct halt_thread {
	int32_t tid;
	int32_t listed; /* its number in /proc, which may be another pid namespace's */
	int32_t signal; /* that was about to be delivered: it continues with it */
	uint8_t is_stopped;
	uint8_t is_in_group_stop; /* SIGSTOP or the like holds the process */
};

struct halt_threads {
	/* given */
	int32_t pid;		     /* the process's */
	int32_t tid;		     /* one that must be among its threads; 0: none */
	int32_t keep_tid;	     /* one that is to run on; 0: none */
	int32_t tasks_fd;	     /* /proc/PID/task */
	int32_t is_foreign_proc;     /* the numbers in it are those of an outer pid namespace */
	uint64_t patience_ns;	     /* for threads that sleep uninterruptibly, CLOCK_MONOTONIC */
	uint64_t deadline_ns;	     /* for those that wait for a processor */
	struct halt_thread *threads; /* room for `room` */
	uint32_t *slots; /* zeroed: slot_mask + 1, at least twice `room`, a power of two */
	uint32_t room, slot_mask;
	/* out */
	uint32_t count;		  /* of threads that were seized */
	int32_t has_leader_ended; /* by itself: a zombie that is listed while there are others */
	int32_t has_kept;	  /* keep_tid is among the threads */
	char list[HALT_LIST_BYTES] __attribute__((aligned(8))); /* of getdents64(2) */
};

/*
 * Seize and stop all. 0, or an error: -WM_E_TRACED, -WM_E_STRICT (one could not be stopped in
 * time), -WM_E_NO_PTRACE (that is another process's folder), -EPERM, -ENOBUFS (there is no room),
 * -EAGAIN, -ENOENT (the process is gone). After either, halt_threads_resume().
 */
int halt_threads_stop(struct halt_threads *halt);

/* Let all go that stopped. Those still on their way to a stop are let go by the caller's end. */
void halt_threads_resume(const struct halt_threads *halt);

/* ptrace(2), for what both do. 0 or -errno. */
long halt_threads_ptrace(long request, int32_t tid, long data);

/*
 * The start of a thread's /proc/PID/task/TID/status, NUL-terminated, by its number there; its
 * state's letter, 0 if it is gone. And what follows `name` at the begin of a line of it; NULL.
 */
char halt_threads_status(const struct halt_threads *halt, int32_t listed, char *text, size_t bytes);
const char *halt_threads_value(const char *text, const char *name);

#endif
