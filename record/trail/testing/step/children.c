/* SPDX-License-Identifier: MIT */
/*
 * The processes that a stepped process makes: stepped through as well, or let go where there are
 * too many.
 */
#include "record/trail/privileges.h"
#include "record/trail/testing/step/step_own.h"
#include "target/process/target.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACED_GO_MS 2000

int step_follows(const struct step *step)
{
	return !step->is_single && step->sink->calls->child != NULL;
}

int step_call_makes(uint64_t number)
{
	return number == SYS_fork || number == SYS_vfork || number == SYS_clone ||
	       number == SYS_clone3;
}

/* Its sink. A process that has ended already has one as well: its trail is short. */
static int sink_begin(struct step *parent, struct step *child)
{
	struct target target;
	struct sink_process process = { .pid = child->pid, .ppid = parent->pid, .exe = "" };

	if (!target_read(&target, child->pid))
		process = (struct sink_process){ child->pid, target.ppid, target.start_time,
						 target.exe };
	child->sink = NULL;
	return parent->sink->calls->child(parent->sink, &child->sink, &process);
}

/* The kernel has forgotten what it ignores: the parent knows. */
static struct step *child_new(struct step *parent, pid_t pid)
{
	struct step *child = calloc(1, sizeof(*child));
	int err = child ? 0 : -ENOMEM;

	if (!err) {
		child->root = parent->root;
		child->pid = pid;
		child->is_trap_ignored = parent->is_trap_ignored;
		child->maker = parent->maker;
		err = sink_begin(parent, child);
	}
	if (!err) {
		child->modules.sink = child->sink;
		return child;
	}
	step_failed(parent, err);
	free(child);
	return NULL;
}

/* One child too many: it continues untraced, and its trail says only that. */
static void child_refuse(struct step *parent, struct step *child)
{
	struct step_thread *thread = step_thread_add(child, child->pid);

	parent->root->result.unfollowed++;
	step_stranger_add(parent, child->pid);
	if (thread) {
		step_event(child, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
		step_thread_remove(child, thread);
	}
	step_over(child);
}

void step_child_made(struct step *parent, pid_t pid)
{
	struct step *root = parent->root, *child;

	for (child = root->children; child; child = child->next)
		if (child->pid == pid)
			return;
	child = child_new(parent, pid);
	if (!child) {
		root->result.unfollowed++;
		step_stranger_add(parent, pid);
		return;
	}
	child->next = root->children;
	root->children = child;
	if (root->followed++ >= STEP_PROCESSES_MAX - 1) {
		child_refuse(parent, child);
		return;
	}
	step_failed(child, modules_note(&child->modules, pid));
	step_thread_add(child, pid);
}

static int is_known(const struct step *root, pid_t pid)
{
	for (const struct step_thread *thread = root->threads; thread; thread = thread->next)
		if (thread->tid == pid)
			return 1;
	for (const struct step *child = root->children; child; child = child->next)
		if (child->pid == pid)
			return 1;
	return root->pid == pid;
}

void step_children_find(struct step *step, const struct step_thread *thread)
{
	struct dirent *entry;
	DIR *list;

	if (thread->insn.kind != TRAIL_SYSCALL || thread->is_over || thread->child ||
	    !step_follows(step) || !step_call_makes(thread->rax))
		return;
	list = opendir("/proc");
	while (list && (entry = readdir(list))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0 && !is_known(step->root, pid) &&
		    target_status_number(pid, "TracerPid") == gettid())
			step_child_made(step, pid);
	}
	if (list)
		closedir(list);
}

void step_over(struct step *step)
{
	const struct tracing_result *result = &step->result;
	struct sink_ending ending = { .is_over = step->has_status,
				      .status = result->status,
				      .killed_tid = result->killed_tid,
				      .killed_by = result->killed_by,
				      .is_foreign = result->is_foreign };
	struct step *root = step->root, **at = &root->children;

	step->is_told = 1;
	if (step->sink->calls->process_end)
		step_failed(step, step->sink->calls->process_end(step->sink, &ending));
	if (step == root)
		return;
	while (*at && *at != step)
		at = &(*at)->next;
	if (*at)
		*at = step->next;
	root->followed--;
	modules_release(&step->modules);
	free(step);
}

void step_result(const struct step *step, struct tracing_result *result)
{
	*result = step->result;
}

int step_gains_rights(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	return privileges_gained(thread->tid, regs);
}

void step_let_gain(struct step *step)
{
	step->root->result.privileged++;
	step->is_let_go = 1;
	step_process_let_go(step, TRACED_GO_MS);
}
