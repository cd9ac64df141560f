/* SPDX-License-Identifier: MIT */
/*
 * In which ways a running process can be recorded: what a session checks first, then a trial in the
 * process, up to where the agent would be loaded (injector_try()) or the engine would begin
 * (soft_attach_try()), and back.
 */
#include "record/doctor/doctor.h"

#include "record/perf/instance.h"
#include "record/session/session.h"
#include "record/trail/origin.h"
#include "record/trail/soft/soft_attach.h"
#include "target/process/inject.h"
#include "target/process/mount_ns.h"
#include "target/process/reach.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define AGENT_DESCRIPTORS 5 /* that it has open while it serves a session: join.c */
#define AGENT_THREADS 8	    /* that it has for a moment, and a few: other processes count, too */
#define FOLDERS 4	    /* socket_place_candidate() */

struct subject {
	struct check_list *list;
	struct machine machine; /* those of its trials that are asked for here */
	struct target target;
	int enter;	 /* of enter_tries() */
	int is_unknown;	 /* whether it can be */
	char words[512]; /* about the last error */
};

static struct detail detail_of(struct subject *subject)
{
	subject->words[0] = '\0';
	return (struct detail){ subject->words, sizeof(subject->words) };
}

/* 0, or why there is no more to look at. */
static int look_at_program(struct subject *subject)
{
	struct check *check = check_add(subject->list, "process", "program");
	const struct target *target = &subject->target;
	int err = target_check(target, detail_of(subject));

	if (target_has_ended(target))
		err = -WM_E_GONE;
	if (err == -EINVAL || err == -WM_E_GONE) {
		check->is_basic = 1;
		if (err == -EINVAL) /* a kernel thread, or ourselves: the words say all */
			check_say(check, CHECK_ABSENT, "%s", subject->words);
		else
			check_error(check, err, subject->words);
		return err;
	}
	check_say(check, CHECK_FINE, "%s, %s, user %u, %u thread%s", target->comm,
		  *target->exe ? target->exe : "whose file this user may not see", target->uid,
		  target->threads, target->threads == 1 ? "" : "s");
	return 0;
}

static int has_agent(struct target *target)
{
	char dir[SOCKETDIR_BYTES];

	for (unsigned int i = 0; i < FOLDERS; i++)
		if (!socket_place_candidate(target->pid, target->uid, i, dir) &&
		    reach_listens(target, dir))
			return 1;
	return !reach_published(target->pid, dir) && reach_listens(target, dir);
}

#define LOCKED "Max locked memory"

/* What the agent takes of a limit with a buffer of 32 MiB; measured. */
static const struct need {
	const char *name, *used; /* of /proc/PID/limits, of /proc/PID/status; NULL: of one file */
	const char *words;
	uint64_t kib;
} needs[] = {
	{ "Max address space", "VmSize", "RLIMIT_AS, ulimit -v", 148 << 10 },
	{ "Max data size", "VmData", "RLIMIT_DATA, ulimit -d", 66 << 10 },
	{ "Max file size", NULL, "RLIMIT_FSIZE, ulimit -f", 33 << 10 },
	{ LOCKED, "VmLck", "RLIMIT_MEMLOCK, ulimit -l", 148 << 10 },
};

/* It may lock all that it maps (mlockall(2)), as the kernel does not report, and is not exempt. */
static int may_lock(pid_t pid)
{
	return target_status_number(pid, "VmLck") > 0 &&
	       !(target_status_mask(pid, "CapEff") >> CAP_IPC_LOCK & 1);
}

static void look_at_limits(struct subject *subject, struct check *check)
{
	uint64_t threads = target_threads_left(&subject->target);

	if (threads < AGENT_THREADS) {
		check_say(check, CHECK_UNKNOWN,
			  "it may have no room for the agent's threads: about %" PRIu64
			  " more are allowed (RLIMIT_NPROC, pids.max of its cgroup)",
			  threads);
		check_change(check, "raise the limit: prlimit --pid PID --nproc=unlimited");
	}
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		pid_t pid = subject->target.live_tid;
		long used = needs[i].used ? target_status_number(pid, needs[i].used) : 0;
		uint64_t kib = target_limit(pid, needs[i].name) / 1024;

		if ((!strcmp(needs[i].name, LOCKED) && !may_lock(pid)) ||
		    kib >= (uint64_t)(used > 0 ? used : 0) + needs[i].kib)
			continue;
		check_say(check, CHECK_UNKNOWN,
			  "a limit may be too low: %" PRIu64
			  " KiB (%s); Waymark takes some %" PRIu64,
			  kib, needs[i].words, needs[i].kib);
		check_change(check, "raise it: prlimit --pid PID; or try --buffer 1M");
	}
}

/* 0; 1: its agent cannot stop its threads; or why no agent can be loaded. */
static int enter_tries(struct subject *subject, int listens)
{
	const struct target *target = &subject->target;
	char agent[PATH_MAX], dir[SOCKETDIR_BYTES];
	int err;

	if (target->uid != geteuid() && geteuid())
		return target_denied(target, detail_of(subject));
	err = trial_need(TRIAL_CODE_CHANGE, -WM_E_CODE_CHANGE, detail_of(subject));
	if (err || listens)
		return err;
	if (!mount_ns_knows_us(target->pid))
		return detail_set(detail_of(subject), -WM_E_PEER_UID,
				  "its user namespace does not know user %u", geteuid());
	err = target_check(target, detail_of(subject));
	if (!err && target_lacks_threads(target))
		err = target_thread_limit(target, -WM_E_INJECT, detail_of(subject));
	if (!err)
		err = session_attach_place(target, NULL, agent, dir, detail_of(subject));
	if (err)
		return err;
	err = injector_try(target->pid, agent, dir, subject->words, sizeof(subject->words));
	socketdir_leave(dir);
	return err;
}

static struct check *look_at_way(struct subject *subject, const char *name, int err,
				 const char *events)
{
	struct check *check = check_add(subject->list, "ways", name);

	if (err < 0)
		check_error(check, err, subject->words);
	else
		check_say(check, CHECK_FINE, "waymark record -p %d -e %s", (int)subject->target.pid,
			  events);
	return check;
}

static void look_at_places(struct subject *subject)
{
	struct target *target = &subject->target;
	int listens = has_agent(target);
	struct check *check;

	subject->enter = enter_tries(subject, listens);
	check = look_at_way(subject, "markers and probes", subject->enter, "marker:..., func:...");
	if (subject->enter < 0)
		return;
	if (!listens && target_lacks_descriptors(target->pid, AGENT_DESCRIPTORS)) {
		check_error(check, WM_E_NO_DESCRIPTORS, "");
		check->state = CHECK_LIMITED;
	}
	if (subject->enter) {
		check_say(check, CHECK_LIMITED, "%s: only places of the form byte can be probed",
			  wm_error_text(WM_E_NO_PROC));
		check_change(check, wm_error_hint(WM_E_NO_PROC));
	}
	if (!listens)
		look_at_limits(subject, check);
	subject->is_unknown = check->state == CHECK_UNKNOWN;
	if (target_may_stop_itself(target))
		return;
	if (target_may_be_stopped(target)) {
		check_say(check, check->state,
			  "it is not dumpable, so waymark stops its threads for it");
		return;
	}
	check_say(check, CHECK_LIMITED,
		  "it is not dumpable, as a process is that changed its user, and this user may "
		  "not stop its threads: only places of the form byte can be probed");
	check_change(check, wm_error_hint(WM_E_NO_PTRACE));
}

static int soft_tries(struct subject *subject, const struct origin_state *state)
{
	const struct target *target = &subject->target;
	int err;

	if (state->error)
		return detail_set(detail_of(subject), state->error, "%s", state->detail);
	err = target_may_trace(target, detail_of(subject));
	if (!err && target->state == 'T')
		err = detail_set(detail_of(subject), -WM_E_STOPPED, "kill -CONT %d",
				 (int)target->pid);
	return err ? err : soft_attach_try(target->pid, detail_of(subject));
}

static void look_at_trails(struct subject *subject)
{
	static const char *const names[ORIGINS] = {
		[ORIGIN_PT] = "trail/pt/", [ORIGIN_BTS] = "trail/bts/", [ORIGIN_SOFT] = "trail/soft/"
	};
	const struct origin_machine here = { 0 };
	struct origin_state states[ORIGINS];

	origins_look(states, &here);
	for (int i = 0; i < ORIGINS; i++) {
		int err = states[i].error;

		if (i == ORIGIN_SOFT)
			err = soft_tries(subject, &states[i]);
		else if (err)
			continue; /* the machine has no such unit: waymark doctor shows it */
		look_at_way(subject, names[i], err, names[i]);
	}
}

static void look_at_watches(struct subject *subject)
{
	struct check *check = check_add(subject->list, "ways", "watches from outside");
	pid_t tid = subject->target.live_tid;
	enum check_state outside;

	doctor_look_registers(check, instance_free_registers(tid, -1), tid, &subject->machine);
	outside = check->state;
	check = check_add(subject->list, "ways", "watches from inside");
	if (!target_may_stop_itself(&subject->target))
		check_say(
			check, CHECK_ABSENT,
			"it may not stop its own threads: waymark watches from outside by itself");
	else if (subject->enter)
		check_say(check, CHECK_ABSENT, "they need the agent, which %s",
			  subject->enter < 0 ? "cannot be loaded" : "cannot stop its threads");
	else if (subject->is_unknown)
		check_say(check, CHECK_UNKNOWN, "they need the agent: see markers and probes");
	else if (outside < CHECK_LIMITED)
		check_say(check, outside, "see watches from outside");
	else if (subject->machine.trials[TRIAL_BREAKPOINT_SIGNAL].state != TRIAL_WORKS)
		doctor_look_trial(check, TRIAL_BREAKPOINT_SIGNAL, &subject->machine);
	else
		check_say(check, outside, "waymark watch -p %d, with values",
			  (int)subject->target.pid);
}

/* How many ways there are. Without one, the command fails. */
static void sum_up(struct check_list *list)
{
	size_t count = 0, ways = 0;
	struct check *check;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->all[i].group, "ways") != 0)
			continue;
		ways++;
		count += list->all[i].state >= CHECK_LIMITED;
	}
	check = check_add(list, "ways", "summary");
	check->is_basic = 1;
	if (count)
		check_say(check, count < ways ? CHECK_LIMITED : CHECK_FINE,
			  "it can be recorded in %zu of these %zu ways", count, ways);
	else
		check_say(check, CHECK_ABSENT, "it cannot be recorded");
}

int doctor_look_at(struct check_list *list, pid_t pid)
{
	struct subject subject = { .list = list };
	int err = target_read(&subject.target, pid);

	if (err)
		return err;
	if (look_at_program(&subject))
		return 0;
	subject.machine.is_filtered = doctor_is_filtered();
	trial_ask(TRIAL_BREAKPOINT_WRITE, &subject.machine.trials[TRIAL_BREAKPOINT_WRITE]);
	trial_ask(TRIAL_BREAKPOINT_SIGNAL, &subject.machine.trials[TRIAL_BREAKPOINT_SIGNAL]);
	look_at_places(&subject);
	look_at_trails(&subject);
	look_at_watches(&subject);
	sum_up(list);
	return 0;
}
