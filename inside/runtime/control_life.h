/* SPDX-License-Identifier: MIT */
/*
 * What all of the agent must know of its two threads: whether there is a control thread, how to
 * wake it, who its keeper is. control/control_thread.c starts and ends them.
 */
#ifndef INSIDE_RUNTIME_CONTROL_LIFE_H
#define INSIDE_RUNTIME_CONTROL_LIFE_H

#include "inside/runtime/lock.h"

#include <stdint.h>

enum control_state { CONTROL_NONE = 0, CONTROL_STARTING, CONTROL_RUNNING };

extern struct control_life {
	struct lock lock; /* guards what follows, and that tid is alive while it is held */
	enum control_state state;
	int32_t tid;
	int seccomp; /* the mode in which the thread was started */
} control_life;

/* The tid of its keeper, the agent's other thread; 0: none yet. Control thread. */
extern int32_t control_keeper;

/*
 * The control thread waits in poll(2) on descriptors that only it has, so what wakes it is a
 * signal, blocked and read from a signalfd. It is the number that glibc keeps for pthread_cancel
 * (and blocks nowhere else): only ever sent to single threads, so none of the program's can be
 * taken by us.
 */
#define THREAD_WAKE_SIGNAL 32

/* Whether there is one. */
int control_runs(void);

/* Have it look at what was asked. Returns whether there is one. Any thread. */
int control_wake(void);

/* Likewise, by who holds the lock. */
void control_wake_locked(void);

/* Whether a seccomp filter was put in place since the last control thread started. */
int control_is_filtered_since(void);

/* From here on this thread has a descriptor table of its own, which is empty. 0 or -errno. */
int control_unshare_descriptors(void);

/* Block all of this thread's signals but setxid's. */
void control_block_signals(void);

/* A descriptor that can be read once THREAD_WAKE_SIGNAL was sent to this thread; or an error. */
int control_wake_fd(void);

/* Whether all threads of the program but the agent's are gone. */
int control_is_last(void);

#endif
