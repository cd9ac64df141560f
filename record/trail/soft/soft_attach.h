/* SPDX-License-Identifier: MIT */
/*
 * How an engine comes into a program that runs, and all its threads under it.
 *
 *   1. stopped   all threads, each on its way back to user mode: soft_threads.h
 *   2. mapped    one of them is borrowed (target/process/remote_thread.h) for the engine's file,
 * copied
 *                in, and the channel, a memfd of the process's own
 *   3. opened    the same thread has the engine make ready all that the program does not see
 *   4. taken     it gives the engine what is its own of the kernel, and is parked in it; then all
 *      others do, at once
 *   5. committed one of them gives the engine the process's signals; from here on they are all
 *      under it
 *   6. resumed   each continues in translated code; a thread that was in a system call is in it
 *      again,
 *                with the kernel to decide whether it restarts
 *
 * If a step fails, or the tool dies at any time, each thread continues natively from where it was
 * stopped; 5 is one step for all (inside/engine/attach.h). Unused memory is left behind then, which
 * the next attach unmaps.
 *
 * All calls come from one thread.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_ATTACH_H
#define RECORD_TRAIL_SOFT_SOFT_ATTACH_H

#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_threads.h"
#include "record/trail/soft/soft_image.h"

struct soft_attach {
	struct soft_threads stopped;
	struct engine_taken *taken; /* of each that is held */
	struct detail detail;
	/* a copy, checked; all 0: the engine has not begun */
	struct engine_places places;
	uint64_t engine, table; /* where they lie in the process */
	uint64_t engine_bytes;	/* of both */
	uint64_t channel_at;
	int32_t channel_fd; /* in the process, for the engine to close */
	int is_far;	    /* ENGINE_BOOT_FAR */
};

/*
 * 1 to 4. `channel` is opened with `sizes`, and `control` in it: both are the caller's to close. 0;
 * or a negative error with words about it: the process is as it was.
 */
int soft_attach_enter(struct soft_attach *attach, pid_t pid, struct soft_control *control,
		      struct soft_channel *channel, const struct soft_sizes *sizes,
		      const struct soft_image *image, struct detail detail);

/* 5 and 6. 0, or a negative error: it is as it was. Nothing is held afterwards. */
int soft_attach_go(struct soft_attach *attach, const struct soft_channel *channel);

/* 1 to 4, and back: 0, or why the process cannot be recorded. It is as it was. */
int soft_attach_try(pid_t pid, struct detail detail);

/* It is as it was. For one that did not go; nothing for any other. */
void soft_attach_undo(struct soft_attach *attach, const struct soft_channel *channel);

#endif
