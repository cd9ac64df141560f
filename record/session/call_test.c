/* SPDX-License-Identifier: MIT */
/* Calls of waymark/session.h in threads that are cancelled, and in forked children. */
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/session.h>
#include <waymark/trace.h>
#include <waymark/trail.h>

#define EVENTS 250

static struct sample_agent agent;
static struct wm_session *session;

static void set_up(void)
{
	folder_make();
	agent = (struct sample_agent){ .way = SAMPLE_GOOD, .events = EVENTS };
	sample_agent_start(&agent);
}

static void tear_down(void)
{
	sample_agent_release(&agent);
	folder_remove();
}

TestSuite(session_call, .init = set_up, .fini = tear_down, .timeout = 60);

static int count(const struct wm_event *event, void *data)
{
	(void)event;
	++*(unsigned int *)data;
	return 0;
}

/* The result of each call, in a thread that any cancellation point would end. */
static struct results {
	int open, add, attach, start, poll, read, status, stop, calls;
	unsigned int events;
} results;

static void *cancelled(void *data)
{
	struct wm_session_status status = { .size = sizeof(status) };

	(void)data;
	pthread_cancel(pthread_self());
	results.open = wm_session_open(&session, NULL);
	results.calls = 1;
	results.add = wm_session_add(session, "marker:net:*");
	results.calls = 2;
	results.attach = wm_session_attach(session, agent.pid);
	results.calls = 3;
	results.start = wm_session_start(session);
	results.calls = 4;
	results.poll = wm_session_wake(session);
	if (!results.poll)
		results.poll = wm_session_wait(session, 10);
	results.calls = 5;
	results.read = wm_session_read(session, count, &results.events);
	results.calls = 6;
	results.status = wm_session_status_get(session, &status);
	results.calls = 7;
	results.stop = wm_session_stop(session);
	results.calls = 8;
	wm_session_close(session);
	results.calls = 9;
	pthread_testcancel();
	return NULL;
}

Test(session_call, call_in_cancelled_thread_finishes)
{
	pthread_t thread;
	void *ended;

	cr_assert_eq(pthread_create(&thread, NULL, cancelled, NULL), 0);
	cr_assert_eq(pthread_join(thread, &ended), 0);
	cr_assert_eq(results.calls, 9, "cancelled in call %d", results.calls + 1);
	cr_expect_eq(ended, PTHREAD_CANCELED, "the pending cancellation is kept");
	cr_expect_eq(results.open, 0);
	cr_expect_eq(results.add, 0);
	cr_expect_eq(results.attach, 0, "%d", results.attach);
	cr_expect_eq(results.start, 0);
	cr_expect_eq(results.poll, 1);
	cr_expect_eq(results.read, 0);
	cr_expect_eq(results.status, 0);
	cr_expect_eq(results.stop, 0);
	cr_expect_eq(results.events, EVENTS);
}

Test(session_call, call_without_session_returns_einval)
{
	struct wm_session_status status = { .size = sizeof(status) };
	char *const argv[] = { "/bin/true", NULL };
	unsigned int events = 0;

	cr_expect_eq(wm_session_open(NULL, NULL), -EINVAL);
	cr_expect_eq(wm_session_add(NULL, "marker:db:*"), -EINVAL);
	cr_expect_eq(wm_session_attach(NULL, agent.pid), -EINVAL);
	cr_expect_eq(wm_session_launch(NULL, argv), -EINVAL);
	cr_expect_eq(wm_session_output(NULL, folder), -EINVAL);
	cr_expect_eq(wm_session_start(NULL), -EINVAL);
	cr_expect_eq(wm_session_change(NULL, NULL, 0, NULL, 0), -EINVAL);
	cr_expect_eq(wm_session_wait(NULL, 0), -EINVAL);
	cr_expect_eq(wm_session_read(NULL, count, &events), -EINVAL);
	cr_expect_eq(wm_session_status_get(NULL, &status), -EINVAL);
	cr_expect_eq(wm_session_stop(NULL), -EINVAL);
	wm_session_close(NULL);
}

/* Runs in a forked child. Returns 0, or the number of the call that was not refused. */
static int child_calls(void)
{
	struct wm_session_status status = { .size = sizeof(status) };
	char *const argv[] = { "/bin/true", NULL };
	unsigned int events = 0;
	int link;
	const int got[] = {
		wm_session_add(session, "marker:db:*"),
		wm_session_attach(session, getppid()),
		wm_session_launch(session, argv),
		wm_session_output(session, folder),
		wm_session_start(session),
		wm_session_change(session, NULL, 0, NULL, 0),
		wm_session_wait(session, 0),
		wm_session_wake(session),
		wm_session_read(session, count, &events),
		wm_session_status_get(session, &status),
		wm_session_stop(session),
	};

	link = session->processes->link.fd;
	wm_session_close(session);
	if (fcntl(link, F_GETFD) >= 0)
		return 99; /* with it open, the agent would not see the parent's end */
	for (size_t i = 0; i < sizeof(got) / sizeof(*got); i++)
		if (got[i] != -ECHILD)
			return (int)i + 1;
	return 0;
}

Test(session_call, call_in_forked_child_returns_echild)
{
	unsigned int events = 0;
	int status;
	pid_t pid;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	cr_assert_eq(wm_session_attach(session, agent.pid), 0);
	cr_assert_eq(wm_session_start(session), 0);
	pid = fork();
	if (!pid)
		_exit(child_calls());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%#x", (unsigned int)status);
	cr_expect_eq(wm_session_wait(session, 0), 1);
	cr_expect_eq(wm_session_read(session, count, &events), 0);
	cr_expect_eq(events, EVENTS);
	cr_expect_eq(wm_session_stop(session), 0);
	wm_session_close(session);
}

Test(session_call, detail_of_null_is_empty)
{
	cr_expect_str_eq(wm_session_detail(NULL), "");
	cr_expect_str_eq(wm_trace_detail(NULL), "");
	cr_expect_str_eq(wm_trail_detail(NULL), "");
	cr_expect_str_eq(wm_kevent_detail(NULL), "");
}
