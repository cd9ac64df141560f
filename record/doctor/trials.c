/* SPDX-License-Identifier: MIT */
/* The table of trials (target/trial/trial.def) as checks. */
#include "record/doctor/doctor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PERF(level)                                                                                \
	"sysctl kernel.perf_event_paranoid=" level ", or setcap cap_perfmon+ep waymark, or root"

/* How to get a permission that the kernel refused, by the trial of that permission. */
static const char *const permits[TRIAL_COUNT] = {
	[TRIAL_PERF_USER] = PERF("2"),
	[TRIAL_PERF_KERNEL] = PERF("1"),
	[TRIAL_PERF_CPU] = PERF("0"),
	[TRIAL_PTRACE_CHILD] = "sysctl kernel.yama.ptrace_scope=1, or root",
	[TRIAL_PTRACE_USER] = "sysctl kernel.yama.ptrace_scope=0, or setcap cap_sys_ptrace+ep "
			      "waymark, or root",
	[TRIAL_MEMFD] = "sysctl vm.memfd_noexec=1",
	[TRIAL_TSC_RATE] = "start waymark from a program that may read it: prctl(2), PR_SET_TSC",
};

/* Whether this process's capabilities count for a user namespace alone, which perf ignores. */
static int has_user_namespace(void)
{
	char text[64] = "";

	/* include/linux/proc_ns.h of Linux */
	return readlink("/proc/self/ns/user", text, sizeof(text) - 1) > 0 &&
	       strcmp(text, "user:[4026531837]") != 0;
}

static int is_refusal(int err)
{
	return err == -EPERM || err == -EACCES || err == -ENOSYS || err == -ECANCELED;
}

void trials_look_remedy(struct check *check, enum trial trial, const struct trial_answer *answer,
			int is_filtered)
{
	const struct trial_row *row = trial_row(trial);
	const char *permit = permits[row->needs];
	int err = answer->error;

	if (is_filtered && is_refusal(err) && err != -EACCES) {
		check_say(check, check->state, "this process is under a seccomp filter");
		check_change(check, "allow the call in the filter; with Docker: --cap-add "
				    "PERFMON --cap-add SYS_PTRACE");
	} else if (permit && (err == -EPERM || err == -EACCES)) {
		check_change(check, permit);
		if (has_user_namespace())
			check_change(check, "outside of this user namespace");
	} else if (answer->state == TRIAL_FAILS) {
		check_change(check, row->instead);
	} else if (err == -ENOSPC) {
		check_change(check, "end the programs that hold the debug registers");
	} else if (err == -EAGAIN || err == -ETIMEDOUT) {
		check_change(
			check,
			"try again when the machine is less busy; if it fails again, take the mechanism for broken");
	}
}

void trials_look_one(struct check *check, enum trial trial, const struct machine *machine)
{
	const struct trial_row *row = trial_row(trial);
	const struct trial_answer *answer = &machine->trials[trial];
	const struct trial_answer *permission = &machine->trials[row->needs];
	char reason[CHECK_BYTES];

	trial_reason(trial, answer, reason, sizeof(reason));
	check->is_basic = row->is_basic;
	check_say(check,
		  answer->state == TRIAL_WORKS	   ? CHECK_FINE
		  : answer->state == TRIAL_UNKNOWN ? CHECK_UNKNOWN
		  : row->is_limit		   ? CHECK_LIMITED
						   : CHECK_ABSENT,
		  "%s", reason + strlen(row->name) + strlen(": "));
	if (answer->state != TRIAL_WORKS) {
		trials_look_remedy(check, trial, answer, machine->is_filtered);
	} else if (is_refusal(permission->error)) {
		/* the cache kept it from a command that had the permission */
		trial_reason(row->needs, permission, reason, sizeof(reason));
		check_say(check, CHECK_UNKNOWN, "not in this process: %s", reason);
		trials_look_remedy(check, row->needs, permission, machine->is_filtered);
	}
}

void trials_look(struct check_list *list, const struct machine *machine, const char *area)
{
	for (int i = 0; i < TRIAL_COUNT; i++) {
		const struct trial_row *row = trial_row((enum trial)i);

		if (!strcmp(row->area, area))
			trials_look_one(check_add(list, row->area, row->name), (enum trial)i,
					machine);
	}
}
