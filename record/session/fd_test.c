/* SPDX-License-Identifier: MIT */
/* A caller's event loop with wm_session_fd(). */
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "target/process/pollable.h"
#include "target/process/testing/folder.h"
#include "target/process/ticks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS 20000
#define QUIET_MS 200 /* a time without input, which is what is tested */

TestSuite(fd, .init = folder_make, .fini = folder_remove, .timeout = 60);

static struct wm_session *begin(struct sample_agent *agent)
{
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	sample_agent_start(agent);
	cr_assert_eq(wm_session_attach(session, agent->pid), 0, "%s", wm_session_detail(session));
	return session;
}

static int is_readable(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, timeout_ms);
}

static int count(const struct wm_event *event, void *data)
{
	unsigned int *events = data;

	(void)event;
	++*events;
	return 0;
}

/* The loop of waymark-session-wait(3), until the session ends. Returns how many events it read. */
static unsigned int loop(struct wm_session *session)
{
	int outer = epoll_create1(EPOLL_CLOEXEC), fd = wm_session_fd(session), alive = 1;
	struct epoll_event event = { .events = EPOLLIN };
	unsigned int events = 0;

	cr_assert_geq(fd, 0);
	cr_assert_eq(epoll_ctl(outer, EPOLL_CTL_ADD, fd, &event), 0);
	while (alive > 0) {
		cr_assert_eq(epoll_wait(outer, &event, 1, LONG_MS), 1,
			     "the descriptor is not readable");
		alive = wm_session_wait(session, 0);
		cr_assert_eq(wm_session_read(session, count, &events), 0);
	}
	cr_assert_eq(alive, 0);
	close(outer);
	return events;
}

Test(fd, loop_reads_all_events_and_sees_the_end)
{
	struct sample_agent agent = { .way = SAMPLE_DIES, .events = 250 };
	struct wm_session *session = begin(&agent);
	int fd = wm_session_fd(session);

	cr_assert_eq(wm_session_start(session), 0);
	cr_expect_eq(loop(session), 250);
	cr_expect_eq(wm_session_fd(session), fd, "the descriptor is the same each time");
	cr_expect_eq(is_readable(fd, QUIET_MS), 0, "all was read, and the end was seen");
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(fd, fd_made_after_start_is_readable_for_earlier_events)
{
	struct sample_agent agent = { .way = SAMPLE_DIES, .events = 250 };
	struct wm_session *session = begin(&agent);

	cr_assert_eq(wm_session_start(session), 0);
	cr_assert_eq(is_readable(session->processes->pidfd, LONG_MS), 1);
	cr_expect_eq(loop(session), 250);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(fd, fd_is_not_readable_before_start)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 10 };
	struct wm_session *session = begin(&agent);
	int fd = wm_session_fd(session);
	unsigned int events = 0;

	while (is_readable(fd, 0) > 0)
		cr_assert_eq(wm_session_wait(session, 0), 1);
	cr_expect_eq(is_readable(fd, QUIET_MS), 0);
	cr_assert_eq(wm_session_start(session), 0);
	while (events < 10) {
		cr_assert_eq(is_readable(fd, LONG_MS), 1);
		cr_assert_eq(wm_session_read(session, count, &events), 0);
	}
	cr_assert_eq(wm_session_stop(session), 0);
	cr_expect_eq(is_readable(fd, QUIET_MS), 0, "the session has stopped");
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(fd, fd_of_idle_session_is_readable_once_per_tick)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD };
	struct wm_session *session = begin(&agent);
	int fd = wm_session_fd(session);
	unsigned int turns = 0;
	uint64_t began_ns;

	cr_assert_eq(wm_session_start(session), 0);
	began_ns = ticks_monotonic_ns();
	for (; turns < 20; turns++) {
		cr_assert_eq(is_readable(fd, LONG_MS), 1);
		cr_assert_eq(wm_session_wait(session, 0), 1);
	}
	/* the agent's messages cause a few more */
	cr_expect_geq(ticks_monotonic_ns() - began_ns, 10u * POLLABLE_TICK_NS);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(fd, wake_makes_fd_readable_until_wait)
{
	struct wm_session *session;
	int fd;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	fd = wm_session_fd(session);
	cr_expect_eq(is_readable(fd, QUIET_MS), 0);
	cr_assert_eq(wm_session_wake(session), 0);
	cr_expect_eq(is_readable(fd, LONG_MS), 1);
	cr_assert_eq(wm_session_wait(session, LONG_MS), 0);
	cr_expect_eq(is_readable(fd, QUIET_MS), 0);
	wm_session_close(session);
}

/* A forked child still holds a closed connection, which must not stay readable. */
Test(fd, forked_child_does_not_keep_fd_readable)
{
	struct sample_agent agent = { .way = SAMPLE_HANGS_UP, .events = 10 };
	struct wm_session *session = begin(&agent);
	int fd = wm_session_fd(session), is_still = 0;
	unsigned int events = 0;
	pid_t child;

	child = fork();
	if (!child) {
		if (wm_session_fd(session) != -ECHILD)
			_exit(1);
		for (;;)
			pause();
	}
	cr_assert_eq(wm_session_start(session), 0);
	sample_agent_release(&agent);
	while (!is_still) {
		cr_assert_eq(is_readable(fd, LONG_MS), 1);
		is_still = wm_session_wait(session, 0) <= 0;
		cr_assert_eq(wm_session_read(session, count, &events), 0);
	}
	cr_expect_eq(events, 10);
	cr_assert_eq(wm_session_wait(session, 0), 0);
	cr_expect_eq(is_readable(fd, QUIET_MS), 0);
	cr_expect_eq(waitpid(child, NULL, WNOHANG), 0, "the child got another result");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	wm_session_close(session);
	cr_expect_eq(wm_session_fd(NULL), -EINVAL);
}
