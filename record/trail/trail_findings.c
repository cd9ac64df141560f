/* SPDX-License-Identifier: MIT */
/* How a session's trails were recorded, and what of them was not, in words. */
#include "record/session/findings.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/trail_request.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static void origin_findings(const struct wm_session *session, struct findings *list)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct live *live = session->live;

	if (!request || !request->is_auto || !live->has_origin)
		return;
	finding_add(list, "origin", FINDING_NOTE, "the trail's origin is %s%s",
		    origin_name(live->origin),
		    live->origin == ORIGIN_SOFT ? ", a translation of the program" : "");
	for (int i = 0; i < ORIGINS; i++) {
		const struct origin_state *state = &live->origins[i];
		char subject[32];

		if (!state->error)
			continue;
		snprintf(subject, sizeof(subject), "not %s", origin_name((enum origin)i));
		finding_part(list, "not-origin", subject, state->error, state->detail)
			->severity = FINDING_DETAIL;
	}
}

static void native_findings(const struct natives *natives, struct findings *list)
{
	for (int why = 1; why < ENGINE_NATIVES; why++) {
		const char *words = native_words((enum engine_native)why);
		uint32_t count = natives->counts[why];
		double after = (double)natives->after_ns[why] / 1e9;
		char who[64];
		struct finding *finding;

		if (!count)
			continue;
		snprintf(who, sizeof(who), count == 1 ? "process %d" : "%d processes",
			 count == 1 ? (int)natives->pids[why] : (int)count);
		finding = finding_add(
			list, "native", FINDING_LOSS,
			"%s went on natively (%s)%s after %.2f s: nothing is recorded from then on",
			who, words, count == 1 ? "" : ", the first", after);
		finding->count = count;
		finding->pid = (pid_t)natives->pids[why];
		finding->remedy = native_hint((enum engine_native)why);
	}
}

static void unfollowed_findings(const struct wm_session *session, struct findings *list)
{
	const struct live *live = session->live;
	struct wm_session_status status = { 0 };
	uint64_t rest;

	trail_source.status(session, &status);
	rest = status.trail_unfollowed;
	if (!rest)
		return;

	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++) {
		uint32_t count = live->natives.unfollowed[why];

		finding_counted(list, "unfollowed", count, "child process",
				"went on unrecorded: %s",
				native_unfollowed_words((enum engine_unfollowed)why));
		rest -= count < rest ? count : rest;
	}
	finding_counted(
		list, "unfollowed", rest, "child process", "went on unrecorded: %s",
		status.trail_processes >= SOFT_PROCESSES_MAX
			? "at most 4,096 processes are followed at a time; run fewer at once, "
			  "or see \"CHILDREN\" in waymark-trail(7) for other causes"
			: "\"CHILDREN\" in waymark-trail(7) has the causes");
}

void trail_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	const struct live *live = session->live;

	if (!is_over) {
		origin_findings(session, list);
		return;
	}
	native_findings(&live->natives, list);
	if (live->losses[0])
		finding_add(list, "trail-losses", FINDING_LOSS,
			    "the trail is not all that was asked for: %s", live->losses);
	finding_counted(list, "trail-foreign", live->foreign, "process",
			"executed a program that is not x86-64; the trail ends there");
	finding_counted(list, "trail-privileged", live->privileged, "process",
			"executed a program that gains rights; the trail ends there");
	unfollowed_findings(session, list);
}
