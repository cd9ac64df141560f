/* SPDX-License-Identifier: MIT */
#include "cli/origins.h"

#include "cli/cli.h"

#include <stdio.h>
#include <waymark/error.h>

void origins_tell(const struct wm_session *session, int verbose)
{
	const struct trail_request *request = spec_trail(&session->specs);
	const struct live *live = &session->live;

	if (!request || !request->is_auto || !live->has_origin)
		return;
	fprintf(stderr, "waymark: the trail's origin is %s%s\n", origin_name(live->origin),
		live->origin == ORIGIN_STEP ? ", single steps, which are slow" : "");
	for (int i = 0; verbose && i < ORIGINS; i++) {
		const struct origin_state *state = &live->origins[i];

		if (!state->error)
			continue;
		fprintf(stderr, "  not %s: ", origin_name((enum origin)i));
		complain_words("%s%s%s", wm_error_text(state->error), state->detail[0] ? ": " : "",
			       state->detail);
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
}
