/* SPDX-License-Identifier: MIT */
/* What samples.c, which reads samples, and samples_find.c share. */
#ifndef READ_HISTORY_SAMPLES_OWN_H
#define READ_HISTORY_SAMPLES_OWN_H

#include "read/history/samples.h"

struct samples_process {
	struct image *image; /* NULL: not asked for yet */
	struct functions functions;
};

struct samples_frame {
	uint64_t address;
	const struct image *image;	 /* of its process, then */
	const struct function *function; /* NULL: free */
};

#define SAMPLES_TID_SLOTS 65536u

/* The thread of an event at that time. 0 or -ENOMEM. */
int samples_thread_find(struct samples *samples, uint32_t pid, uint32_t tid, uint64_t ns,
			uint32_t *number);

/* The functions of a process. NULL: no memory. */
struct functions *samples_functions(struct samples *samples, uint32_t process);

/*
 * The function at an address of a process, at a time by the wall clock, and whose image has it.
 * NULL: no memory.
 */
const struct function *samples_function(struct samples *samples, uint32_t process, uint64_t address,
					uint64_t ns, uint32_t *whose);

/* The sum for such a sample. 0 or -ENOMEM. */
int samples_sum_find(struct samples *samples, const struct samples_sum *like, uint32_t *number);

#endif
