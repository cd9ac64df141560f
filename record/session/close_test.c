/* SPDX-License-Identifier: MIT */
/*
 * Which processes does wm_session_close() wait for? session_wait_moving() is wrapped to count
 * calls.
 */
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <waymark/error.h>

TestSuite(close, .init = folder_make, .fini = folder_remove, .timeout = 60);

static int is_closing, waits;

int __real_session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms);
int __wrap_session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms);

int __wrap_session_wait_moving(struct wm_session *session, struct process *process, int timeout_ms)
{
	waits += is_closing;
	return __real_session_wait_moving(session, process, timeout_ms);
}

/* How often close waits for the agent, after a stop that returned `result`. */
static int close_waits(enum sample_way way, int result)
{
	struct sample_agent agent = { .way = way, .events = 1 };
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_add(session, "marker:net:rx"), 0);
	sample_agent_start(&agent);
	cr_assert_eq(wm_session_attach(session, agent.pid), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_stop(session), result, "%s", wm_session_detail(session));
	waits = 0;
	is_closing = 1;
	wm_session_close(session);
	is_closing = 0;
	sample_agent_release(&agent);
	return waits;
}

Test(close, close_waits_for_answering_agent)
{
	cr_assert_eq(close_waits(SAMPLE_GOOD, 0), 1);
}

Test(close, close_after_silence_does_not_wait_again)
{
	cr_assert_eq(close_waits(SAMPLE_DEAF, -WM_E_AGENT_SILENT), 0);
}
