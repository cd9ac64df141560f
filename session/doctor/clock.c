/* SPDX-License-Identifier: MIT */
/* Events are stamped with the TSC, whatever the kernel's clock is: what matters is whether it can be trusted with that. */
#include "session/doctor/look.h"

#include <errno.h>
#include <string.h>

#define SOURCES "/sys/devices/system/clocksource/clocksource0/"

/* One that the kernel has found to stand still, or to differ between processors, is not among those that it offers. */
static void look_at_trust(struct finding *finding, const struct machine *machine)
{
	char current[64] = "", available[256] = "", why[128];
	int err = machine_line(machine, SOURCES "available_clocksource", available,
			       sizeof(available));

	if (!err)
		err = machine_line(machine, SOURCES "current_clocksource", current,
				   sizeof(current));
	if (err) {
		finding_say(finding, FINDING_LIMITED,
			    "whether the kernel trusts it can't be read (" SOURCES "*: %s)",
			    machine_refusal(machine, err, why, sizeof(why)));
		return;
	}
	available[strcspn(available, "\n")] = '\0';
	if (machine_has_word(available, "tsc")) {
		finding_say(finding, finding->state, "%s %s",
			    strcmp(current, "tsc") != 0
				    ? "the kernel trusts it, though its own clock is"
				    : "the kernel's own clock is",
			    current);
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "the kernel does not trust it: its clock is %s, and it offers %s", current,
		    available);
	finding_change(finding,
		       "dmesg says why, if it was marked unstable; tsc=reliable at boot, where "
		       "that is known to be wrong");
}

void look_clock(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "clock", "tsc");
	char flags[8192], why[128];
	int err = machine_calls(machine)->tsc();

	finding->is_basic = 1;
	if (err < 0) {
		finding_say(finding, FINDING_ABSENT,
			    "this process may not read it (%s), and so may none that it starts",
			    err == -EACCES ? "PR_SET_TSC"
					   : machine_refusal(machine, err, why, sizeof(why)));
		finding_change(finding, "start waymark from a shell that may");
		return;
	}
	err = machine_value(machine, "/proc/cpuinfo", "flags", flags, sizeof(flags));
	if (err) {
		finding_say(finding, FINDING_UNKNOWN, "/proc/cpuinfo: %s",
			    machine_refusal(machine, err, why, sizeof(why)));
	} else if (!machine_has_word(flags, "constant_tsc") ||
		   !machine_has_word(flags, "nonstop_tsc")) {
		finding_say(
			finding, FINDING_LIMITED,
			"not invariant (the processor has no %s): times stretch as its speed changes",
			machine_has_word(flags, "constant_tsc") ? "nonstop_tsc" : "constant_tsc");
		if (machine_has_word(flags, "hypervisor"))
			finding_change(finding, "the virtual machine's host can show the flag");
	} else {
		finding_say(finding, FINDING_FINE, "invariant");
	}
	look_at_trust(finding, machine);
	finding_more(finding, "events are stamped with it");
}
