/* SPDX-License-Identifier: MIT */
/*
 * A thread's words: which segment of the channel its pointer goes through, and events among them.
 * Only the thread itself, in the engine or in a handler of the engine's.
 */
#ifndef INSIDE_ENGINE_THREAD_WORDS_H
#define INSIDE_ENGINE_THREAD_WORDS_H

#include "inside/engine/engine_thread.h"

/*
 * Take a slot for the thread, and begin its first segment: thread->pointer is set. Where none is
 * free, what it does is not kept. 0, or -ENOMEM.
 */
int thread_words_open(struct thread *thread);

/* In a forked child, which has a channel of its own: no guard is there yet. */
void thread_words_copied(void);

/* The same, with what it does not kept. */
int thread_words_open_unkept(struct thread *thread);

/* The thread is over, or leaves the engine: all that it wrote, up to thread->pointer, is there. */
void thread_words_close(struct thread *thread);

/*
 * The same for a thread whose trail ends here, while it continues in translated code. 0, or
 * -ENOMEM: it continues with its trail.
 */
int thread_words_forget(struct thread *thread);

/* The same for a thread that continues natively. */
void thread_words_leave(struct thread *thread);

/* thread->pointer is at its segment's end, or what comes has no room there. */
void thread_words_turn(struct thread *thread);

/* Whether an address is one that a thread meets at its segment's end. */
int thread_words_is_guard(const struct thread *thread, uint64_t address);

void thread_words_event(struct thread *thread, enum trail_event event, uint64_t at, uint32_t left,
			uint64_t first, uint64_t second);

/* Remove the last event, which nothing follows. */
void thread_words_take_back(struct thread *thread);

/* The word before thread->pointer: the id of the exit that was taken. */
static inline uint32_t ring_last(const struct thread *thread)
{
	return ((const uint32_t *)thread->pointer)[-1];
}

#endif
