/* SPDX-License-Identifier: MIT */
/* Specs without a match, and refused places. */
#include "record/session/process.h"
#include "record/session/testing/agent.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

TestSuite(refusals, .init = folder_make, .fini = folder_remove, .timeout = 60);

static struct wm_session *attach(int allow_unmatched, struct sample_agent *agent,
				 const char *const *specs)
{
	struct wm_session_options options = { .size = sizeof(options),
					      .allow_unmatched = allow_unmatched };
	struct wm_session *session;

	cr_assert_eq(wm_session_open(&session, &options), 0);
	for (; *specs; specs++)
		cr_assert_eq(wm_session_add(session, *specs), 0);
	sample_agent_start(agent);
	cr_assert_eq(wm_session_attach(session, agent->pid), 0, "%s", wm_session_detail(session));
	return session;
}

static int write_down(const struct wm_session_refusal *refusal, void *data)
{
	char *all = data;

	sprintf(all + strlen(all), "%s %s;", refusal->spec, wm_error_name(refusal->error));
	return 0;
}

static int stop(const struct wm_session_refusal *refusal, void *data)
{
	(void)refusal;
	(void)data;
	return 5;
}

Test(refusals, start_fails_for_each_spec_without_a_match)
{
	static const struct {
		const char *spec;
		int error;
	} specs[] = {
		{ "marker:net:nosuch", -WM_E_NO_MARKER },
		{ "func:nosuch_function", -WM_E_NO_FUNCTION },
		{ "func:usleep@nosuch.so", -WM_E_NO_MODULE },
		{ "usdt:nosuch:probe", -WM_E_NO_USDT },
		{ "addr:nosuch.so+0x10", -WM_E_NO_MODULE },
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		const char *wanted[] = { SAMPLE_EVENT, specs[i].spec, NULL };
		struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
		struct wm_session *session = attach(0, &agent, wanted);
		char all[512] = "", expected[512];

		cr_assert_eq(wm_session_start(session), specs[i].error, "%s: %s", specs[i].spec,
			     wm_session_detail(session));
		cr_assert(strstr(wm_session_detail(session), specs[i].spec), "%s",
			  wm_session_detail(session));
		snprintf(expected, sizeof(expected), "%s %s;", specs[i].spec,
			 wm_error_name(specs[i].error));
		cr_assert_eq(wm_session_refusals(session, write_down, all), 0);
		cr_assert_str_eq(all, expected);
		cr_assert_eq(wm_session_refusals(session, stop, NULL), 5);
		wm_session_close(session);
		sample_agent_release(&agent);
	}
}

Test(refusals, start_succeeds_with_globs_or_allow_unmatched)
{
	const char *globs[] = { SAMPLE_EVENT, "marker:nosuch:*", "func:nosuch_*", NULL };
	const char *names[] = { SAMPLE_EVENT, "marker:net:nosuch", NULL };

	for (int allow = 0; allow < 2; allow++) {
		struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
		struct wm_session *session = attach(allow, &agent, allow ? names : globs);
		char all[512] = "";

		cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
		cr_assert_eq(wm_session_refusals(session, write_down, all), 0);
		cr_assert(strstr(all, "nosuch"), "%s", all);
		cr_assert_not(strstr(all, SAMPLE_EVENT " "), "%s", all);
		wm_session_close(session);
		sample_agent_release(&agent);
	}
}

static int see_pid(const struct wm_session_refusal *refusal, void *data)
{
	pid_t *pid = data;

	if (!refusal->name[0])
		cr_expect_eq(refusal->pid, 0, "%s: %d", refusal->spec, (int)refusal->pid);
	else
		*pid = refusal->pid;
	return 0;
}

Test(refusals, refused_place_has_its_process)
{
	const char *specs[] = { SAMPLE_EVENT, "func:usleep/zork/", "func:nosuch_*", NULL };
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
	struct wm_session *session = attach(1, &agent, specs);
	pid_t pid = 0;

	cr_assert_eq(wm_session_start(session), 0, "%s", wm_session_detail(session));
	cr_assert_eq(wm_session_refusals(session, see_pid, &pid), 0);
	cr_assert_eq(pid, agent.pid);
	wm_session_close(session);
	sample_agent_release(&agent);
}

Test(refusals, start_requests_marker_names)
{
	const char *specs[] = { "marker:net:rxx", NULL };
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
	struct wm_session *session = attach(1, &agent, specs);

	cr_assert_eq(wm_session_start(session), 0);
	cr_assert_eq(session->specs->all[0].matches, 0);
	cr_assert_eq(session->names->count, 1);
	cr_assert_str_eq(session->names->all[0], SAMPLE_EVENT);
	wm_session_close(session);
	sample_agent_release(&agent);
}

static int refuse_within_read(const struct wm_event *event, void *data)
{
	(void)event;
	return wm_session_refusals(data, stop, NULL);
}

Test(refusals, refusals_with_bad_arguments_return_errors)
{
	const char *specs[] = { SAMPLE_EVENT, NULL };
	struct sample_agent agent = { .way = SAMPLE_GOOD, .events = 1 };
	struct wm_session *session = attach(0, &agent, specs);

	cr_assert_eq(wm_session_refusals(NULL, stop, NULL), -EINVAL);
	cr_assert_eq(wm_session_refusals(session, NULL, NULL), -EINVAL);
	cr_assert_eq(wm_session_start(session), 0);
	cr_assert_eq(wm_session_refusals(session, stop, NULL), 0);
	cr_assert_eq(wm_session_read(session, refuse_within_read, session), -EDEADLK);
	wm_session_close(session);
	sample_agent_release(&agent);
}
