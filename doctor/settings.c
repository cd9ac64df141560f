/* SPDX-License-Identifier: MIT */
/*
 * Settings that explain the answers of trials: policies, privileges, namespaces, perf. This file
 * only reads.
 */
#include "doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <waymark/error.h>

#define BIT(capability) (UINT64_C(1) << (capability))
#define PERFMON (BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN))
#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define UNITS "/sys/bus/event_source/devices"

void look_policy(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "code", "policies");
	char profile[256] = "";
	long enforces = 0;
	int err = machine_number("/sys/fs/selinux/enforce", &enforces);

	(void)machine;
	if (err)
		finding_say(finding, err == -ENOENT ? FINDING_FINE : FINDING_UNKNOWN, "%s",
			    err == -ENOENT ? "no SELinux" : wm_error_name(err));
	else if (!enforces)
		finding_say(finding, FINDING_FINE, "SELinux only warns");
	else
		finding_say(finding, FINDING_LIMITED, "SELinux enforces its rules");
	if (enforces)
		finding_change(finding, "ausearch -m avc shows what it refused");
	if (machine_line("/proc/self/attr/current", profile, sizeof(profile)) || !profile[0])
		return;
	finding_more(finding, "this process is %s", profile);
	if (strstr(profile, "(enforce)")) {
		finding_say(finding, FINDING_LIMITED, "AppArmor enforces this profile");
		finding_change(finding, "aa-complain, or a profile that allows ptrace");
	}
}

/* ---- privileges ---- */

static void look_at_capabilities(struct finding_list *list)
{
	static const char *const names[64] = { [CAP_SYS_ADMIN] = "CAP_SYS_ADMIN",
					       [CAP_PERFMON] = "CAP_PERFMON",
					       [CAP_SYS_PTRACE] = "CAP_SYS_PTRACE" };
	struct finding *finding = finding_add(list, "permissions", "capabilities");
	uint64_t all = machine_capabilities();

	for (int i = 0; i < 64; i++)
		if (names[i] && all & BIT(i))
			finding_more(finding, "%s", names[i]);
	finding->state = FINDING_FINE;
	if (!(all & PERFMON) || !(all & BIT(CAP_SYS_PTRACE))) {
		finding_say(finding, FINDING_LIMITED, "%s", finding->found[0] ? "" : "none of use");
		finding_change(finding,
			       "for kernel code, whole CPUs and programs of other users: setcap "
			       "cap_perfmon,cap_sys_ptrace+ep waymark, or root");
	}
	if (prctl(PR_GET_DUMPABLE) != 1)
		finding_say(finding, FINDING_LIMITED,
			    "waymark gained privileges, so root owns its files in /proc");
}

static void look_at_filter(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "permissions", "seccomp");

	if (!machine->is_filtered) {
		finding_say(finding, FINDING_FINE, "no filter");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "this process is under a filter; trials show what it refuses");
	finding_change(finding, "a profile that allows ptrace, perf_event_open and membarrier; "
				"with Docker: --cap-add SYS_PTRACE --cap-add PERFMON");
}

static void look_at_scope(struct finding_list *list)
{
	struct finding *finding = finding_add(list, "permissions", "ptrace_scope");
	long scope = 0;
	int err = machine_number("/proc/sys/kernel/yama/ptrace_scope", &scope);

	if (err) {
		finding_say(finding, err == -ENOENT ? FINDING_FINE : FINDING_UNKNOWN, "%s",
			    err == -ENOENT ? "no Yama" : wm_error_name(err));
		return;
	}
	finding_say(finding,
		    !scope || (scope < 3 && machine_capabilities() & BIT(CAP_SYS_PTRACE))
			    ? FINDING_FINE
			    : FINDING_LIMITED,
		    "kernel.yama.ptrace_scope is %ld", scope);
	if (finding->state == FINDING_LIMITED)
		finding_change(finding, "%s",
			       scope == 3 ? "reboot: nothing else lowers 3"
					  : "sysctl kernel.yama.ptrace_scope=0");
}

static void look_at_namespaces(struct finding_list *list)
{
	struct finding *finding = finding_add(list, "permissions", "namespaces");
	int pids = machine_is_apart("pid"), users = machine_is_apart("user");

	if (pids < 0 || users < 0)
		finding_say(finding, FINDING_UNKNOWN, "/proc/self/ns cannot be read");
	else if (!pids && !users)
		finding_say(finding, FINDING_FINE, "the machine's own");
	if (pids > 0) {
		finding_say(finding, FINDING_LIMITED,
			    "this is a container: only its processes can be seen");
		finding_change(
			finding,
			"run waymark outside, with -p and the pid that the process has there");
	}
	if (users > 0)
		finding_say(finding, FINDING_LIMITED,
			    "perf ignores the capabilities of this user namespace");
}

void look_permissions(struct finding_list *list, const struct machine *machine)
{
	look_at_capabilities(list);
	look_at_filter(list, machine);
	look_at_scope(list);
	look_at_namespaces(list);
}

/* ---- perf ---- */

static void look_at_level(struct finding_list *list)
{
	/*
	 * Documentation/admin-guide/sysctl/kernel.rst of Linux; 3 and 4 are Debian's and Ubuntu's
	 */
	static const char *const meanings[] = { "all users may open every event",
						"all users may open events of whole CPUs",
						"all users may open events of kernel code",
						"all users may open events of their own programs",
						"CAP_PERFMON alone may open events" };
	struct finding *finding = finding_add(list, "perf", "perf_event_paranoid");
	int is_above = !!(machine_capabilities() & PERFMON);
	long level;
	int err = machine_number(PARANOID, &level);

	if (err) {
		finding_say(finding, err == -ENOENT ? FINDING_ABSENT : FINDING_UNKNOWN,
			    PARANOID ": %s", wm_error_name(err));
		finding_change(finding, "a kernel with CONFIG_PERF_EVENTS, and /proc mounted");
		return;
	}
	finding_say(finding,
		    is_above || level < 1 ? FINDING_FINE
		    : level < 3		  ? FINDING_LIMITED
					  : FINDING_ABSENT,
		    "%ld: %s", level,
		    meanings[level < 0	 ? 0
			     : level > 2 ? 4
					 : level + 1]);
	if (is_above)
		finding_more(finding, "this process has the capability");
	else if (level >= 1)
		finding_change(finding, "sysctl kernel.perf_event_paranoid=%ld",
			       level > 2 ? 2 : level - 1);
}

static void look_at_units(struct finding_list *list)
{
	struct finding *finding = finding_add(list, "perf", "units");
	char text[FINDING_BYTES - 64] = "";
	struct dirent **names;
	int found = scandir(UNITS, &names, NULL, alphasort);
	size_t used = 0;

	if (found < 0) {
		finding_say(finding, FINDING_UNKNOWN, UNITS ": %s", wm_error_name(-errno));
		return;
	}
	for (int i = 0; i < found; i++) {
		if (names[i]->d_name[0] != '.' && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? " " : "", names[i]->d_name);
		free(names[i]);
	}
	free(names);
	finding_say(finding, used ? FINDING_FINE : FINDING_ABSENT, "%s", used ? text : "none");
}

void look_perf(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding;
	long watchdog = 0;

	look_at_level(list);
	look_at_units(list);
	if (machine->trials[TRIAL_PERF_COUNTER].state != TRIAL_WORKS ||
	    machine_number("/proc/sys/kernel/nmi_watchdog", &watchdog) || watchdog <= 0)
		return;
	finding = finding_add(list, "perf", "nmi_watchdog");
	finding_say(finding, FINDING_LIMITED, "the kernel's NMI watchdog holds a counter");
	finding_change(finding, "sysctl kernel.nmi_watchdog=0");
}
