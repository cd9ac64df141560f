/* SPDX-License-Identifier: MIT */
/* The origins of trails, as branch/origin.h finds them. */
#include "doctor/launched.h"
#include "doctor/doctor.h"
#include "branch/origin.h"

#include <inttypes.h>
#include <waymark/error.h>

static const char *const kinds[ORIGINS] = {
	[ORIGIN_PT] = "Intel Processor Trace",
	[ORIGIN_BTS] = "Intel's branch trace store",
	[ORIGIN_SOFT] = "binary translation inside the program",
	[ORIGIN_STEP] = "single steps, thousands of times slower",
};

/* Record a program from its start to its end. */
static void try_soft(struct finding *finding, const struct machine *machine)
{
	struct launched launched;

	launched_record(&launched, machine->program);
	if (!launched.error && launched.branches) {
		finding_more(finding, "a program was recorded: %" PRIu64 " branches",
			     launched.branches);
		return;
	}
	finding->found[0] = '\0';
	finding_say(finding, FINDING_ABSENT, "a program could not be recorded");
	if (launched.error)
		finding_error(finding, launched.error, launched.words);
	else
		finding_more(finding, "it had no branches");
	if (!finding->change[0])
		finding_change(finding, "take trail/step/");
}

void look_trail(struct finding_list *list, const struct machine *machine)
{
	const struct origin_machine here = { 0 };
	struct origin_state states[ORIGINS];
	int best;

	origins_look(states, &here);
	best = origin_best(states);
	for (int i = 0; i < ORIGINS; i++) {
		struct finding *finding = finding_add(list, "trails", origin_name((enum origin)i));

		finding->is_basic = i == ORIGIN_SOFT;
		if (states[i].error) {
			finding_error(finding, states[i].error, states[i].detail);
			continue;
		}
		finding_say(finding, FINDING_FINE, "%s%s", kinds[i],
			    i == best ? "; trail/auto/ takes it" : "");
		if (i == ORIGIN_SOFT && machine->program)
			try_soft(finding, machine);
	}
}
