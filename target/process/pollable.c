/* SPDX-License-Identifier: MIT */
#include "target/process/pollable.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

int pollable_new(struct pollable **pollable)
{
	struct pollable *new = malloc(sizeof(*new));
	int err;

	if (!new)
		return -ENOMEM;
	*new = (struct pollable){ .fd = epoll_create1(EPOLL_CLOEXEC), .timer = -1 };
	err = new->fd < 0 ? -errno : 0;
	if (!err) {
		new->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		err = new->timer < 0 ? -errno : pollable_add(new, new->timer);
	}
	if (err)
		pollable_free(new);
	else
		*pollable = new;
	return err;
}

void pollable_free(struct pollable *pollable)
{
	if (!pollable)
		return;
	if (pollable->timer >= 0)
		close(pollable->timer);
	if (pollable->fd >= 0)
		close(pollable->fd);
	free(pollable);
}

int pollable_add(struct pollable *pollable, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return pollable && epoll_ctl(pollable->fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void pollable_remove(struct pollable *pollable, int fd)
{
	if (pollable)
		epoll_ctl(pollable->fd, EPOLL_CTL_DEL, fd, &(struct epoll_event){ 0 });
}

void pollable_tick(struct pollable *pollable, int wanted)
{
	struct timespec period = { .tv_nsec = wanted ? POLLABLE_TICK_NS : 0 };

	if (!pollable || pollable->is_ticking == !!wanted)
		return;
	timerfd_settime(pollable->timer, 0, &(struct itimerspec){ period, period }, NULL);
	pollable->is_ticking = !!wanted;
}

void pollable_take(struct pollable *pollable)
{
	uint64_t ticks;

	if (pollable && pollable->is_ticking)
		(void)!read(pollable->timer, &ticks, sizeof(ticks)); /* EAGAIN: none yet */
}
