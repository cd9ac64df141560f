/* SPDX-License-Identifier: MIT */
/* Sessions whose agent misbehaves while watches are armed. */
#include "base/testing/await.h"
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "record/watch/watches.h"
#include "target/process/testing/folder.h"
#include "target/trial/testing/needs.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <waymark/error.h>
#include <waymark/session.h>

static struct sample_agent agent;

static void tear_down(void)
{
	sample_agent_release(&agent);
	folder_remove();
}

TestSuite(session_watch, .init = folder_make, .fini = tear_down, .timeout = 60);

/* A session that records into a folder, so that it frees a process as soon as that has ended. */
static int start_watching(enum sample_way way, struct wm_session **session)
{
	static uint64_t word;
	struct wm_session_options options = { .size = sizeof(options) };
	char dir[80], spec[40];

	NEEDS(TRIAL_BREAKPOINT_WRITE);
	snprintf(dir, sizeof(dir), "%s/out", folder);
	snprintf(spec, sizeof(spec), "watch:%p/8", (void *)&word);
	cr_assert_eq(wm_session_open(session, &options), 0);
	cr_assert_eq(wm_session_add(*session, spec), 0);
	cr_assert_eq(wm_session_output(*session, dir), 0);
	agent.way = way;
	sample_agent_start(&agent);
	cr_assert_eq(wm_session_attach(*session, agent.pid), 0);
	return wm_session_start(*session);
}

Test(session_watch, start_survives_process_that_ends_while_arming)
{
	struct wm_session *session;

	cr_assert_eq(start_watching(SAMPLE_ENDS_AT_WATCH, &session), 0);
	wm_session_close(session);
}

Test(session_watch, start_fails_if_watch_is_lost_while_arming)
{
	struct wm_session *session;

	cr_assert_eq(start_watching(SAMPLE_LOSES_WATCH, &session), -WM_E_WATCH_TRAP);
	wm_session_close(session);
}

Test(session_watch, start_refuses_table_without_seals)
{
	struct wm_session *session;

	cr_assert_eq(start_watching(SAMPLE_UNSEALED_WATCH, &session), -WM_E_PROTOCOL);
	wm_session_close(session);
}

Test(session_watch, watch_is_lost_with_cause_of_agents_end)
{
	struct wm_session *session;

	cr_assert_eq(start_watching(SAMPLE_BREAKS, &session), 0);
	cr_assert_eq(kill(agent.pid, SIGUSR1), 0);
	cr_expect(AWAIT(wm_session_wait(session, 10) >= 0 && session->watched->count &&
			session->watched->all[0].lost == -WM_E_PROTOCOL));
	wm_session_close(session);
}

Test(session_watch, watch_is_lost_with_cause_if_session_stops_then)
{
	struct wm_session *session;
	struct process *process;

	cr_assert_eq(start_watching(SAMPLE_BREAKS, &session), 0);
	process = session->processes;
	cr_assert_eq(kill(agent.pid, SIGUSR1), 0);
	cr_assert(AWAIT(messages_pump(session, process) >= 0 && process->is_dropped));
	/* no step comes between */
	cr_expect_eq(wm_session_stop(session), 0);
	cr_assert_eq(session->watched->count, 1);
	cr_expect_eq(session->watched->all[0].lost, -WM_E_PROTOCOL);
	wm_session_close(session);
}
