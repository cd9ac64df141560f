/* SPDX-License-Identifier: MIT */
/* The threads that a recording of processes is about, so that wakes of others can be left out. */
#ifndef RECORD_KERNEL_KERNEL_KNOWN_H
#define RECORD_KERNEL_KERNEL_KNOWN_H

#include <stddef.h>
#include <sys/types.h>

/* Zeroed it is empty. An open hash table, at most half full. */
struct known_threads {
	struct known_thread {
		pid_t tid, pid; /* tid 0: free */
		int has_ended;
	} * all;
	size_t count, room; /* a power of two, or 0 */
	pid_t *ended;
	size_t ended_count, ended_room;
};

/* Add it, or give it another pid. 0, -ENOMEM. */
int known_add(struct known_threads *threads, pid_t tid, pid_t pid);

/* Its pid, or 0: unknown. */
pid_t known_pid(const struct known_threads *threads, pid_t tid);

/* It has ended: it is removed with the others at known_sweep(), when its last wakes were read. */
void known_end(struct known_threads *threads, pid_t tid);
void known_sweep(struct known_threads *threads);

/*
 * A thread of the process executes a program. If it was not the first, it has ended, and is the
 * first from here on. Returns its tid so far, or 0: it was the first.
 */
pid_t known_exec(struct known_threads *threads, pid_t pid);

void known_release(struct known_threads *threads);

#endif
