/* SPDX-License-Identifier: MIT */
/* The origins of trails, as session/trail/origin.h knows them. */
#include "session/doctor/launched.h"
#include "session/doctor/look.h"

#include <inttypes.h>
#include <waymark/error.h>

static const char *const kinds[ORIGINS] = {
	[ORIGIN_PT] = "Intel Processor Trace",
	[ORIGIN_BTS] = "Intel's branch trace store, by the kernel's intel_bts",
	[ORIGIN_BRANCHES] = "Intel's branch trace store, by branch-instructions",
	[ORIGIN_SOFT] = "a translation inside of the program, at a small factor",
	[ORIGIN_STEP] = "single steps, thousands of times slower",
	[ORIGIN_LBR] = "the last branches before samples",
};

/* A program under the engine, from its start to its end. */
static void try_soft(struct finding *finding, const struct machine *machine)
{
	struct launched launched;

	machine_calls(machine)->record(&launched, machine->trial);
	if (!launched.error && launched.branches) {
		finding_more(finding,
			     "%" PRIu64 " branches of a program that was started were recorded",
			     launched.branches);
		return;
	}
	finding->found[0] = '\0';
	finding_say(finding, FINDING_ABSENT, "a program that was started was not recorded: %s",
		    launched.error ? wm_error_text(launched.error) : "it had no branches");
	if (launched.words[0])
		finding_more(finding, "%s", launched.words);
	finding_change(finding, "%s",
		       wm_error_hint(launched.error)[0] ? wm_error_hint(launched.error)
							: "take trail/step/");
}

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
			if (i == ORIGIN_SOFT && machine->trial)
				try_soft(finding, machine);
			continue;
		}
		finding_say(finding, FINDING_ABSENT, "%s", wm_error_text(state->error));
		if (state->detail[0])
			finding_more(finding, "%s", state->detail);
		if (wm_error_hint(state->error)[0])
			finding_change(finding, "%s", wm_error_hint(state->error));
	}
}
