/* SPDX-License-Identifier: MIT */
/*
 * Whether a running process can be recorded, and in which ways: what a session checks first
 * (attach.c, inject.c). No thread is stopped and no byte is written, so this cannot see what shows
 * only in stopped threads.
 */
#include "doctor/doctor.h"

#include "base/maps.h"
#include "branch/origin.h"
#include "branch/soft_sanitized.h"
#include "perf/instance.h"
#include "process/agentpath.h"
#include "process/glibc.h"
#include "process/mount_ns.h"
#include "process/reach.h"
#include "process/socket_owner.h"
#include "process/startup.h"
#include "process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define AGENT_DESCRIPTORS 5 /* that it has open while it serves a session: join.c */
#define FOLDERS 4	    /* place_candidate() */

struct subject {
	struct finding_list *list;
	struct machine machine; /* those of its trials that are asked for here */
	struct target target;
	int libc;	 /* 0, or why its C library cannot load the agent */
	int enter;	 /* 0, or why the agent cannot be loaded */
	int trace;	 /* 0, or why its threads cannot be stopped */
	int listens;	 /* it has an agent that answers */
	char words[512]; /* about the last error of these */
};

static struct detail detail_of(struct subject *subject)
{
	subject->words[0] = '\0';
	return (struct detail){ subject->words, sizeof(subject->words) };
}

static struct finding *add(struct subject *subject, const char *name)
{
	return finding_add(subject->list, "process", name);
}

/* A number of /proc/PID/auxv; 0 where it cannot be read. */
static uint64_t auxv_read(pid_t tid, uint64_t type)
{
	Elf64_auxv_t entries[64];
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, entries, sizeof(entries));
	close(fd);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*entries); i++)
		if (entries[i].a_type == type)
			return entries[i].a_un.a_val;
	return 0;
}

/* ---- the process ---- */

/* 0, or why there is no more to look at. */
static int look_at_program(struct subject *subject)
{
	struct finding *finding = add(subject, "program");
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

static void look_at_permission(struct subject *subject)
{
	struct finding *finding = add(subject, "permission");
	int err = target_access(&subject->target, detail_of(subject));

	if (err) {
		finding_error(finding, err, subject->words);
		finding_change(finding, "waymark doctor shows which programs this user may trace");
		return;
	}
	finding_say(finding, FINDING_FINE, "this user may read and change its memory");
	if (!auxv_read(subject->target.live_tid, AT_SECURE))
		return;
	finding_say(
		finding, FINDING_LIMITED,
		"it gained privileges at its start, so waymark cannot launch it with the agent");
	finding_change(finding, "attach to it, as root: -p");
}

static void look_at_tracer(struct subject *subject)
{
	struct finding *finding = add(subject, "tracer");
	struct target tracer;

	if (!subject->target.tracer_pid) {
		finding_say(finding, FINDING_FINE, "no process traces it");
		return;
	}
	if (target_read(&tracer, subject->target.tracer_pid))
		snprintf(tracer.comm, sizeof(tracer.comm), "?");
	finding_say(finding, FINDING_LIMITED, "process %d (%s) traces it",
		    subject->target.tracer_pid, tracer.comm);
	finding_change(finding, "%s", wm_error_hint(WM_E_TRACED));
}

static void look_at_filters(struct subject *subject)
{
	struct finding *finding = add(subject, "seccomp");
	unsigned int mode = subject->target.seccomp;

	finding_say(finding, mode ? FINDING_LIMITED : FINDING_FINE, "%s",
		    !mode	? "its first thread is under no filter"
		    : mode == 1 ? "it is in strict mode"
				: "it is under a filter");
	if (mode)
		finding_change(finding, "%s", wm_error_hint(WM_E_SECCOMP));
}

/* Whether this user may see a folder of it in /proc; else the finding says so. */
static int can_see(const struct subject *subject, struct finding *finding, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)subject->target.live_tid, name);
	if (!access(path, R_OK | X_OK))
		return 1;
	finding_say(finding, FINDING_UNKNOWN, "%s: %s", path, wm_error_name(-errno));
	return 0;
}

static void look_at_descriptors(struct subject *subject)
{
	struct finding *finding = add(subject, "open files");

	if (!can_see(subject, finding, "fd"))
		return;
	if (target_lacks_descriptors(subject->target.pid, AGENT_DESCRIPTORS)) {
		finding_error(finding, WM_E_NO_DESCRIPTORS, "");
		finding->state = FINDING_LIMITED;
	} else {
		finding_say(finding, FINDING_FINE, "it can open %d more, which the agent needs",
			    AGENT_DESCRIPTORS);
	}
}

static void look_at_threads(struct subject *subject)
{
	struct finding *finding = add(subject, "threads");

	if (target_lacks_threads(&subject->target)) {
		target_thread_limit(&subject->target, 0, detail_of(subject));
		finding_say(finding, FINDING_ABSENT, "%s", subject->words);
	} else {
		finding_say(finding, FINDING_FINE,
			    "its limits allow two more, which the agent needs");
	}
}

static void look_at_stops(struct subject *subject)
{
	struct finding *finding = add(subject, "stops");

	if (target_may_stop_itself(&subject->target)) {
		finding_say(finding, FINDING_FINE,
			    "it is dumpable, so it may stop its own threads");
		return;
	}
	if (target_may_be_stopped(&subject->target)) {
		finding_say(finding, FINDING_FINE,
			    "it is not dumpable, so waymark stops its threads for it");
		return;
	}
	finding_say(
		finding, FINDING_LIMITED,
		"it is not dumpable, as a process is that changed its user, so it may not stop its "
		"own threads, nor may this user: of places in code only those of the form byte "
		"can be probed");
	finding_change(finding, "%s", wm_error_hint(WM_E_NO_PTRACE));
}

static void look_at_files(struct subject *subject)
{
	struct finding *finding = add(subject, "files");
	pid_t pid = subject->target.pid;
	char agent[PATH_MAX];
	struct mount_ns apart;

	if (!can_see(subject, finding, "root/"))
		return;
	if (!mount_ns_knows_us(pid)) {
		finding_say(finding, FINDING_ABSENT, "its user namespace does not know user %u",
			    geteuid());
		finding_change(finding, "run waymark as the user of the process");
		return;
	}
	mount_ns_of(&apart, pid);
	finding_say(finding, FINDING_FINE, "it sees %s",
		    mount_ns_is_foreign(&apart) ? "other files, as in a container"
						: "the same files as waymark");
	if (mount_ns_is_foreign(&apart) && !agentpath_find(agent))
		finding_more(finding, "%s",
			     mount_ns_shares(pid, agent) ? "the agent's is among them"
							 : "waymark copies the agent's there");
}

static int libc_read(struct subject *subject, struct glibc *glibc, enum startup *phase)
{
	pid_t tid = subject->target.live_tid;
	struct maps maps = { 0 };
	char path[64];
	int mem, err;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)tid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return detail_set(detail_of(subject), -errno, "%s", path);
	err = maps_read(&maps, tid);
	if (!err)
		err = glibc_read(glibc, tid, &maps, mem, detail_of(subject));
	if (!err)
		*phase = startup_read(tid, mem, glibc);
	maps_release(&maps);
	close(mem);
	return err;
}

static void look_at_libc(struct subject *subject, struct glibc *glibc)
{
	struct finding *finding = add(subject, "C library");
	enum startup phase = STARTUP_OVER;
	int err = libc_read(subject, glibc, &phase);

	if (err == -EAGAIN || (!err && phase == STARTUP_LOADING)) {
		finding_say(finding, FINDING_LIMITED, "the loader still loads its program");
		finding_change(finding, "wait; waymark record waits by itself");
		return;
	}
	subject->libc = err;
	if (err) {
		finding_error(finding, err, subject->words);
		return;
	}
	finding_say(finding, FINDING_FINE, "a glibc that can load the agent");
	if (phase == STARTUP_CONSTRUCTING)
		finding_more(finding, "its libraries are still starting");
}

static void look_at_agent(struct subject *subject, const struct glibc *glibc)
{
	struct finding *finding = add(subject, "agent");
	char dir[SOCKETDIR_BYTES];

	for (unsigned int i = 0; i < FOLDERS && !subject->listens; i++)
		subject->listens = !place_candidate(subject->target.pid, subject->target.uid, i,
						    dir) &&
				   reach_listens(&subject->target, dir);
	if (!subject->listens)
		subject->listens = !reach_published(subject->target.pid, dir) &&
				   reach_listens(&subject->target, dir);
	if (subject->listens)
		finding_say(finding, FINDING_FINE, "it has one, which listens in %s", dir);
	else if (glibc->agent_path[0])
		finding_say(finding, FINDING_FINE, "it has one, which is idle: %s",
			    glibc->agent_path);
	else
		finding_say(finding, FINDING_FINE, "none that listens");
}

/* ---- the ways to record it ---- */

static int enter_refuses(struct subject *subject)
{
	const struct target *target = &subject->target;
	int err;

	if (target->uid != geteuid() && geteuid())
		return target_denied(target, detail_of(subject));
	err = trial_need(TRIAL_CODE_CHANGE, -WM_E_CODE_CHANGE, detail_of(subject));
	if (err || subject->listens)
		return err;
	if (!mount_ns_knows_us(target->pid))
		return detail_set(detail_of(subject), -WM_E_PEER_UID,
				  "its user namespace does not know user %u", geteuid());
	err = target_check(target, detail_of(subject));
	if (!err)
		err = target_access(target, detail_of(subject));
	if (!err && target_lacks_threads(target))
		err = target_thread_limit(target, -WM_E_INJECT, detail_of(subject));
	return err ? err : subject->libc;
}

static int soft_refuses(struct subject *subject, const struct origin_state *state)
{
	const struct target *target = &subject->target;

	if (state->error)
		return detail_set(detail_of(subject), state->error, "%s", state->detail);
	if (subject->trace)
		return target_may_trace(target, detail_of(subject));
	if (target->seccomp)
		return detail_set(detail_of(subject), -WM_E_ENGINE_REFUSED,
				  "its first thread is under a seccomp filter");
	if (target->state == 'T')
		return detail_set(detail_of(subject), -WM_E_STOPPED, "kill -CONT %d",
				  (int)target->pid);
	return 0;
}

static void look_at_way(struct subject *subject, const char *name, int err, const char *events)
{
	struct finding *finding = finding_add(subject->list, "ways", name);

	if (err)
		finding_error(finding, err, subject->words);
	else
		finding_say(finding, FINDING_FINE, "waymark record -p %d -e %s",
			    (int)subject->target.pid, events);
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

		if (i == ORIGIN_SOFT)
			err = soft_refuses(subject, &states[i]);
		else if (i == ORIGIN_STEP && subject->trace)
			err = target_may_trace(&subject->target, detail_of(subject));
		else if (err && i != ORIGIN_STEP)
			continue; /* the machine has no such unit: waymark doctor shows it */
		look_at_way(subject, names[i], err, names[i]);
		if (i == ORIGIN_SOFT && !err && soft_is_sanitized(subject->target.pid))
			finding_more(
				&subject->list->all[subject->list->count - 1],
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
	if (subject->enter)
		finding_say(finding, FINDING_ABSENT, "they need the agent, which cannot be loaded");
	else if (!target_may_stop_itself(&subject->target))
		finding_say(
			finding, FINDING_ABSENT,
			"it may not stop its own threads: waymark watches from outside by itself");
	else if (outside < FINDING_LIMITED)
		finding_say(finding, outside, "see watches from outside");
	else if (subject->machine.trials[TRIAL_BREAKPOINT_SIGNAL].state != TRIAL_WORKS)
		look_trial(finding, TRIAL_BREAKPOINT_SIGNAL, &subject->machine);
	else
		finding_say(finding, outside, "waymark watch -p %d, with values",
			    (int)subject->target.pid);
}

/* The ways that are not absent. */
static void sum_up(struct finding_list *list)
{
	char text[FINDING_BYTES - 64] = "";
	size_t used = 0, count = 0, ways = 0;
	struct finding *finding;

	for (size_t i = 0; i < list->count; i++) {
		const struct finding *way = &list->all[i];

		if (strcmp(way->group, "ways") != 0)
			continue;
		ways++;
		if (way->state < FINDING_LIMITED || used >= sizeof(text))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
					 count++ ? ", " : "", way->name);
	}
	finding = finding_add(list, "ways", "summary");
	finding->is_basic = 1;
	if (count)
		finding_say(finding, count < ways ? FINDING_LIMITED : FINDING_FINE,
			    "it can be recorded: %s", text);
	else
		finding_say(finding, FINDING_ABSENT, "it cannot be recorded");
}

int doctor_look_at(struct finding_list *list, pid_t pid)
{
	struct subject subject = { .list = list };
	struct glibc glibc = { 0 };
	int err = target_read(&subject.target, pid);

	if (err)
		return err;
	if (look_at_program(&subject))
		return 0;
	subject.machine.is_filtered = machine_is_filtered();
	trial_ask(TRIAL_BREAKPOINT_WRITE, &subject.machine.trials[TRIAL_BREAKPOINT_WRITE]);
	trial_ask(TRIAL_BREAKPOINT_SIGNAL, &subject.machine.trials[TRIAL_BREAKPOINT_SIGNAL]);
	subject.trace = target_may_trace(&subject.target, detail_of(&subject));
	look_at_permission(&subject);
	look_at_tracer(&subject);
	look_at_filters(&subject);
	look_at_descriptors(&subject);
	look_at_threads(&subject);
	look_at_stops(&subject);
	look_at_files(&subject);
	look_at_libc(&subject, &glibc);
	look_at_agent(&subject, &glibc);
	subject.enter = enter_refuses(&subject);
	look_at_way(&subject, "markers and probes", subject.enter, "marker:..., func:...");
	look_at_trails(&subject);
	look_at_watches(&subject);
	sum_up(list);
	return 0;
}
