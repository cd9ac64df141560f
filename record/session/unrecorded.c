/* SPDX-License-Identifier: MIT */
#include "record/session/unrecorded.h"

#include "base/array.h"
#include "base/maps.h"
#include "target/process/agentpath.h"
#include "target/process/descendants.h"
#include "target/process/ticks.h"
#include "record/session/process.h"
#include "target/process/program.h"
#include "record/session/sources.h"
#include "target/process/target.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PROGRAMS_MAX 256
#define ACCEPTS_MAX 64
#define LOOK_NS 5000000u
#define LEFT_NS 100000000u
#define LOOK_SHARE 200 /* a look may take this fraction of the time: 1/200 */
#define READ_BYTES_MAX (256 * 1024)
#define STORE "memfd:waymark-store" /* as maps_read() names it */

static int is_same_file(pid_t a, pid_t b)
{
	struct stat one, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)a);
	if (stat(path, &one))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)b);
	return !stat(path, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/*
 * Read up to READ_BYTES_MAX of a file in /proc/TID, and add a NUL. The caller frees it. NULL: it
 * can't be read.
 */
static char *read_of(pid_t tid, const char *name, size_t *bytes)
{
	char path[64], *text;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, name);
	file = fopen(path, "re");
	text = file ? malloc(READ_BYTES_MAX + 1) : NULL;
	*bytes = text ? fread(text, 1, READ_BYTES_MAX, file) : 0;
	if (file)
		fclose(file);
	if (text)
		text[*bytes] = 0;
	return text;
}

/* Whether the kernel had the loader ignore the environment (AT_SECURE). */
static int is_secure(const struct target *target)
{
	uint64_t secure = 0;

	if (target_auxv(target->live_tid, AT_SECURE, &secure) < 0)
		/* another user than we has it, whose process executed it */
		return target->uid != geteuid();
	return secure != 0;
}

static int has_variable(pid_t tid, const char *name)
{
	size_t bytes, length = strlen(name);
	char *text = read_of(tid, "environ", &bytes);
	int found = !text; /* unknown: assume that it has */

	for (char *at = text; at && at < text + bytes && !found; at += strlen(at) + 1)
		found = !strncmp(at, name, length) && at[length] == '=';
	free(text);
	return found;
}

/*
 * Whether the agent stays out because of the seccomp filters that the program was executed under.
 */
static int is_filtered(pid_t pid)
{
	size_t bytes;

	if (target_filters(pid) <= target_filters(getpid()))
		return 0;
	free(read_of(pid, "environ", &bytes));
	/* empty: execve(2) has closed the agent's socket, but not set up the environment yet */
	return !bytes || has_variable(pid, CONTROL_FILTERS_ENV);
}

/* Whether the process's root folder does not have the session's agent; with words. */
static int lacks_agent(const struct wm_session *session, pid_t tid, struct detail detail)
{
	char agent[PATH_MAX], path[PATH_MAX + 64];

	/* if the agent's file was removed, this still gives its path */
	agentpath_find_as(agent, session->options.agent_path);
	snprintf(path, sizeof(path), "/proc/%d/root", (int)tid);
	if (access(path, F_OK)) /* we may not look there, or it has ended */
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)tid, agent);
	if (!access(path, F_OK) || errno != ENOENT || kill(tid, 0))
		return 0;
	detail_set(detail, 0, "its root has no %s: copy it there, or attach with -p, which does so",
		   agent);
	return 1;
}

/* Whether a file of that name is in the process's memory. Also if we may not look. */
static int has_mapped(pid_t pid, const char *name)
{
	struct maps maps;
	int found;

	found = maps_read(&maps, pid) != 0 || !maps.count;
	for (size_t i = 0; i < maps.count && !found; i++)
		found = !strcmp(basename(maps.list[i].path), name);
	maps_release(&maps);
	return found;
}

/*
 * Whether it has executed nothing since it was forked, not even its own file: execve(2) moves what
 * the kernel says. Also if we may not look.
 */
static int is_forked(const struct target *target)
{
	size_t bytes, of_parent;
	char *own = read_of(target->live_tid, "auxv", &bytes);
	char *parent = read_of(target->ppid, "auxv", &of_parent);
	int is_same = !own || !parent || (bytes == of_parent && !memcmp(own, parent, bytes));

	free(own);
	free(parent);
	return is_same;
}

/*
 * Whether the agent in a program that gave up root's privileges can't reach our socket. A forked
 * child has its parent's store, or its parent's agent reports that it has none.
 */
static int is_kept_out(const struct target *target, struct detail detail)
{
	if (target->uid == geteuid() ||
	    target_status_mask(target->live_tid, "CapEff") >> CAP_DAC_OVERRIDE & 1 ||
	    has_mapped(target->live_tid, STORE) || is_forked(target))
		return 0;
	detail_set(detail, 0, "user %u can't reach the folder of our socket: attach with -p",
		   (unsigned int)target->uid);
	return 1;
}

/*
 * Why a process's program has no agent. 0: it has one, or may have one soon. Reads through a living
 * thread: /proc shows nothing of a main thread that has ended while others run.
 */
static int reason(const struct wm_session *session, const struct target *target,
		  struct detail detail)
{
	struct program program = { 0 };
	pid_t tid = target->live_tid;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)tid);
	err = program_read(&program, path);
	/*
	 * under valgrind the traced program may have it, and a static program may be linked with it
	 */
	if (err == -WM_E_STATIC_PROGRAM && (program.has_agent || target_is_valgrind(target)))
		err = 0;
	if (err == -WM_E_STATIC_PROGRAM || err == -WM_E_FOREIGN_LIBC || err == -WM_E_FOREIGN_ARCH)
		return err;
	if (err == -ENOENT || err == -ESRCH)
		return 0; /* it has ended */
	if (is_secure(target))
		return -WM_E_SECURE_PROGRAM;
	if (err)
		return 0;
	if (is_filtered(tid))
		return -WM_E_FILTERED_PROGRAM;
	if (has_variable(tid, "LD_PRELOAD") && lacks_agent(session, tid, detail))
		return -WM_E_NO_AGENT;
	if (!has_variable(tid, CONTROL_TOOL_ENV) || !has_variable(tid, "LD_PRELOAD"))
		/* one that has just ended has no environment, nor one that execve(2) still makes */
		return target_has_program(tid) ? -WM_E_NOT_PRELOADED : 0;
	return is_kept_out(target, detail) ? -EACCES : 0;
}

static struct unrecorded *entry_of(struct unrecorded_list *list, const char *program, int error)
{
	char *name;

	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].error == error && !strcmp(list->all[i].program, program))
			return &list->all[i];
	if (list->count >= PROGRAMS_MAX ||
	    array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return NULL;
	name = strdup(program);
	if (!name)
		return NULL;
	list->all[list->count] = (struct unrecorded){ .program = name, .error = error };
	return &list->all[list->count++];
}

/*
 * Whether it is counted with this program. A process counts again for each program that it
 * executes.
 */
static int is_counted(const struct unrecorded_list *list, const struct target *target,
		      const char *program)
{
	for (size_t i = 0; i < list->counted_count; i++) {
		const struct unrecorded_process *counted = &list->counted[i];

		if (counted->pid == target->pid && counted->start_time == target->start_time &&
		    !strcmp(list->all[counted->entry].program, program))
			return 1;
	}
	return 0;
}

/*
 * Whether the process has executed a program since its agent reported, be it the same file, with
 * LD_PRELOAD kept: then its buffer is gone, if it ever came. Also if we may not look.
 */
static int has_executed(const struct process *process)
{
	pid_t pid = process->pid;
	char path[64], now[4096];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	got = readlink(path, now, sizeof(now) - 1);
	if (got < 0)
		return errno == EACCES;
	now[got] = 0;
	if (!process->exe)
		return 0;
	return strcmp(now, process->exe) != 0 ||
	       (process->store_inode && !process->outside && !process_has_store(process));
}

/*
 * Whether it was recorded with its present program: then it changed its root or installed its
 * filters itself. So it is while execve(2) has ended the agent's thread, and has still to change
 * the program.
 */
static int was_recorded(const struct wm_session *session, pid_t pid)
{
	for (const struct process *p = session->processes; p; p = p->next)
		if (p->pid == pid && p->exe && !has_executed(p))
			return 1;
	return 0;
}

/* Count a process. If it has ended, its start time is unknown, and it can't be recognized again. */
static void count(struct unrecorded_list *list, const struct target *target, const char *program,
		  int error, const char *detail)
{
	struct unrecorded *entry;

	entry = array_grow(&list->counted, &list->counted_room, list->counted_count + 1,
			   sizeof(*list->counted))
			? NULL
			: entry_of(list, program, error);
	if (!entry) {
		list->unnamed++;
		return;
	}
	if (!entry->processes++ && *detail)
		entry->detail = strdup(detail);
	list->counted[list->counted_count++] = (struct unrecorded_process){
		target->pid, target->start_time, (size_t)(entry - list->all)
	};
}

void unrecorded_add(struct wm_session *session, pid_t pid, const char *program, int error,
		    const char *detail)
{
	struct unrecorded_list *list = session->unrecorded;
	struct target target;

	if (target_read(&target, pid)) {
		target = (struct target){ .pid = pid };
		if (!program)
			return;
	}
	if (!program)
		program = *target.exe ? target.exe : target.comm;
	if (!target.start_time || !is_counted(list, &target, program))
		count(list, &target, program, error, detail);
}

void unrecorded_add_unreached(struct wm_session *session, const struct process *parent)
{
	int error;
	uint32_t count = drain_unreached(parent->drain, &error);
	struct unrecorded *entry;

	if (!count || error >= 0)
		return;
	entry = entry_of(session->unrecorded, parent->exe, error);
	if (!entry) {
		session->unrecorded->unnamed += count;
		return;
	}
	entry->processes += count;
	if (error == -EBUSY && !entry->detail)
		entry->detail = strdup("its parent's agent was at work when it forked");
}

static void look_at(struct wm_session *session, pid_t pid)
{
	struct unrecorded_list *list = session->unrecorded;
	char words[PATH_MAX + 128] = "";
	struct target target;
	const char *program;
	int error;

	/* before its program is read: it may execute another at any moment */
	if (was_recorded(session, pid) || target_read(&target, pid) || target_has_ended(&target))
		return;
	program = *target.exe ? target.exe : target.comm;
	if (is_counted(list, &target, program))
		return;
	/* a recorded process forked it and it has executed nothing: its agent will report */
	if (process_find(session, target.ppid) && is_same_file(pid, target.ppid) &&
	    is_forked(&target))
		return;
	error = reason(session, &target, (struct detail){ words, sizeof(words) });
	if (error)
		count(list, &target, program, error, words);
}

static void look(struct wm_session *session)
{
	size_t room = 0, count = 0;
	pid_t *roots, *pids = NULL;
	int found;

	for (struct process *p = session->processes; p; p = p->next)
		room++;
	roots = malloc((room + 1) * sizeof(*roots));
	if (!roots)
		return;
	for (struct process *p = session->processes; p; p = p->next) {
		if (process_is_dead(p))
			continue;
		roots[count++] = p->pid;
		if (!process_find(session, p->pid) && has_executed(p))
			look_at(session, p->pid);
	}
	found = count ? descendants_glance(roots, count, &pids) : 0;
	for (int i = 0; i < found; i++)
		if (!process_find(session, pids[i]))
			look_at(session, pids[i]);
	free(pids);
	free(roots);
}

/* The CPU time of this thread: on a busy machine a look takes longer, but costs no more. */
static uint64_t spent_ns(void)
{
	return ticks_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * A process that hangs up executes a program or ends, perhaps before the next regular look.
 * execve(2) ends the agent's thread first, so the new program may appear a moment after the
 * hang-up.
 */
static void look_at_left(struct wm_session *session)
{
	for (struct process *p = session->processes; p; p = p->next) {
		if (p->state != PROCESS_HUNG_UP || p->was_seen_off || process_is_dead(p))
			continue;
		p->was_seen_off = ticks_monotonic_ns() - p->since_ns > LEFT_NS;
		if (!process_find(session, p->pid) && has_executed(p))
			look_at(session, p->pid);
	}
}

/*
 * A program that can't have an agent reports that before it runs. Accept connections that still
 * wait.
 */
static void take_reports(struct wm_session *session)
{
	for (int i = 0; i < ACCEPTS_MAX && session_accept(session); i++)
		;
	for (struct process *p = session->processes; p; p = p->next)
		if (p->state == PROCESS_NEW)
			messages_pump(session, p);
}

void unrecorded_look(struct wm_session *session, int now)
{
	struct unrecorded_list *list = session->unrecorded;
	uint64_t began_ns = ticks_monotonic_ns(), before_ns, took_ns;

	/* without an agent there is nothing that children could lack */
	if (session->options.follow == WM_FOLLOW_NONE || !sources_need_agent(session))
		return;
	if (now)
		take_reports(session);
	look_at_left(session);
	if (!now && began_ns < list->due_ns)
		return;
	before_ns = spent_ns();
	look(session);
	took_ns = spent_ns() - before_ns;
	list->due_ns = began_ns + took_ns * LOOK_SHARE;
	if (list->due_ns < began_ns + LOOK_NS)
		list->due_ns = began_ns + LOOK_NS;
}

void unrecorded_release(struct unrecorded_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->all[i].program);
		free(list->all[i].detail);
	}
	free(list->all);
	free(list->counted);
	*list = (struct unrecorded_list){ 0 };
}
