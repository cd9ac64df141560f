/* SPDX-License-Identifier: MIT */
/*
 * A descriptor that a caller's event loop polls: epoll(7) over descriptors, and a timer for what no
 * descriptor reports, such as events in shared memory. NULL is allowed everywhere: then no caller
 * has asked for one.
 */
#ifndef TARGET_PROCESS_POLLABLE_H
#define TARGET_PROCESS_POLLABLE_H

/*
 * Between two ticks. It is also the longest time that the internal wait sleeps (SESSION_IDLE_NS_MAX
 * of record/session/session.h).
 */
#define POLLABLE_TICK_NS 10000000

struct pollable {
	int fd; /* the caller's */
	int timer;
	int is_ticking;
};

/* 0, -ENOMEM, or -errno of epoll_create1(2), timerfd_create(2), epoll_ctl(2). */
int pollable_new(struct pollable **pollable);
void pollable_free(struct pollable *pollable);

/*
 * 0, or -errno. Before a descriptor is closed it must be removed: a forked child may have it too.
 */
int pollable_add(struct pollable *pollable, int fd);
void pollable_remove(struct pollable *pollable, int fd);

/* Make it readable every POLLABLE_TICK_NS, or no longer. */
void pollable_tick(struct pollable *pollable, int wanted);

/* Take the tick: from here on it is readable by its descriptors alone, until the next one. */
void pollable_take(struct pollable *pollable);

#endif
