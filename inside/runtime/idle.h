/* SPDX-License-Identifier: MIT */
/*
 * How the control thread rests until something comes for it.
 *
 * A signalfd that is polled wakes its thread for every signal that any thread of the process is
 * sent, not only for its own (fs/signalfd.c, signalfd_notify()). In a program that lives by signals
 * that is thousands of wakes a second for nothing. Then the thread sleeps on a word in memory,
 * which only those wake who want something of it, and looks at its descriptors twenty times a
 * second; as soon as there is something at one it sleeps on them again for a while, so that what is
 * said there is not slow.
 */
#ifndef INSIDE_RUNTIME_IDLE_H
#define INSIDE_RUNTIME_IDLE_H

#include <poll.h>

/* As many descriptors as are ever given. */
#define IDLE_FDS_MAX 16

/*
 * poll(2) of `count` descriptors, IDLE_FDS_MAX at most, those below 0 left out; one is a signalfd,
 * and `revents` are filled in. Waits wait_ms at most and may return earlier with nothing. Returns
 * how many are ready, 0 on any error. Control thread.
 */
int idle_poll(struct pollfd *fds, unsigned int count, int wait_ms);

/* End the rest, after the signal for it was sent. Any thread. */
void idle_wake(void);

/* Expect signals all the time, or no longer: watches report by signals. Control thread. */
void idle_expect_signals(int whether);

/* Whether other threads' signals have lately kept us from resting. Control thread. */
int idle_is_disturbed(void);

#endif
