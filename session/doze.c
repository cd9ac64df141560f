/* SPDX-License-Identifier: MIT */
/*
 * Mostly nothing comes: so the kernel keeps the descriptors in one of epoll(7), which alone is waited on. It
 * only says whether there is something. Then, and where there is no such descriptor, all are asked in one
 * poll(2), whose answers are what counts: what the epoll descriptor still has of others, such as files that a
 * forked child holds open, costs time and nothing else.
 */
#include "session/doze.h"

#include "session/process.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static int is_watched(const struct process *process)
{
	return process->pidfd >= 0 && !process->dead && process->state != PROCESS_OVER;
}

/* Fill the list of descriptors to wait on. Returns how many, or -ENOMEM. */
static int poll_list(struct wm_session *session)
{
	size_t count = 0, at = 0;
	struct pollfd *list;

	for (struct listener *l = session->listeners; l; l = l->next)
		count++;
	for (struct process *p = session->processes; p; p = p->next)
		count += 2;
	count += live_waits(session, NULL, 0);
	list = realloc(session->polls, (count + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	session->polls = list;
	for (struct listener *l = session->listeners; l; l = l->next)
		list[at++] = (struct pollfd){ .fd = l->fd, .events = POLLIN };
	for (struct process *p = session->processes; p; p = p->next) {
		if (p->link.fd >= 0)
			list[at++] = (struct pollfd){ .fd = p->link.fd, .events = POLLIN };
		if (is_watched(p))
			list[at++] = (struct pollfd){ .fd = p->pidfd, .events = POLLIN };
	}
	return (int)(at + live_waits(session, list + at, count - at));
}

/* Nothing is known: each is to be asked. */
static void poll_forget(struct wm_session *session)
{
	for (struct listener *l = session->listeners; l; l = l->next)
		l->is_still = 0;
	for (struct process *p = session->processes; p; p = p->next)
		p->is_alive = p->is_still = 0;
}

/* Keep what the wait has said of each descriptor, in poll_list()'s order; NULL: there was nothing. */
static void poll_keep(struct wm_session *session, const struct pollfd *list)
{
	for (struct listener *l = session->listeners; l; l = l->next)
		l->is_still = !list || !(list++)->revents;
	for (struct process *p = session->processes; p; p = p->next) {
		int linked = p->link.fd >= 0, watched = is_watched(p);

		p->is_alive = watched && (!list || !list[linked].revents);
		/* what a dead process has sent is all there, but may have come after its link was looked at */
		p->is_still = linked && (!list || !list[0].revents) && (!watched || p->is_alive) &&
			      !p->unread;
		if (list)
			list += linked + watched;
	}
}

/*
 * See to it that the epoll descriptor has this one, or hasn't; `had` is what it has. Closing takes it out as
 * well. Negative when that can't be.
 */
static int gather(int epoll, int fd, int wanted, int *had)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (wanted && *had != fd && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return -errno;
	if (!wanted && *had >= 0 && *had == fd)
		epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &event);
	*had = wanted ? fd : -1;
	return 0;
}

/* The epoll descriptor with all that poll_list() would have; negative when that can't be. */
static int epoll_gathered(struct wm_session *session)
{
	int err = 0;

	if (session->epoll < 0)
		session->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->epoll < 0)
		return -errno;
	for (struct listener *l = session->listeners; l && !err; l = l->next)
		err = gather(session->epoll, l->fd, 1, &l->gathered);
	for (struct process *p = session->processes; p && !err; p = p->next) {
		err = gather(session->epoll, p->link.fd, p->link.fd >= 0, &p->gathered[0]);
		if (!err)
			err = gather(session->epoll, p->pidfd, is_watched(p), &p->gathered[1]);
	}
	return err ? err : session->epoll;
}

void session_doze(struct wm_session *session, uint64_t wait_ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(wait_ns / 1000000000u),
				    .tv_nsec = (long)(wait_ns % 1000000000u) };
	/* trails come and go, and are few: they are not in the epoll descriptor */
	struct pollfd any = { .fd = live_waits(session, NULL, 0) ? -1 : epoll_gathered(session),
			      .events = POLLIN };
	int count;

	if (any.fd >= 0 && ppoll(&any, 1, &timeout, NULL) == 0) {
		poll_keep(session, NULL);
		return;
	}
	count = poll_list(session);
	if (count < 0 || ppoll(session->polls, (nfds_t)count, &timeout, NULL) < 0)
		poll_forget(session);
	else
		poll_keep(session, session->polls);
}
