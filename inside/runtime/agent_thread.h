/* SPDX-License-Identifier: MIT */
/*
 * The control thread among the program's own: descriptors, signals, and whether it is left alone.
 */
#ifndef INSIDE_RUNTIME_AGENT_THREAD_H
#define INSIDE_RUNTIME_AGENT_THREAD_H

/*
 * The control thread waits in poll(2) on descriptors that only it has, so what wakes it is a
 * signal, blocked and read from a signalfd. It is the number that glibc keeps for pthread_cancel
 * (and blocks nowhere else): only ever sent to single threads, so none of the program's can be
 * taken by us.
 */
#define THREAD_WAKE_SIGNAL 32

/* From here on this thread has a descriptor table of its own, which is empty. 0 or -errno. */
int agent_thread_unshare_descriptors(void);

/* All but setxid's. */
void agent_thread_block_signals(void);

/* A descriptor that can be read once THREAD_WAKE_SIGNAL was sent to this thread; or an error. */
int agent_thread_wake_fd(void);

/* Whether all threads of the program but the agent's are gone. */
int agent_thread_is_last(void);

#endif
