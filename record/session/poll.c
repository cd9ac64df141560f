/* SPDX-License-Identifier: MIT */
/*
 * Most steps find nothing. So the session keeps its descriptors in one epoll(7) descriptor and
 * waits for that one. If it is ready or can't be made, one poll(2) asks all descriptors, and only
 * those answers count. The epoll descriptor may still have closed files that a forked child holds
 * open. That costs time, but does no harm.
 */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "target/process/call.h"
#include "target/process/pollable.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_watched(const struct process *process)
{
	return process->pidfd >= 0 && !process->dead && process->state != PROCESS_OVER;
}

/* Fill in session->polls, with session->wake last. Returns how many there are, or -ENOMEM. */
static int poll_list(struct wm_session *session)
{
	size_t count = 0, at = 0;
	struct pollfd *list;

	for (struct listener *l = session->listeners; l; l = l->next)
		count++;
	for (struct process *p = session->processes; p; p = p->next)
		count += 2;
	count += sources_wait(session, NULL, 0);
	list = realloc(session->polls, (count + 1) * sizeof(*list)); /* and session->wake */
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
	at += sources_wait(session, list + at, count - at);
	list[at] = (struct pollfd){ .fd = session->wake, .events = POLLIN };
	return (int)at + 1;
}

/* Nothing is known: the step has to ask each. */
static void poll_forget(struct wm_session *session)
{
	for (struct listener *l = session->listeners; l; l = l->next)
		l->is_still = 0;
	for (struct process *p = session->processes; p; p = p->next)
		p->is_alive = p->is_still = 0;
}

/* Keep the result for each descriptor, in poll_list()'s order; NULL: none was ready. */
static void poll_keep(struct wm_session *session, const struct pollfd *list)
{
	for (struct listener *l = session->listeners; l; l = l->next)
		l->is_still = !list || !(list++)->revents;
	for (struct process *p = session->processes; p; p = p->next) {
		int linked = p->link.fd >= 0, watched = is_watched(p);

		p->is_alive = watched && (!list || !list[linked].revents);
		/* the poll may have seen the link before the dying process's last message */
		p->is_still = linked && (!list || !list[0].revents) && (!watched || p->is_alive) &&
			      !p->unread;
		if (list)
			list += linked + watched;
	}
}

/*
 * Add `fd` to the epoll descriptor, or remove it; *had is the descriptor that it has, or -1.
 * Closing a descriptor removes it too. Returns 0 or -errno.
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

static int epoll_new(struct wm_session *session)
{
	int had = -1, err;

	session->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (session->epoll < 0)
		return -errno;
	err = gather(session->epoll, session->wake, 1, &had);
	if (err) {
		close(session->epoll);
		session->epoll = -1;
	}
	return err;
}

/* Return the epoll descriptor, with all that poll_list() would have; or a negative error. */
static int epoll_gathered(struct wm_session *session)
{
	int err = session->epoll < 0 ? epoll_new(session) : 0;

	for (struct listener *l = session->listeners; l && !err; l = l->next)
		err = gather(session->epoll, l->fd, 1, &l->gathered);
	for (struct process *p = session->processes; p && !err; p = p->next) {
		err = gather(session->epoll, p->link.fd, p->link.fd >= 0, &p->gathered[0]);
		if (!err)
			err = gather(session->epoll, p->pidfd, is_watched(p), &p->gathered[1]);
	}
	return err ? err : session->epoll;
}

/* As epoll_gathered(); also put the descriptor into the caller's, if there is one. */
static int gather_all(struct wm_session *session)
{
	int epoll = epoll_gathered(session);

	if (session->pollable && session->epoll >= 0 && session->pollable_epoll != session->epoll &&
	    !pollable_add(session->pollable, session->epoll))
		session->pollable_epoll = session->epoll;
	return epoll;
}

/*
 * The epoll descriptor is ready, but nothing has come: it has a file that was closed here and that
 * a forked child holds open. A caller's event loop would spin. So make a new one.
 */
static void drop_stale(struct wm_session *session)
{
	struct pollfd any = { .fd = session->epoll, .events = POLLIN };

	if (!session->pollable || session->epoll < 0 || poll(&any, 1, 0) <= 0)
		return;
	pollable_remove(session->pollable, session->epoll);
	session->pollable_epoll = -1;
	close(session->epoll);
	session->epoll = -1;
	for (struct listener *l = session->listeners; l; l = l->next)
		l->gathered = -1;
	for (struct process *p = session->processes; p; p = p->next)
		p->gathered[0] = p->gathered[1] = -1;
	gather_all(session);
}

/* A signal handler has run. The program may want to look at what it did, so end the wait. */
static int was_interrupted(struct wm_session *session, int ready)
{
	if (ready >= 0 || errno != EINTR)
		return 0;
	session->is_woken = 1;
	return 1;
}

/* Consume the wake, so that later calls of wm_session_wake() end the next wait. */
static void take_wake(struct wm_session *session)
{
	uint64_t count;

	if (read(session->wake, &count, sizeof(count)) > 0)
		session->is_woken = 1;
}

void session_poll(struct wm_session *session, uint64_t wait_ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(wait_ns / 1000000000u),
				    .tv_nsec = (long)(wait_ns % 1000000000u) };
	/* trails come and go and are few, so they are not in the epoll descriptor */
	int has_trails = sources_wait(session, NULL, 0) > 0;
	struct pollfd any = { .fd = has_trails && !session->pollable ? -1 : gather_all(session),
			      .events = POLLIN };
	int count, ready;

	any.fd = has_trails ? -1 : any.fd;
	if (any.fd >= 0) {
		ready = ppoll(&any, 1, &timeout, NULL);
		if (ready == 0) {
			poll_keep(session, NULL);
			return;
		}
		if (was_interrupted(session, ready))
			timeout = (struct timespec){ 0 };
	}
	count = poll_list(session);
	ready = count < 0 ? -1 : ppoll(session->polls, (nfds_t)count, &timeout, NULL);
	if (count >= 0)
		was_interrupted(session, ready);
	if (ready < 0) {
		poll_forget(session);
		return;
	}
	poll_keep(session, session->polls);
	if (session->polls[count - 1].revents)
		take_wake(session);
	if (!ready)
		drop_stale(session);
}

/* ---- a caller waits ---- */

void session_pollable_update(struct wm_session *session)
{
	if (!session->pollable)
		return;
	/* without a process that has ended, which would stay readable */
	gather_all(session);
	pollable_take(session->pollable);
	if (session_awaited(session))
		session->is_end_told = 0;
	pollable_tick(session->pollable, (session->running && !session->is_end_told) ||
						 session->is_woken || session_has_unread(session));
}

int wm_session_fd(struct wm_session *session)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = session_call_refused(session);

	if (err)
		return err;
	if (!session->pollable) {
		err = pollable_new(&session->pollable);
		if (err)
			return session_fail(session, err, "a descriptor to poll");
		session->pollable_epoll = -1;
		session_pollable_update(session);
	}
	return session->pollable->fd;
}

int wm_session_wait(struct wm_session *session, int timeout_ms)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int got = session_call_refused(session), alive;
	uint64_t until;

	if (got)
		return got;
	until = ticks_monotonic_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
	do {
		uint64_t now = ticks_monotonic_ns();
		int left = timeout_ms <= 0 ? timeout_ms
			   : now < until   ? (int)((until - now) / 1000000u)
					   : 0;

		/*
		 * pause even if events come fast, so that a caller's loop of wait and read costs
		 * little
		 */
		if (left && session_has_unread(session))
			left = 1;
		got = session_step(session, session->is_woken ? 0 : left);
	} while (!got && session_awaited(session) && !session_has_unread(session) &&
		 !session->is_woken && (timeout_ms < 0 || ticks_monotonic_ns() < until));
	session->is_woken = 0;
	alive = session_awaited(session);
	session->is_end_told = got < 0 || !alive;
	session_pollable_update(session);
	if (got < 0 && got != session->explained)
		return session_fail(session, got, "%s", session->dir ? session->dir : "");
	return got < 0 ? got : alive;
}

int wm_session_wake(struct wm_session *session)
{
	uint64_t one = 1;
	int before = errno;

	if (!session)
		return -EINVAL;
	if (session->owner != getpid())
		return -ECHILD;
	/* not write(), a cancellation point; if the counter is full, the poll returns anyway */
	syscall(SYS_write, session->wake, &one, sizeof(one));
	errno = before;
	return 0;
}
