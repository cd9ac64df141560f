/* SPDX-License-Identifier: MIT */
/*
 * All threads of a process that runs, stopped at once, each on its way back to user mode; and one
 * of them led through a piece of the engine (struct engine_places of abi/engine.h).
 *
 * All calls come from the thread that stopped them. When it ends they continue, as
 * target/process/remote_thread.h has it.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_THREADS_H
#define RECORD_TRAIL_SOFT_SOFT_THREADS_H

#include "abi/engine.h"
#include "target/process/remote_thread.h"
#include "target/process/target.h"

struct soft_threads {
	pid_t pid;
	struct remote_thread *threads; /* the first has a descriptor of the memory, and it alone */
	size_t count, room;
};

/* Stop them. 0; or a negative error with words about it: then none is. */
int soft_threads_stop(struct soft_threads *stopped, pid_t pid, unsigned int for_ms,
		      struct detail detail);

/* Let go of all that are still there, each as its loan says. */
void soft_threads_end(struct soft_threads *stopped);

/* How a thread is to enter. */
struct soft_way {
	uint64_t at, stack, first, second, third; /* three arguments */
	struct engine_channel *
		/*
		 * which the caller holds (soft_channel_hold()); NULL: it continues by itself at the
		 * end
		 */
		head;
};

/* Lead it there, up to where it is parked, and stop it. 0, -ESRCH where it has ended, -errno. */
int soft_threads_lead(struct remote_thread *thread, const struct soft_way *way);

/*
 * Several at once, each by a way of its own with the one head. The first error: some may be on
 * their way.
 */
int soft_threads_lead_all(struct remote_thread *threads, const struct soft_way *ways, size_t count);

/*
 * Whether an engine whose file is mapped there can have these places. They come from a channel,
 * which the process may write at any time: check a copy, and lead threads by that alone.
 */
int soft_threads_may_lead(const struct engine_places *places, uint64_t start, uint64_t bytes);

/* A parked thread continues by itself, once it is let go. */
void soft_threads_unpark(struct engine_channel *head);

#endif
