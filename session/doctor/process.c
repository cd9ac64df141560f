/* SPDX-License-Identifier: MIT */
/*
 * Whether a running process can be recorded, and by which ways. What a session would look at first (attach.c, inject.c) is looked at here; no
 * thread is stopped and no byte written, so what only shows once threads stand still is not known.
 */
#include "session/doctor/doctor.h"

#include "base/maps.h"
#include "session/agentpath.h"
#include "session/apart.h"
#include "session/doctor/breakpoints.h"
#include "session/glibc.h"
#include "session/place.h"
#include "session/reach.h"
#include "session/startup.h"
#include "session/target.h"
#include "session/trail/soft_sanitized.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define AGENT_DESCRIPTORS 5 /* as many as it has open while it serves a session: join.c */
#define FOLDERS 4	    /* place_candidate() */

struct subject {
	struct finding_list *list;
	const struct machine *machine;
	struct target target;
	int enter;	 /* 0, or why the agent can't be brought in */
	int trace;	 /* 0, or why its threads can't be stopped */
	int listens;	 /* its agent is there */
	int sigtraps;	 /* registers that can be had with SIGTRAP */
	char words[512]; /* about the first of these that is an error */
};

static struct detail detail_of(struct subject *subject)
{
	subject->words[0] = '\0';
	return (struct detail){ subject->words, sizeof(subject->words) };
}

/* An error's text, with the words that came with it, and what to do about it. */
static void say_error(struct finding *finding, const struct subject *subject, int err)
{
	finding_say(finding, FINDING_ABSENT, "%s", wm_error_text(err));
	if (subject->words[0])
		finding_more(finding, "%s", subject->words);
	if (wm_error_hint(err)[0])
		finding_change(finding, "%s", wm_error_hint(err));
}

/* Whether a folder of it in /proc is closed to us; then it is said. */
static int may_not_see(const struct subject *subject, struct finding *finding, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)subject->target.live_tid, name);
	if (!access(path, R_OK | X_OK))
		return 0;
	finding_say(finding, FINDING_UNKNOWN, "%s: %s", path, strerrorname_np(errno));
	return 1;
}

/* A number of /proc/PID/auxv. 0, or -errno: it may not be read. */
static int auxv_read(pid_t tid, uint64_t type, uint64_t *value)
{
	Elf64_auxv_t entries[64];
	char path[64];
	ssize_t got;
	int fd;

	*value = 0;
	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, entries, sizeof(entries));
	close(fd);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*entries); i++)
		if (entries[i].a_type == type)
			*value = entries[i].a_un.a_val;
	return got <= 0 ? -EACCES : 0;
}

/* ---- what it is ---- */

/* 0, or why there is nothing more to be seen. */
static int look_at_program(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "process", "program");
	const struct target *target = &subject->target;
	int err = target_check(target, detail_of(subject));

	if (target_has_ended(target))
		err = -WM_E_GONE;
	if (err == -EINVAL || err == -WM_E_GONE) {
		finding->is_basic = 1;
		if (err == -EINVAL) /* the kernel's own, or ourselves: the words say all */
			finding_say(finding, FINDING_ABSENT, "%s", subject->words);
		else
			say_error(finding, subject, err);
		return err;
	}
	finding_say(finding, FINDING_FINE, "%s, %s, user %u, %u thread%s", target->comm,
		    *target->exe ? target->exe : "whose file we may not see", target->uid,
		    target->threads, target->threads == 1 ? "" : "s");
	return 0;
}

static void look_at_rights(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "process", "rights");
	uint64_t secure;
	int err = target_access(&subject->target, detail_of(subject));

	if (err) {
		say_error(finding, subject, err);
		finding_change(finding, "waymark doctor says whom this user may trace");
		return;
	}
	finding_say(finding, FINDING_FINE, "we may read and change its memory");
	if (auxv_read(subject->target.live_tid, AT_SECURE, &secure) || !secure)
		return;
	finding_say(
		finding, FINDING_LIMITED,
		"it gained rights when it was started: had it been launched by waymark, it would have no agent");
	finding_change(finding, "attach to it, as root: -p");
}

static void look_at_tracer(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "process", "tracer");
	struct target tracer;

	if (!subject->target.tracer_pid) {
		finding_say(finding, FINDING_FINE, "nobody traces it");
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
	struct finding *finding = finding_add(subject->list, "process", "seccomp");

	if (!subject->target.seccomp) {
		finding_say(finding, FINDING_FINE, "no filter in its first thread");
		return;
	}
	finding_say(finding, FINDING_LIMITED, "%s",
		    subject->target.seccomp == 1 ? "it is in strict mode" : "it is under a filter");
	finding_change(finding, "%s", wm_error_hint(WM_E_SECCOMP));
}

static void look_at_descriptors(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "process", "open files");

	if (may_not_see(subject, finding, "fd"))
		return;
	if (!target_lacks_descriptors(subject->target.pid, AGENT_DESCRIPTORS)) {
		finding_say(finding, FINDING_FINE, "it can open %d more, which the agent needs",
			    AGENT_DESCRIPTORS);
		return;
	}
	finding_say(finding, FINDING_LIMITED, "%s", wm_error_text(WM_E_NO_DESCRIPTORS));
	finding_change(finding, "%s", wm_error_hint(WM_E_NO_DESCRIPTORS));
}

static void look_at_files(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "process", "files");
	pid_t pid = subject->target.pid;
	char agent[PATH_MAX];
	struct apart apart;

	if (may_not_see(subject, finding, "root/"))
		return;
	if (!apart_knows_us(pid)) {
		finding_say(finding, FINDING_ABSENT,
			    "in a user namespace in which user %u is nobody", geteuid());
		finding_change(finding, "run waymark as the user that it runs as");
		return;
	}
	apart_of(&apart, pid);
	if (!apart_is(&apart)) {
		finding_say(finding, FINDING_FINE, "it sees the same as we");
		return;
	}
	finding_say(finding, FINDING_FINE, "it sees others than we, as in a container");
	if (!agentpath_find(agent))
		finding_more(finding, "%s",
			     apart_shares(pid, agent)
				     ? "the agent's is among them"
				     : "the agent's is brought there when it is entered");
}

/* ---- its C library ---- */

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

/* Returns why the agent can't come into it, as far as its C library is concerned. */
static int look_at_libc(struct subject *subject, struct glibc *glibc)
{
	struct finding *finding = finding_add(subject->list, "process", "C library");
	enum startup phase = STARTUP_OVER;
	int err = libc_read(subject, glibc, &phase);

	if (err == -EAGAIN || (!err && phase == STARTUP_LOADING)) {
		finding_say(finding, FINDING_LIMITED, "its program is still being loaded");
		finding_change(finding, "wait; waymark record waits by itself");
		return 0;
	}
	if (err) {
		say_error(finding, subject, err);
		return err;
	}
	finding_say(finding, FINDING_FINE, "a glibc that the agent can be loaded by");
	if (phase == STARTUP_CONSTRUCTING)
		finding_more(finding, "its libraries are still being started");
	return 0;
}

static void look_at_agent(struct subject *subject, const struct glibc *glibc)
{
	struct finding *finding = finding_add(subject->list, "process", "agent");
	char dir[SOCKETDIR_BYTES];

	for (unsigned int i = 0; i < FOLDERS && !subject->listens; i++)
		subject->listens = !place_candidate(subject->target.pid, subject->target.uid, i,
						    dir) &&
				   reach_listens(&subject->target, dir);
	if (subject->listens)
		finding_say(finding, FINDING_FINE, "it has one, which listens in %s", dir);
	else if (glibc->agent_path[0])
		finding_say(finding, FINDING_FINE, "it has one, which rests: %s",
			    glibc->agent_path);
	else
		finding_say(finding, FINDING_FINE, "none that listens");
}

/* ---- which ways ---- */

static void look_at_enter(struct subject *subject, int libc)
{
	struct finding *finding = finding_add(subject->list, "ways", "markers and probes");
	const struct target *target = &subject->target;
	int err;

	if (target->uid != geteuid() && geteuid())
		err = target_denied(target, detail_of(subject));
	else if (subject->listens)
		err = 0;
	else if (!apart_knows_us(target->pid))
		err = detail_set(detail_of(subject), -WM_E_PEER_UID, "user %u is nobody there",
				 geteuid());
	else {
		err = target_check(target, detail_of(subject));
		if (!err)
			err = target_access(target, detail_of(subject));
		if (!err)
			err = libc;
	}
	subject->enter = err;
	if (err)
		say_error(finding, subject, err);
	else
		finding_say(finding, FINDING_FINE, "waymark record -p %d -e marker:..., func:...",
			    (int)target->pid);
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

static void look_at_trails(struct subject *subject)
{
	struct origin_state states[ORIGINS];
	struct finding *finding;
	int err;

	origins_look(states, &subject->machine->origin);
	for (int i = 0; i < ORIGINS; i++) {
		if (states[i].error && i != ORIGIN_SOFT && i != ORIGIN_STEP)
			continue; /* of the machine, and told there */
		finding = finding_add(subject->list, "ways",
				      i == ORIGIN_SOFT	 ? "trail/soft/"
				      : i == ORIGIN_STEP ? "trail/step/"
							 : origin_name((enum origin)i));
		if (i != ORIGIN_SOFT && i != ORIGIN_STEP) {
			finding_say(finding, FINDING_FINE, "trail/%s/",
				    origin_name((enum origin)i));
			continue;
		}
		if (i == ORIGIN_SOFT)
			err = soft_refuses(subject, &states[i]);
		else
			err = subject->trace
				      ? target_may_trace(&subject->target, detail_of(subject))
				      : states[i].error;
		if (err) {
			say_error(finding, subject, err);
			continue;
		}
		finding_say(finding, FINDING_FINE, "waymark record -p %d -e trail/%s/",
			    (int)subject->target.pid, origin_name((enum origin)i));
		if (i == ORIGIN_SOFT && soft_is_sanitized(subject->target.pid))
			finding_more(
				finding,
				"it is built with a sanitizer: launched, not attached to, where "
				"its shadow leaves no room");
	}
}

/* Why a thread of it is given no register, as the kernel says it. */
static void say_registers(struct finding *finding, const struct subject *subject, int err)
{
	char why[256];

	finding_say(finding, FINDING_ABSENT, "perf_event_open(2): %s",
		    machine_refusal(subject->machine, err, why, sizeof(why)));
	if (err == -ENOSPC) {
		machine_calls(subject->machine)
			->holders(subject->target.live_tid, -1, why, sizeof(why));
		if (why[0])
			finding_more(finding, "%s", why);
		finding_change(finding, "end who holds them");
	} else if (err == -EACCES || err == -EPERM) {
		finding_change(finding,
			       "see what waymark doctor says of perf_event_paranoid, and of "
			       "whom this user may trace");
	}
}

static void look_at_registers(struct subject *subject)
{
	struct finding *finding = finding_add(subject->list, "ways", "watches from outside");
	pid_t tid = subject->target.live_tid;
	int count, err = breakpoints_free(subject->machine, tid, -1, 0, &count);
	char holders[256] = "";

	if (count) {
		finding_say(finding, count < BREAKPOINTS ? FINDING_LIMITED : FINDING_FINE,
			    "%d of %d registers can be had in thread %d", count, BREAKPOINTS,
			    (int)tid);
	} else {
		say_registers(finding, subject, err);
	}
	if (count && count < BREAKPOINTS && err == -ENOSPC) {
		machine_calls(subject->machine)->holders(tid, -1, holders, sizeof(holders));
		if (holders[0])
			finding_more(finding, "%s", holders);
	}
	finding = finding_add(subject->list, "ways", "watches from inside");
	err = breakpoints_free(subject->machine, tid, -1, BREAKPOINT_SIGTRAP, &subject->sigtraps);
	if (subject->enter)
		finding_say(finding, FINDING_ABSENT, "they need the agent, which it can't have");
	else if (!subject->sigtraps)
		say_registers(finding, subject, err);
	else
		finding_say(finding, FINDING_FINE, "with values: %d with SIGTRAP can be had",
			    subject->sigtraps);
}

/* Those of the ways that are not absent. */
static void sum_up(struct finding_list *list)
{
	char text[FINDING_BYTES - 64] = "";
	size_t used = 0, count = 0, ways = 0;
	struct finding *finding;

	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->all[i].group, "ways") != 0)
			continue;
		ways++;
		if (list->all[i].state == FINDING_ABSENT || used >= sizeof(text))
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
					 count++ ? ", " : "", list->all[i].name);
	}
	finding = finding_add(list, "ways", "altogether");
	finding->is_basic = 1;
	if (count)
		finding_say(finding, count < ways ? FINDING_LIMITED : FINDING_FINE,
			    "it can be recorded: %s", text);
	else
		finding_say(finding, FINDING_ABSENT, "it can't be recorded");
}

int doctor_look_at(struct finding_list *list, const struct machine *machine, pid_t pid)
{
	struct subject subject = { .list = list, .machine = machine };
	struct glibc glibc = { 0 };
	int err = target_read(&subject.target, pid), libc;

	if (err)
		return err;
	if (look_at_program(&subject))
		return 0;
	subject.trace = target_may_trace(&subject.target, detail_of(&subject));
	look_at_rights(&subject);
	look_at_tracer(&subject);
	look_at_filters(&subject);
	look_at_descriptors(&subject);
	look_at_files(&subject);
	libc = look_at_libc(&subject, &glibc);
	look_at_agent(&subject, &glibc);
	look_at_enter(&subject, libc);
	look_at_trails(&subject);
	look_at_registers(&subject);
	sum_up(list);
	return 0;
}
