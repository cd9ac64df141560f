/* SPDX-License-Identifier: MIT */
/* The origins of trails, as session/trail/origin.h knows them. */
#include "session/doctor/look.h"

#include <waymark/error.h>

static const char *const kinds[ORIGINS] = {
	[ORIGIN_PT] = "Intel Processor Trace",
	[ORIGIN_BTS] = "Intel's branch trace store, by the kernel's intel_bts",
	[ORIGIN_BRANCHES] = "Intel's branch trace store, by branch-instructions",
	[ORIGIN_SOFT] = "a translation inside of the program, at a small factor",
	[ORIGIN_STEP] = "single steps, thousands of times slower",
	[ORIGIN_LBR] = "the last branches before samples",
};

void look_trail(struct finding_list *list, const struct machine *machine)
{
	struct origin_state states[ORIGINS];
	int best;

	origins_look(states, &machine->origin);
	best = origin_best(states);
	for (int i = 0; i < ORIGINS; i++) {
		struct finding *finding = finding_add(list, "trails", origin_name((enum origin)i));
		const struct origin_state *state = &states[i];

		finding->is_basic = i == ORIGIN_SOFT;
		if (!state->error) {
			finding_say(finding, FINDING_FINE, "%s%s", kinds[i],
				    i == best ? "; trail/auto/ takes it" : "");
			continue;
		}
		finding_say(finding, FINDING_ABSENT, "%s", wm_error_text(state->error));
		if (state->detail[0])
			finding_more(finding, "%s", state->detail);
		if (wm_error_hint(state->error)[0])
			finding_change(finding, "%s", wm_error_hint(state->error));
	}
}
