/* SPDX-License-Identifier: MIT */
#include "cli/origins.h"

#include "cli/cli.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"

#include <stdio.h>
#include <waymark/error.h>

static void tell_why(const struct origin_state *state)
{
	complain_words("%s%s%s", wm_error_text(state->error), state->detail[0] ? ": " : "",
		       state->detail);
}

void origins_tell(const struct wm_session *session, int verbose)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct live *live = session->live;

	if (!request || !request->is_auto || !live->has_origin)
		return;
	fprintf(stderr, "waymark: the trail's origin is %s", origin_name(live->origin));
	if (live->origin == ORIGIN_SOFT)
		fputs(", a translation of the program", stderr);
	if (live->origin == ORIGIN_STEP) {
		fputs(", single steps, which are slow; not soft: ", stderr);
		tell_why(&live->origins[ORIGIN_SOFT]);
	}
	fputc('\n', stderr);
	for (int i = 0; verbose && i < ORIGINS; i++) {
		const struct origin_state *state = &live->origins[i];

		if (!state->error)
			continue;
		fprintf(stderr, "  not %s: ", origin_name((enum origin)i));
		tell_why(state);
		fputc('\n', stderr);
	}
}

void origins_json(struct json *json, const struct live *live)
{
	json_string(json, "origin", origin_name(live->origin));
	json_open(json, "origins", '[');
	for (int i = 0; i < ORIGINS; i++) {
		const struct origin_state *state = &live->origins[i];

		json_open(json, NULL, '{');
		json_string(json, "name", origin_name((enum origin)i));
		json_bool(json, "available", !state->error);
		json_words(json, "reason", state->error ? wm_error_text(state->error) : "");
		json_words(json, "detail", state->detail);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_open(json, "natives", '[');
	for (int why = 1; why < ENGINE_NATIVES; why++) {
		if (!live->natives.counts[why])
			continue;
		json_open(json, NULL, '{');
		json_words(json, "reason", native_words((enum engine_native)why));
		json_number(json, "processes", live->natives.counts[why]);
		json_number(json, "pid", (uint64_t)live->natives.pids[why]);
		json_number(json, "after_ns", live->natives.after_ns[why]);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_open(json, "unfollowed_causes", '[');
	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++) {
		if (!live->natives.unfollowed[why])
			continue;
		json_open(json, NULL, '{');
		json_words(json, "cause", native_unfollowed_words((enum engine_unfollowed)why));
		json_number(json, "processes", live->natives.unfollowed[why]);
		json_close(json, '}');
	}
	json_close(json, ']');
}

const char *origins_way(const struct live *live)
{
	static const char *const ways[ORIGINS] = {
		[ORIGIN_PT] = "by Intel PT",
		[ORIGIN_BTS] = "by branch trace store",
		[ORIGIN_SOFT] = "by translation",
		[ORIGIN_STEP] = "by single steps",
	};

	return ways[live->origin];
}

void origins_tell_losses(const struct live *live)
{
	if (!live->losses[0])
		return;
	fputs("waymark: the trail is not all that was asked for: ", stderr);
	complain_words("%s", live->losses);
	fputc('\n', stderr);
}

void origins_tell_natives(const struct live *live)
{
	for (int why = 1; why < ENGINE_NATIVES; why++) {
		const char *words = native_words((enum engine_native)why);
		uint32_t count = live->natives.counts[why];
		double after = (double)live->natives.after_ns[why] / 1e9;

		if (count == 1)
			fprintf(stderr,
				"waymark: %d went on natively (%s) after %.2f s: nothing of it is recorded from then on\n",
				(int)live->natives.pids[why], words, after);
		else if (count)
			fprintf(stderr,
				"waymark: %u processes went on natively (%s), the first after %.2f s: nothing of them is recorded from then on\n",
				count, words, after);
		if (count)
			fprintf(stderr, "  %s\n", native_hint((enum engine_native)why));
	}
}
