/* SPDX-License-Identifier: MIT */
#include "record/session/use.h"

#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"
#include "target/trial/trial.h"

#include <waymark/error.h>

static const enum trial of_watch[] = {
	[WATCH_WRITE] = TRIAL_BREAKPOINT_WRITE,
	[WATCH_READ_WRITE] = TRIAL_BREAKPOINT_ACCESS,
	[WATCH_EXECUTE] = TRIAL_BREAKPOINT_EXECUTE,
};

int use_spec(const struct spec *spec, struct detail detail)
{
	if (spec->watch)
		return trial_need(of_watch[spec->watch->kind], -WM_E_BREAKPOINT_DEAD, detail);
	if (spec->glob || spec->request)
		return trial_need(TRIAL_CODE_CHANGE, -WM_E_CODE_CHANGE, detail);
	return 0;
}

int use_zero(struct wm_session *session, struct detail detail)
{
	struct trial_answer answer;
	char text[512];

	for (size_t i = 0; i < session->specs->count; i++) {
		const struct watched_spec *watched = watches_of(session->watched, i);
		enum trial trial;

		if (!watched || watched->counts.hits || !session->specs->all[i].watch)
			continue;
		trial = of_watch[session->specs->all[i].watch->kind];
		trial_ask_again(trial, &answer);
		if (answer.state == TRIAL_WORKS)
			continue;
		session->watched->unproven = answer.state == TRIAL_FAILS ? -WM_E_BREAKPOINT_DEAD
									 : -WM_E_BREAKPOINT_UNTRIED;
		trial_reason(trial, &answer, text, sizeof(text));
		return detail_set(detail, session->watched->unproven, "%s: %s", watched->text,
				  text);
	}
	return 0;
}
