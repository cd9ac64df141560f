/* SPDX-License-Identifier: MIT */
/*
 * The names of threads at each time: from the kernel's events task:name, task:waker and task:fork,
 * and from the streams of threads.
 */
#ifndef READ_PASS_THREAD_NAMES_H
#define READ_PASS_THREAD_NAMES_H

#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

struct thread_name {
	uint32_t pid, tid;
	uint64_t from_ns;
	uint32_t parent_pid, parent_tid; /* of a fork: whose name it has; 0: no fork */
	char comm[17];			 /* "": unknown */
};

struct thread_names {
	struct thread_name *all; /* by pid, tid, time */
	size_t count, room;
};

/*
 * Read them all, in one pass over the kernel's streams. No stream of the reader may be open.
 * 0 or -ENOMEM; *names is released with thread_names_release() in any case.
 */
int thread_names_read(struct thread_names *names, struct trace_reader *reader);
void thread_names_release(struct thread_names *names);

/* The name at that time. NULL: unknown. */
const char *thread_names_find(const struct thread_names *names, uint32_t pid, uint32_t tid,
			      uint64_t ns);

#endif
