/* SPDX-License-Identifier: MIT */
/* The ends of the wait of a session that is read live. */
#include "base/testing/await.h"
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "target/process/target.h"
#include "target/process/testing/folder.h"
#include "target/process/ticks.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define LONG_MS 20000

TestSuite(poll, .init = folder_make, .fini = folder_remove, .timeout = 60);

static struct wm_session *start(const struct wm_session_options *options,
				struct sample_agent *agent)
{
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, options), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:*"), 0);
	sample_agent_start(agent);
	cr_assert_eq(wm_session_attach(session, agent->pid), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0);
	return session;
}

static void release(struct wm_session *session, struct sample_agent *agent)
{
	wm_session_close(session);
	sample_agent_release(agent);
}

static int count(const struct wm_event *event, void *data)
{
	unsigned int *events = data;

	(void)event;
	return ++*events == 120 ? 77 : 0;
}

/* How long a wait took. */
static unsigned int poll_ms(struct wm_session *session, int timeout_ms, int alive)
{
	uint64_t began_ns = ticks_monotonic_ns();

	cr_assert_eq(wm_session_wait(session, timeout_ms), alive);
	return (unsigned int)((ticks_monotonic_ns() - began_ns) / 1000000u);
}

Test(poll, wait_ends_for_unread_events_only)
{
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = start(NULL, &agent);
	unsigned int events = 0;

	cr_assert_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	/* a callback that ends a read leaves events, which end the next wait */
	cr_assert_eq(wm_session_read(session, count, &events), 77);
	cr_assert_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_assert_eq(wm_session_read(session, count, &events), 0);
	cr_assert_eq(events, 250);
	while (wm_session_wait(session, 0) > 0 && session_step(session, 0))
		;
	cr_assert_geq(poll_ms(session, 200, 1), 199);
	release(session, &agent);
}

Test(poll, wait_of_cyclic_session_ends_after_stop)
{
	struct wm_session_options options = { .size = sizeof(options), .policy = WM_POLICY_CYCLIC };
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 250 };
	struct wm_session *session = start(&options, &agent);
	unsigned int events = 120;

	while (wm_session_wait(session, 0) > 0 && session_step(session, 0))
		;
	cr_assert_geq(poll_ms(session, 200, 1), 199);
	cr_assert_eq(wm_session_stop(session), 0);
	cr_assert_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_assert_eq(wm_session_read(session, count, &events), 0);
	cr_assert_eq(events, 370);
	release(session, &agent);
}

Test(poll, wait_ends_when_process_ends)
{
	struct sample_agent agent = { .way = SAMPLE_DIES, .events = 10 };
	struct wm_session *session = start(NULL, &agent);
	unsigned int events = 0;
	int alive = 1;

	while (alive > 0) {
		alive = wm_session_wait(session, LONG_MS);
		cr_assert_eq(wm_session_read(session, count, &events), 0);
	}
	cr_assert_eq(alive, 0);
	cr_assert_eq(events, 10);
	release(session, &agent);
}

/*
 * Events that can't be read do not count for some time. If a read was too slow for that, read
 * again.
 */
Test(poll, wait_ends_later_for_unreadable_events)
{
	struct sample_agent agent = { .way = SAMPLE_AHEAD, .events = 10 };
	struct wm_session *session = start(NULL, &agent);
	unsigned int events = 0;

	cr_assert_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_expect(AWAIT(!wm_session_read(session, count, &events) && !session_has_unread(session)));
	cr_assert_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_expect_eq(events, 0);
	release(session, &agent);
}

/* ---- ended by others ---- */

static struct wm_session *woken;
static pthread_t poller;
static pid_t poller_tid;
static int is_over;

static void *wake_a_sleeper(void *data)
{
	(void)data;
	cr_expect(AWAIT(target_thread_state(getpid(), poller_tid) == 'S'));
	cr_expect_eq(wm_session_wake(woken), 0);
	return NULL;
}

static void *signal_a_sleeper(void *data)
{
	(void)data;
	/* a signal before the wait does not end it, so send several */
	cr_expect(AWAIT(__atomic_load_n(&is_over, __ATOMIC_ACQUIRE) ||
			(pthread_kill(poller, SIGUSR1), 0)));
	return NULL;
}

static struct wm_session *start_quiet(struct sample_agent *agent)
{
	*agent = (struct sample_agent){ .way = SAMPLE_GOOD };
	woken = start(NULL, agent);
	/* handle all that the start has caused */
	while (wm_session_wait(woken, 0) > 0 && session_step(woken, 0))
		;
	poller = pthread_self();
	poller_tid = (pid_t)syscall(SYS_gettid);
	return woken;
}

static void poll_beside(void *(*beside)(void *))
{
	struct sample_agent agent;
	struct wm_session *session = start_quiet(&agent);
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, beside, NULL), 0);
	cr_expect_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	release(session, &agent);
}

Test(poll, wait_ends_by_wake_in_another_thread)
{
	poll_beside(wake_a_sleeper);
}

static void do_nothing(int number)
{
	(void)number;
}

static void wake(int number)
{
	(void)number;
	errno = 77;
	wm_session_wake(woken);
	if (errno != 77)
		abort();
}

Test(poll, wait_ends_by_signal_handler)
{
	struct sigaction action = { .sa_handler = do_nothing, .sa_flags = SA_RESTART };

	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	poll_beside(signal_a_sleeper);
}

Test(poll, wake_in_signal_handler_ends_only_next_wait)
{
	struct sigaction action = { .sa_handler = wake };
	struct sample_agent agent;
	struct wm_session *session = start_quiet(&agent);

	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(raise(SIGUSR1), 0);
	cr_assert_eq(raise(SIGUSR1), 0);
	cr_expect_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_expect_geq(poll_ms(session, 200, 1), 199);
	release(session, &agent);
}

Test(poll, wake_lasts_over_another_call)
{
	struct sample_agent agent;
	struct wm_session *session = start_quiet(&agent);
	unsigned int events = 0;

	cr_expect_eq(wm_session_wake(session), 0);
	cr_assert_eq(wm_session_read(session, count, &events), 0);
	cr_expect_lt(poll_ms(session, LONG_MS, 1), LONG_MS / 2);
	cr_expect_eq(wm_session_wake(NULL), -EINVAL);
	release(session, &agent);
}
