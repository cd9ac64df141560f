/* SPDX-License-Identifier: MIT */
/* Who we are, and whom we may trace. */
#include "session/doctor/look.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCOPE "/proc/sys/kernel/yama/ptrace_scope"

static const struct {
	int bit;
	const char *name;
} capabilities[] = {
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
	{ CAP_PERFMON, "CAP_PERFMON" },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
	{ CAP_IPC_LOCK, "CAP_IPC_LOCK" },
	{ CAP_KILL, "CAP_KILL" },
};

#define CAPABILITIES (sizeof(capabilities) / sizeof(*capabilities))
#define BIT(capability) (UINT64_C(1) << (capability))

static void look_at_user(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "rights", "capabilities");
	uint64_t all = machine_capabilities(machine);
	char text[256] = "", space[64];
	size_t used = 0;

	if (machine_value(machine, "/proc/self/status", "CapEff", text, sizeof(text))) {
		finding_say(finding, FINDING_UNKNOWN, "/proc/self/status can't be read");
		return;
	}
	text[0] = '\0';
	for (size_t i = 0; i < CAPABILITIES; i++)
		if (all & BIT(capabilities[i].bit))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? " " : "", capabilities[i].name);
	finding_say(finding,
		    all & (BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN)) && all & BIT(CAP_SYS_PTRACE)
			    ? FINDING_FINE
			    : FINDING_LIMITED,
		    "%s", used ? text : "none of those that widen what can be seen");
	if (finding->state != FINDING_FINE)
		finding_change(finding, "setcap cap_perfmon,cap_sys_ptrace+ep waymark, or root: "
					"kernel code, whole processors, others' programs");
	if (machine_namespace(machine, "user", space, sizeof(space)) ||
	    !strcmp(space, MACHINE_FIRST_USERS))
		return;
	finding_say(
		finding, FINDING_LIMITED,
		"in a user namespace of its own, whose capabilities count for nothing with perf");
}

static void look_at_self(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "rights", "dumpable");
	int dumpable = machine_calls(machine)->dumpable();

	if (dumpable == 1) {
		finding_say(finding, FINDING_FINE, "waymark may be traced as other programs are");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "waymark itself may not be traced (%d), as programs that gain rights: "
		    "its files in /proc are root's",
		    dumpable);
	finding_change(finding, "a waymark without file capabilities; fs.suid_dumpable=1");
}

static void look_at_filter(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "rights", "seccomp");
	long mode = machine_seccomp(machine);
	char filters[32];

	if (mode < 0) {
		finding_say(finding, FINDING_UNKNOWN, "/proc/self/status has no line Seccomp");
	} else if (!mode) {
		finding_say(finding, FINDING_FINE, "no filter");
	} else {
		finding_say(finding, FINDING_LIMITED, "we are under a filter%s",
			    mode == 1 ? ", the strict one" : "");
		if (!machine_value(machine, "/proc/self/status", "Seccomp_filters", filters,
				   sizeof(filters)))
			finding_more(finding, "of them there are %s", filters);
		finding_more(finding, "what it refuses is told where it was tried");
		finding_change(finding, "a profile that allows ptrace, perf_event_open and "
					"membarrier; with Docker: --cap-add SYS_PTRACE "
					"--cap-add PERFMON");
	}
}

/* What would have this allowed, as far as it can be told. */
static void change_scope(struct finding *finding, const struct machine *machine, int err)
{
	long scope;

	if (err == -ENOSYS || err == -ECANCELED || machine_seccomp(machine) > 0)
		finding_change(finding, "allow ptrace(2) in the filter");
	if (machine_number(machine, SCOPE, &scope))
		return;
	finding_more(finding, "kernel.yama.ptrace_scope is %ld", scope);
	if (scope == 3)
		finding_change(finding, "it is 3 until the machine is started anew");
	else if (scope == 2)
		finding_change(finding,
			       "root, or CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=1");
	else if (scope == 1)
		finding_change(finding,
			       "sysctl kernel.yama.ptrace_scope=0, or root, or CAP_SYS_PTRACE");
}

static void look_at_others(struct finding *finding, const struct machine *machine)
{
	int others = 0, granted = machine_calls(machine)->trace_others(&others);
	char why[128];

	if (granted < 0)
		finding_say(finding, FINDING_UNKNOWN, "/proc: %s",
			    machine_refusal(machine, granted, why, sizeof(why)));
	else if (!others)
		finding_say(finding, FINDING_UNKNOWN, "none runs that could be tried");
	else
		finding_say(finding, granted == others ? FINDING_FINE : FINDING_LIMITED,
			    "%d of %d may be attached to", granted, others);
	if (granted < others)
		finding_change(finding, "root, or CAP_SYS_PTRACE");
}

static void look_at_tracing(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "rights", "programs it starts");
	int child = machine_calls(machine)->trace_child(), stranger;
	char why[128];

	finding->is_basic = 1;
	if (child >= 0) {
		finding_say(finding, FINDING_FINE, "may be traced (a child was)");
	} else {
		finding_say(finding, FINDING_ABSENT, "may not be traced: %s",
			    machine_refusal(machine, child, why, sizeof(why)));
		change_scope(finding, machine, child);
	}
	finding = finding_add(list, "rights", "programs of this user");
	stranger = machine_calls(machine)->trace_stranger();
	if (stranger >= 0) {
		finding_say(finding, FINDING_FINE, "may be attached to: -p PID (one was taken)");
	} else {
		finding_say(finding, FINDING_ABSENT, "may not be attached to: %s",
			    machine_refusal(machine, stranger, why, sizeof(why)));
		change_scope(finding, machine, stranger);
	}
	look_at_others(finding_add(list, "rights", "programs of others"), machine);
}

static void look_at_container(struct finding_list *list, const struct machine *machine)
{
	struct finding *finding = finding_add(list, "rights", "namespaces");
	char processes[64], users[64];
	int err = machine_namespace(machine, "pid", processes, sizeof(processes));

	if (!err)
		err = machine_namespace(machine, "user", users, sizeof(users));
	if (err) {
		finding_say(finding, FINDING_UNKNOWN, "/proc/self/ns can't be read");
		return;
	}
	finding_say(finding, FINDING_FINE, "the machine's own");
	if (!strcmp(processes, MACHINE_FIRST_PIDS) && !strcmp(users, MACHINE_FIRST_USERS))
		return;
	finding->found[0] = '\0';
	finding_say(finding, FINDING_LIMITED,
		    "we are in a container (%s %s): only its processes are seen", processes, users);
	finding_change(finding, "run waymark outside, with -p and the pid as it is known there");
}

void look_rights(struct finding_list *list, const struct machine *machine)
{
	look_at_user(list, machine);
	look_at_self(list, machine);
	look_at_filter(list, machine);
	look_at_tracing(list, machine);
	look_at_container(list, machine);
}
