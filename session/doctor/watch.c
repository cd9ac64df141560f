/* SPDX-License-Identifier: MIT */
/* The registers for breakpoints, which watches are made of: how many this thread could be given, and who has the others. */
#include "session/claim/ledger.h"
#include "session/doctor/breakpoints.h"
#include "session/doctor/look.h"
#include "session/doctor/refusal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define CLAIMS_TOLD 3

/* Who has what can't be had. */
static void tell_holders(struct finding *finding, const struct machine *machine, int cpu)
{
	char holders[256];

	machine_calls(machine)->holders(0, cpu, holders, sizeof(holders));
	if (holders[0])
		finding_more(finding, "%s", holders);
	finding_change(finding, "who holds them gives them back when it ends: perf, a debugger, "
				"another session");
}

/* The kernel says when there are no more: ENOSPC. */
static void tell_count(struct finding *finding, const struct machine *machine, int count, int err)
{
	char why[128];

	machine_refusal(machine, err, why, sizeof(why));
	if (count >= BREAKPOINTS) {
		finding_say(finding, FINDING_FINE, "%d of the processor's %d can be had", count,
			    BREAKPOINTS);
	} else if (err == -ENOSPC) {
		finding_say(finding, count ? FINDING_LIMITED : FINDING_ABSENT,
			    "%d of the processor's %d can be had; others hold %d", count,
			    BREAKPOINTS, BREAKPOINTS - count);
		tell_holders(finding, machine, -1);
	} else if (count) {
		finding_say(finding, FINDING_LIMITED, "%d can be had, then the kernel says %s",
			    count, why);
		if (err == -EMFILE)
			finding_change(finding, "ulimit -n");
	} else {
		finding_say(finding, FINDING_ABSENT, "perf_event_open(2): %s", why);
		refusal_change(finding, machine, err, 2);
	}
}

/* A kind of which one is enough to know. */
static void look_at_kind(struct finding_list *list, const struct machine *machine, const char *name,
			 const char *what, pid_t tid, int cpu, unsigned int kind, int level)
{
	struct finding *finding = finding_add(list, "watches", name);
	char why[128];
	int count, err = breakpoints_free(machine, tid, cpu, kind, &count);

	if (count) {
		finding_say(finding, FINDING_FINE, "%s (%d can be had)", what, count);
		return;
	}
	finding_say(finding, FINDING_ABSENT, "perf_event_open(2): %s",
		    machine_refusal(machine, err, why, sizeof(why)));
	if (err == -ENOSPC)
		tell_holders(finding, machine, cpu);
	else
		refusal_change(finding, machine, err, level);
}

/* What sessions of ours wrote down that they hold, of whichever kind. */
static void look_at_ledger(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "watches", "ledger");
	struct claim_list claims = { 0 };
	int err = machine_calls(machine)->claims(&claims);

	for (size_t i = 0; i < claims.count && i < CLAIMS_TOLD; i++) {
		const struct claim_row *row = &claims.rows[i];

		finding_say(finding, FINDING_FINE, "%s %d holds %" PRIu64 " of kind %s (%.48s)",
			    row->owner.comm, (int)row->owner.pid, row->claim.count,
			    claim_resource_words(row->claim.resource), row->claim.what);
	}
	if (claims.count)
		finding_more(finding, "%zu claims in all: waymark claims lists them", claims.count);
	else
		finding_say(finding, FINDING_FINE, "no session of ours holds anything");
	if (claims.damaged)
		finding_say(finding, FINDING_LIMITED, "%zu places of it make no sense",
			    claims.damaged);
	if (err)
		finding_say(finding, FINDING_UNKNOWN, "a part of it can't be read: %s",
			    wm_error_text(err));
	if (err && wm_error_hint(err)[0])
		finding_change(finding, "%s", wm_error_hint(err));
	claim_list_release(&claims);
}

void look_watch(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "watches", "breakpoints");
	int count, err = breakpoints_free(machine, 0, -1, 0, &count);

	finding->is_basic = 1;
	tell_count(finding, machine, count, err);
	finding = finding_add(list, "watches", "with SIGTRAP");
	err = breakpoints_free(machine, 0, -1, BREAKPOINT_SIGTRAP, &count);
	tell_count(finding, machine, count, err);
	if (!count && err == -EINVAL) /* attributes that it does not know */
		finding_change(finding,
			       "Linux 5.13; without it values are told from outside, where "
			       "they can be known");
	look_at_kind(list, machine, "execution", "of code: watch:...:x", 0, -1, BREAKPOINT_EXECUTE,
		     2);
	look_at_kind(list, machine, "kernel's stores",
		     "are seen too, as read(2) into what is watched", 0, -1, BREAKPOINT_KERNEL, 1);
	look_at_kind(list, machine, "on a processor", "by whatever runs there", -1, 0, 0, 0);
	look_at_ledger(list, machine);
}
