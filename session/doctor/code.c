/* SPDX-License-Identifier: MIT */
/* How code is changed and made: the agent's ways, tried in a child of ours, which is under the same rules as programs that we start. */
#include "session/doctor/look.h"

#include <errno.h>
#include <string.h>

static void look_at_patching(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "code", "patching");
	int mem = machine_calls(machine)->write_code(0);
	int mprotect = machine_calls(machine)->write_code(1);
	char why[2][128];

	finding->is_basic = 1;
	if (mem >= 0) {
		finding_say(finding, FINDING_FINE, "by /proc/self/mem%s",
			    mprotect >= 0 ? "; mprotect(2) would do too" : "");
		return;
	}
	machine_refusal(machine, mem, why[0], sizeof(why[0]));
	machine_refusal(machine, mprotect, why[1], sizeof(why[1]));
	finding_change(finding,
		       "/proc mounted and writable; proc_mem.force_override=always at boot");
	if (mprotect >= 0) {
		finding_say(
			finding, FINDING_LIMITED,
			"by mprotect(2): a page of code is writable while a byte of it is stored; "
			"not by /proc/self/mem: %s",
			why[0]);
		return;
	}
	finding_say(finding, FINDING_ABSENT, "not by /proc/self/mem: %s; nor by mprotect(2): %s",
		    why[0], why[1]);
	finding_change(finding, "or have no code written: waymark record --prearm, or "
				"-DWAYMARK_PORTABLE when the program is built");
}

static void look_at_sync(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "code", "membarrier");
	int err = machine_calls(machine)->sync_core();
	char why[128];

	if (err >= 0) {
		finding_say(finding, FINDING_FINE,
			    "every core can be made to see new code (SYNC_CORE)");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "no SYNC_CORE: %s; cores are interrupted by changing a page's rights",
		    machine_refusal(machine, err, why, sizeof(why)));
	finding_change(finding, err == -EINVAL ? "Linux 4.16, built with CONFIG_MEMBARRIER"
					       : "allow membarrier(2) in the filter");
}

static void look_at_making(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "code", "new code");
	int plain = machine_calls(machine)->new_code(0);
	int writable = machine_calls(machine)->new_code(1);
	char why[128];

	if (plain >= 0 && writable >= 0) {
		finding_say(finding, FINDING_FINE,
			    "memory for code can be mapped, also such as can be written");
		return;
	}
	if (plain >= 0)
		finding_say(
			finding, FINDING_LIMITED,
			"memory can't be writable and executable at once (%s), which trail/soft/ needs",
			machine_refusal(machine, writable, why, sizeof(why)));
	else
		finding_say(finding, FINDING_ABSENT,
			    "no memory can be made executable (%s): no probes, no trail/soft/",
			    machine_refusal(machine, plain, why, sizeof(why)));
	finding_change(finding,
		       "with SELinux: setsebool allow_execmem, or a domain that has execmem; "
		       "no PR_SET_MDWE (systemd's MemoryDenyWriteExecute=)");
}

/* Policies that are to be told, since what they refuse they don't explain. */
static void look_at_policy(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "code", "policies");
	char profile[256] = "", why[128];
	long enforces;
	int err = machine_number(machine, "/sys/fs/selinux/enforce", &enforces);

	if (err == -ENOENT)
		finding_say(finding, FINDING_FINE, "no SELinux");
	else if (err)
		finding_say(finding, FINDING_UNKNOWN, "SELinux: enforce: %s",
			    machine_refusal(machine, err, why, sizeof(why)));
	else if (enforces)
		finding_say(finding, FINDING_LIMITED, "SELinux enforces its rules");
	else
		finding_say(finding, FINDING_FINE, "SELinux only warns");
	if (!err && enforces)
		finding_change(finding, "ausearch -m avc tells what it refused");
	/* the first of all modules that say who we are; a NUL may end it, and AppArmor adds its mode */
	if (!machine_line(machine, "/proc/self/attr/current", profile, sizeof(profile)) &&
	    profile[0])
		finding_more(finding, "we are %s", profile);
	if (strstr(profile, "(enforce)")) {
		finding_say(finding, FINDING_LIMITED, "AppArmor enforces this profile");
		finding_change(finding, "aa-complain, or a profile that allows ptrace");
	}
}

void look_code(struct finding_list *list, const struct machine *machine)
{
	look_at_patching(list, machine);
	look_at_sync(list, machine);
	look_at_making(list, machine);
	look_at_policy(list, machine);
}
