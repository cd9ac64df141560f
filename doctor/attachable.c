/* SPDX-License-Identifier: MIT */
/*
 * In which ways a running process can be recorded: what a session checks first (attach.c,
 * inject.c). No thread is stopped and no byte is written, so this cannot see what shows only in
 * stopped threads.
 */
#include "doctor/doctor.h"

#include "base/maps.h"
#include "branch/origin.h"
#include "branch/soft/soft_sanitized.h"
#include "perf/instance.h"
#include "process/agentpath.h"
#include "process/glibc.h"
#include "process/mount_ns.h"
#include "process/reach.h"
#include "process/socket_owner.h"
#include "process/startup.h"
#include "process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <waymark/error.h>

#define AGENT_DESCRIPTORS 5 /* that it has open while it serves a session: join.c */
#define FOLDERS 4	    /* place_candidate() */

struct subject {
	struct finding_list *list;
	struct machine machine; /* those of its trials that are asked for here */
	struct target target;
	int enter;	 /* 0, or why the agent cannot be loaded */
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
	struct finding *finding = finding_add(subject->list, "process", "program");
	const struct target *target = &subject->target;
	int err = target_check(target, detail_of(subject));

	if (target_has_ended(target))
		err = -WM_E_GONE;
	if (err == -EINVAL || err == -WM_E_GONE) {
		finding->is_basic = 1;
		if (err == -EINVAL) /* a kernel thread, or ourselves: the words say all */
			finding_say(finding, FINDING_ABSENT, "%s", subject->words);
		else
			finding_error(finding, err, subject->words);
		return err;
	}
	finding_say(finding, FINDING_FINE, "%s, %s, user %u, %u thread%s", target->comm,
		    *target->exe ? target->exe : "whose file this user may not see", target->uid,
		    target->threads, target->threads == 1 ? "" : "s");
	return 0;
}

static int has_agent(struct target *target)
{
	char dir[SOCKETDIR_BYTES];

	for (unsigned int i = 0; i < FOLDERS; i++)
		if (!place_candidate(target->pid, target->uid, i, dir) &&
		    reach_listens(target, dir))
			return 1;
	return !reach_published(target->pid, dir) && reach_listens(target, dir);
}

/* Why its C library cannot load the agent; 0 also where its loader has not come to it. */
static int libc_refuses(struct subject *subject)
{
	pid_t tid = subject->target.live_tid;
	struct glibc glibc = { 0 };
	struct maps maps = { 0 };
	char path[64];
	int mem, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)tid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return detail_set(detail_of(subject), -errno, "%s", path);
	err = maps_read(&maps, tid);
	if (!err)
		err = glibc_read(&glibc, tid, &maps, mem, detail_of(subject));
	maps_release(&maps);
	close(mem);
	return err == -EAGAIN ? 0 : err;
}

/*
 * A process with other files than ours: its sockets, and perhaps the agent's file, are in its /tmp.
 */
static int folder_refuses(struct subject *subject)
{
	pid_t pid = subject->target.pid;
	char agent[PATH_MAX], dir[SOCKETDIR_BYTES], path[64];
	struct mount_ns apart;
	struct statvfs found;

	mount_ns_of(&apart, pid);
	if (!mount_ns_is_foreign(&apart))
		return 0;
	place_apart(subject->target.uid, dir);
	snprintf(path, sizeof(path), "/proc/%d/root/tmp", (int)pid);
	if (statvfs(path, &found) && errno != EACCES)
		return detail_set(detail_of(subject), -WM_E_SOCKET_DIR,
				  "%s, as the process sees it: %s", dir, strerror(errno));
	if (found.f_flag & ST_RDONLY)
		return detail_set(detail_of(subject), -WM_E_SOCKET_DIR,
				  "%s, as the process sees it: %s", dir, strerror(EROFS));
	if (found.f_flag & ST_NOEXEC && !agentpath_find(agent) && !mount_ns_shares(pid, agent))
		return detail_set(detail_of(subject), -WM_E_INJECT,
				  "the agent's file would be copied to %s, and nothing may be "
				  "executed there (noexec)",
				  dir);
	return 0;
}

/* What the agent with a buffer of 16 MiB, and the engine, take of a limit; measured. */
static const struct need {
	enum __rlimit_resource resource;
	const char *used, *words; /* of /proc/PID/status; NULL: of one file */
	uint64_t agent_kib, engine_kib;
} needs[] = {
	{ RLIMIT_AS, "VmSize", "RLIMIT_AS, ulimit -v", 132 << 10, UINT64_C(9) << 20 },
	{ RLIMIT_DATA, "VmData", "RLIMIT_DATA, ulimit -d", 66 << 10, UINT64_C(33) << 20 },
	{ RLIMIT_FSIZE, NULL, "RLIMIT_FSIZE, ulimit -f", 17 << 10, 0 },
};

static void look_at_limits(struct subject *subject, struct finding *finding, int is_engine)
{
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		uint64_t kib = is_engine ? needs[i].engine_kib : needs[i].agent_kib;
		pid_t pid = subject->target.live_tid;
		long used = needs[i].used ? target_status_number(pid, needs[i].used) : 0;
		struct rlimit limit;

		if (prlimit(pid, needs[i].resource, NULL, &limit) ||
		    limit.rlim_cur == RLIM_INFINITY ||
		    limit.rlim_cur / 1024 >= (uint64_t)(used > 0 ? used : 0) + kib)
			continue;
		finding_say(finding, FINDING_UNKNOWN,
			    "a limit may be too low: %" PRIu64
			    " KiB (%s); Waymark takes some %" PRIu64,
			    (uint64_t)limit.rlim_cur / 1024, needs[i].words, kib);
		finding_change(finding,
			       is_engine ? "raise it: prlimit --pid PID"
					 : "raise it: prlimit --pid PID; or try --buffer 1M");
	}
}

/* Without /proc the agent finds no threads to stop. */
static void look_at_proc(struct subject *subject, struct finding *finding)
{
	struct stat found;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root/proc/self", (int)subject->target.pid);
	if (!lstat(path, &found) || errno != ENOENT)
		return;
	finding_say(finding, FINDING_LIMITED, "%s: only places of the form byte can be probed",
		    wm_error_text(WM_E_NO_PROC));
	finding_change(finding, wm_error_hint(WM_E_NO_PROC));
}

static int enter_refuses(struct subject *subject, int listens)
{
	const struct target *target = &subject->target;
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
	if (!err)
		err = folder_refuses(subject);
	if (!err)
		err = target_access(target, detail_of(subject));
	if (!err && target_lacks_threads(target))
		err = target_thread_limit(target, -WM_E_INJECT, detail_of(subject));
	return err ? err : libc_refuses(subject);
}

static struct finding *look_at_way(struct subject *subject, const char *name, int err,
				   const char *events)
{
	struct finding *finding = finding_add(subject->list, "ways", name);

	if (err)
		finding_error(finding, err, subject->words);
	else
		finding_say(finding, FINDING_FINE, "waymark record -p %d -e %s",
			    (int)subject->target.pid, events);
	return finding;
}

static void look_at_places(struct subject *subject)
{
	struct target *target = &subject->target;
	int listens = has_agent(target);
	struct finding *finding;

	subject->enter = enter_refuses(subject, listens);
	finding = look_at_way(subject, "markers and probes", subject->enter,
			      "marker:..., func:...");
	if (subject->enter)
		return;
	if (!listens && target_lacks_descriptors(target->pid, AGENT_DESCRIPTORS)) {
		finding_error(finding, WM_E_NO_DESCRIPTORS, "");
		finding->state = FINDING_LIMITED;
	}
	look_at_proc(subject, finding);
	if (!listens)
		look_at_limits(subject, finding, 0);
	subject->is_unknown = finding->state == FINDING_UNKNOWN;
	if (target_may_stop_itself(target))
		return;
	if (target_may_be_stopped(target)) {
		finding_say(finding, finding->state,
			    "it is not dumpable, so waymark stops its threads for it");
		return;
	}
	finding_say(finding, FINDING_LIMITED,
		    "it is not dumpable, as a process is that changed its user, and this user may "
		    "not stop its threads: only places of the form byte can be probed");
	finding_change(finding, wm_error_hint(WM_E_NO_PTRACE));
}

static int soft_refuses(struct subject *subject, const struct origin_state *state)
{
	const struct target *target = &subject->target;
	int err;

	if (state->error)
		return detail_set(detail_of(subject), state->error, "%s", state->detail);
	err = target_may_trace(target, detail_of(subject));
	if (err)
		return err;
	if (target->seccomp)
		return detail_set(detail_of(subject), -WM_E_ENGINE_REFUSED,
				  "its first thread is under a seccomp filter");
	if (target->state == 'T')
		return detail_set(detail_of(subject), -WM_E_STOPPED, "kill -CONT %d",
				  (int)target->pid);
	return 0;
}

static void look_at_trails(struct subject *subject)
{
	static const char *const names[ORIGINS] = { [ORIGIN_PT] = "trail/pt/",
						    [ORIGIN_BTS] = "trail/bts/",
						    [ORIGIN_SOFT] = "trail/soft/",
						    [ORIGIN_STEP] = "trail/step/" };
	const struct origin_machine here = { 0 };
	struct origin_state states[ORIGINS];

	origins_look(states, &here);
	for (int i = 0; i < ORIGINS; i++) {
		int err = states[i].error;
		struct finding *finding;

		if (i == ORIGIN_SOFT)
			err = soft_refuses(subject, &states[i]);
		else if (i == ORIGIN_STEP)
			err = target_may_trace(&subject->target, detail_of(subject));
		else if (err)
			continue; /* the machine has no such unit: waymark doctor shows it */
		finding = look_at_way(subject, names[i], err, names[i]);
		if (i == ORIGIN_SOFT && !err)
			look_at_limits(subject, finding, 1);
		if (i == ORIGIN_SOFT && !err && soft_is_sanitized(subject->target.pid))
			finding_say(
				finding, finding->state,
				"it is built with a sanitizer: launch it where attaching fails");
	}
}

static void look_at_watches(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "ways", "watches from outside");
	pid_t tid = subject->target.live_tid;
	enum finding_state outside;

	look_registers(finding, instance_free_registers(tid, -1), tid, &subject->machine);
	outside = finding->state;
	finding = finding_add(subject->list, "ways", "watches from inside");
	if (!target_may_stop_itself(&subject->target))
		finding_say(
			finding, FINDING_ABSENT,
			"it may not stop its own threads: waymark watches from outside by itself");
	else if (subject->enter)
		finding_say(finding, FINDING_ABSENT, "they need the agent, which cannot be loaded");
	else if (subject->is_unknown)
		finding_say(finding, FINDING_UNKNOWN,
			    "they need the agent: see markers and probes");
	else if (outside < FINDING_LIMITED)
		finding_say(finding, outside, "see watches from outside");
	else if (subject->machine.trials[TRIAL_BREAKPOINT_SIGNAL].state != TRIAL_WORKS)
		look_trial(finding, TRIAL_BREAKPOINT_SIGNAL, &subject->machine);
	else
		finding_say(finding, outside, "waymark watch -p %d, with values",
			    (int)subject->target.pid);
}

/* How many ways there are. Without one, the command fails. */
static void sum_up(struct finding_list *list)
{
	size_t count = 0, ways = 0;
	struct finding *finding;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->all[i].group, "ways") != 0)
			continue;
		ways++;
		count += list->all[i].state >= FINDING_LIMITED;
	}
	finding = finding_add(list, "ways", "summary");
	finding->is_basic = 1;
	if (count)
		finding_say(
			finding, count < ways ? FINDING_LIMITED : FINDING_FINE,
			"it can be recorded in %zu of these %zu ways, as far as shows from outside: "
			"rules of its own do not (Landlock, PR_SET_MDWE, SELinux)",
			count, ways);
	else
		finding_say(finding, FINDING_ABSENT, "it cannot be recorded");
}

int doctor_look_at(struct finding_list *list, pid_t pid)
{
	struct subject subject = { .list = list };
	int err = target_read(&subject.target, pid);

	if (err)
		return err;
	if (look_at_program(&subject))
		return 0;
	subject.machine.is_filtered = machine_is_filtered();
	trial_ask(TRIAL_BREAKPOINT_WRITE, &subject.machine.trials[TRIAL_BREAKPOINT_WRITE]);
	trial_ask(TRIAL_BREAKPOINT_SIGNAL, &subject.machine.trials[TRIAL_BREAKPOINT_SIGNAL]);
	look_at_places(&subject);
	look_at_trails(&subject);
	look_at_watches(&subject);
	sum_up(list);
	return 0;
}
