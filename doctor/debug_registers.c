/* SPDX-License-Identifier: MIT */
/* Debug registers, which watches use: how many can be had, and who holds the others. */
#include "claim/holder.h"
#include "doctor/doctor.h"
#include "perf/object.h"

#include <errno.h>
#include <unistd.h>
#include <waymark/error.h>

static void add_holders(struct finding *finding, pid_t tid)
{
	const struct claim_wanted wanted = { .resource = CLAIM_DEBUG_REGISTER,
					     .tid = tid,
					     .cpu = -1 };
	char holders[256] = "";

	claim_holder_text(&wanted, holders, sizeof(holders));
	finding_more(finding, "%s", holders);
	finding_change(finding, "end what holds them: perf, a debugger, another session");
}

void look_registers(struct finding *finding, int count, pid_t tid, const struct machine *machine)
{
	const struct trial_answer refused = { .error = count };
	const struct trial_answer *answer = &machine->trials[TRIAL_BREAKPOINT_WRITE];
	const int all = EVENT_SOURCES_MAX;
	char reason[256];

	if (count < 0) {
		finding_say(finding, FINDING_ABSENT, "perf_event_open(2): %s",
			    wm_error_name(count));
		look_remedy(finding, TRIAL_BREAKPOINT_WRITE, &refused, machine->is_filtered);
		return;
	}
	finding_say(finding,
		    !count	  ? FINDING_ABSENT
		    : count < all ? FINDING_LIMITED
				  : FINDING_FINE,
		    "%d of the processor's %d can be had", count, all);
	if (count < all) {
		finding_more(finding, "others hold %d", all - count);
		add_holders(finding, tid);
	}
	if (!count || answer->state == TRIAL_WORKS)
		return;
	trial_reason(TRIAL_BREAKPOINT_WRITE, answer, reason, sizeof(reason));
	finding_say(finding, answer->state == TRIAL_FAILS ? FINDING_ABSENT : FINDING_UNKNOWN, "%s",
		    reason);
	look_remedy(finding, TRIAL_BREAKPOINT_WRITE, answer, machine->is_filtered);
}

static void look_at_ledger(struct finding_list *list)
{
	struct finding *finding = finding_add(list, "watches", "ledger");
	struct claim_list claims = { 0 };
	int err = claim_list_read_all(&claims);

	finding_say(finding, FINDING_FINE, "%zu claims of Waymark's sessions", claims.count);
	if (claims.count)
		finding_more(finding, "waymark claims lists them");
	if (claims.damaged)
		finding_say(finding, FINDING_LIMITED, "%zu entries are damaged", claims.damaged);
	if (err) {
		finding_say(finding, FINDING_UNKNOWN, "a part of it cannot be read: %s",
			    wm_error_text(err));
		finding_change(finding, "%s", wm_error_hint(err));
	}
	claim_list_release(&claims);
}

void look_watch(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "watches", "breakpoints");

	finding->is_basic = 1;
	look_registers(finding, machine->registers, gettid(), machine);
	look_at_ledger(list);
}
