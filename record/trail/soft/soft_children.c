/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_children.h"

#include "record/trail/soft/soft_asked.h"
#include "record/trail/soft/native.h"
#include "record/trail/soft/soft_ended.h"
#include "record/trail/privileges.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECTED_NS UINT64_C(2000000000) /* it has made no channel, or says nothing of itself */

struct engine_child *soft_children_entry(const struct soft_follow *follow,
					 const struct soft_process *process)
{
	const struct soft_process *parent = &follow->processes[process->parent];
	struct engine_channel *head = soft_follow_head(parent);
	struct engine_child *entry;

	if (!process->born || !head || parent->life != process->parent_life)
		return NULL;
	entry = &head->children[process->entry];
	return __atomic_load_n(&entry->born, __ATOMIC_ACQUIRE) >> 32 == process->born >> 32 ? entry
											    : NULL;
}

/* The entry is needed no more. */
void soft_children_give_entry(struct soft_follow *follow, struct soft_process *process)
{
	struct engine_child *entry = soft_children_entry(follow, process);
	struct soft_process *parent = &follow->processes[process->parent];

	if (process->born && parent->life == process->parent_life)
		parent->children[process->entry] = 0;
	process->born = 0;
	if (entry)
		soft_channel_give_child(entry);
}

/* One that is not used; NULL: all are. */
static struct soft_process *process_take(struct soft_follow *follow)
{
	uint32_t n = 1;

	while (n < follow->count && follow->processes[n].use != SOFT_NONE)
		n++;
	if (n == SOFT_PROCESSES_MAX)
		return NULL;
	if (n == follow->count)
		follow->count++;
	return &follow->processes[n];
}

/*
 * An entry was taken: what the child shares is noted while its parent is there. NULL: no place is
 * left.
 */
static struct soft_process *expect(struct soft_follow *follow, struct soft_process *parent,
				   uint32_t index)
{
	const struct engine_child *entry = &soft_follow_head(parent)->children[index];
	uint32_t first_id = __atomic_load_n(&entry->first_id, __ATOMIC_RELAXED);
	struct soft_process *process = process_take(follow);
	uint32_t life = process ? process->life : 0;

	if (!process)
		return NULL;
	*process = (struct soft_process){ .use = SOFT_EXPECTED,
					  .end_fd = -1,
					  .own_channel = { .fd = -1 },
					  .life = life + 1,
					  .ppid = parent->pid,
					  .parent = (uint32_t)(parent - follow->processes),
					  .parent_life = parent->life,
					  .entry = index,
					  .shares_parent = !first_id };
	process->channel = &process->own_channel;
	process->reader = &process->own_reader;
	process->born = __atomic_load_n(&entry->born, __ATOMIC_RELAXED) >> 32 << 32;
	process->since_ns = process->looked_ns = ticks_monotonic_ns();
	parent->children[index] = (uint16_t)(process - follow->processes);
	soft_follow_failed(follow,
			   soft_reader_init_child(process->reader, parent->reader, first_id));
	if (first_id)
		soft_follow_failed(follow, modules_copy(&process->modules.modules,
							&parent->modules.modules));
	return process;
}

/* Its number, once its maker has said it. */
static void note_number(const struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_child *entry = soft_children_entry(follow, process);

	if (!entry || process->pid)
		return;
	process->pid = (pid_t)(uint32_t)__atomic_load_n(&entry->born, __ATOMIC_ACQUIRE);
	if (process->pid > 0)
		process->end_fd = ended_open(process->pid);
}

/* Nothing came of it, or nothing can be known. */
static void forget(struct soft_follow *follow, struct soft_process *process)
{
	soft_children_give_entry(follow, process);
	soft_reader_release(process->reader);
	soft_channel_close(process->channel);
	soft_modules_release(&process->modules);
	ended_close(process->end_fd);
	process->end_fd = -1;
	process->use = SOFT_NONE;
}

static int is_limited(pid_t pid, int which, struct rlimit *limit)
{
	return !prlimit(pid, (enum __rlimit_resource)which, NULL, limit) &&
	       limit->rlim_cur != RLIM_INFINITY;
}

static int has_all_descriptors(pid_t pid)
{
	struct rlimit limit;
	uint64_t count = 0;
	char path[32];
	DIR *all;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	all = is_limited(pid, RLIMIT_NOFILE, &limit) ? opendir(path) : NULL;
	if (!all)
		return 0;
	while (readdir(all))
		count++;
	closedir(all);
	return count >= limit.rlim_cur + 2; /* "." and ".." */
}

/* By what shows of it from outside, or of its parent, whose limits and privileges it had. */
enum engine_unfollowed soft_children_cause(const struct soft_process *process)
{
	struct rlimit limit;
	pid_t pid = process->pid;
	char path[32];

	if (pid <= 0 || !target_has_memory(pid))
		pid = process->ppid;
	if (target_status_number(pid, "Seccomp") > 0)
		return ENGINE_UNFOLLOWED_FILTER;
	if (is_limited(pid, RLIMIT_AS, &limit) || is_limited(pid, RLIMIT_DATA, &limit))
		return ENGINE_UNFOLLOWED_ROOM;
	if (has_all_descriptors(pid))
		return ENGINE_UNFOLLOWED_DESCRIPTORS;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	return access(path, R_OK) && errno == EACCES ? ENGINE_UNFOLLOWED_CLOSED
						     : ENGINE_UNFOLLOWED_LATE;
}

/* It continues natively. */
static void refuse(struct soft_follow *follow, struct soft_process *process)
{
	soft_follow_unfollowed(follow, soft_children_cause(process), 1);
	soft_control_refuse(follow->control, process->ppid, (uint32_t)(process->born >> 32));
	forget(follow, process);
}

static void begin(struct soft_follow *follow, struct soft_process *process)
{
	struct trail_sink *first = follow->processes[0].sink;
	struct sink_process about = { process->pid, process->ppid, 0, "" };
	struct soft_source *source = &process->reader->source;
	struct target target;

	if (process->end_fd >= 0 && !target_read(&target, process->pid)) {
		about = (struct sink_process){ process->pid, target.ppid, target.start_time,
					       target.exe };
		snprintf(source->comm, sizeof(source->comm), "%.16s", target.comm);
	}
	process->use = SOFT_LIVE;
	if (soft_follow_failed(follow, first->calls->child(first, &process->sink, &about)))
		return;
	soft_follow_set_modules(process);
	source->sink = process->sink;
	source->pid = process->pid;
	soft_follow_failed(follow, modules_tell(&process->modules.modules));
	if (process->shares_parent) /* its log has the rest of them */
		soft_follow_failed(follow, soft_modules_note(&process->modules));
}

/*
 * Its memfd's descriptor, or an error. To look at thousands of descriptors takes longer than the
 * fork, and the child may not have made its memfd yet. So the number that the last child's memfd
 * had is tried first, for as long as a look at all takes.
 */
static int find(struct soft_process *process, struct soft_process *parent)
{
	uint32_t count = (uint32_t)(process->born >> 32);
	uint64_t now_ns = ticks_monotonic_ns();
	int fd = asked_channel(process->pid, process->ppid, count, &parent->child_fd, 0);

	if (fd != -ENOENT || now_ns - process->looked_ns < parent->look_ns)
		return fd;
	fd = asked_channel(process->pid, process->ppid, count, &parent->child_fd, 1);
	process->looked_ns = ticks_monotonic_ns();
	parent->look_ns = process->looked_ns - now_ns;
	return fd;
}

/* The memfd that it has made is its channel. 0; -ENOENT: it has made none; or an error. */
static int serve(struct soft_follow *follow, struct soft_process *process)
{
	int fd = find(process, &follow->processes[process->parent]);
	int err = fd < 0 ? fd : soft_channel_open_at(process->channel, &follow->sizes, fd);

	if (err) {
		soft_channel_close(process->channel);
		return err;
	}
	soft_channel_fill(process->channel);
	soft_control_serve(follow->control);
	soft_channel_close_fd(process->channel);
	process->reader->channel = process->channel;
	return 0;
}

/* Whether a process that has ended may have been its parent's child, as far as that is known. */
static int may_have_been(const struct soft_process *process)
{
	struct target target;

	return target_read(&target, process->pid) || target.ppid == process->ppid;
}

/* Whether it is what its parent says, which may have written any number. 0; -ENOENT: not yet. */
static int check(struct soft_follow *follow, struct soft_process *process)
{
	if (process->end_fd < 0 ? process->end_fd == -ESRCH : ended_is(process->end_fd))
		return may_have_been(process) ? 0 : -EPERM;
	if (!process->shares_parent)
		return serve(follow, process);
	/* it may have the channel mapped that its parent has sent it */
	if (syscall(SYS_kcmp, process->pid, process->ppid, KCMP_VM, 0, 0) > 0)
		return -EPERM;
	return soft_children_entry(follow, process) &&
			       asked_is_thread(follow->processes[process->parent].channel,
					       process->pid, process->pid)
		       ? 0
		       : -ENOENT;
}

/* A child whose number is known. 1: it is dealt with; 0: not yet. */
static int look_at_named(struct soft_follow *follow, struct soft_process *process)
{
	int err = check(follow, process);

	if (err == -ENOENT && ticks_monotonic_ns() - process->since_ns < EXPECTED_NS)
		return 0;
	if (err) {
		refuse(follow, process);
		return 1;
	}
	begin(follow, process);
	if (!process->shares_parent)
		soft_children_give_entry(follow, process);
	else if (soft_children_entry(follow, process))
		soft_channel_meet(soft_children_entry(follow, process));
	return 1;
}

int soft_children_look_expected(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_child *entry = soft_children_entry(follow, process);

	note_number(follow, process);
	if (process->pid > 0)
		return look_at_named(follow, process);
	if (entry && __atomic_load_n(&entry->use, __ATOMIC_ACQUIRE) != ENGINE_USE_MADE)
		forget(follow, process); /* nothing came of it */
	else if (entry && follow->processes[process->parent].use == SOFT_LIVE)
		return 0;
	else /* its maker ended before it had its number */
		refuse(follow, process);
	return 1;
}

/* There is no place for it. 0: not yet. */
static int turn_away(struct soft_follow *follow, pid_t parent, struct engine_child *entry)
{
	uint32_t asked = __atomic_load_n(&entry->ask, __ATOMIC_ACQUIRE);
	uint64_t born = __atomic_load_n(&entry->born, __ATOMIC_ACQUIRE);

	/*
	 * until its maker has reported the number, the fork may fail, and the maker use the entry
	 */
	if (entry->first_id ? !(uint32_t)born : asked != ENGINE_ASK_CHILD)
		return 0;
	soft_follow_unfollowed(follow, ENGINE_UNFOLLOWED_MANY, 1);
	if (entry->first_id)
		soft_control_refuse(follow->control, parent, (uint32_t)(born >> 32));
	else
		soft_channel_answer(&entry->ask, ENGINE_ASK_REFUSED);
	soft_channel_give_child(entry);
	return 1;
}

/*
 * All entries, also those that the engine has not reported yet; and all numbers, since the entries
 * may be gone at the next look.
 */
int soft_children_look(struct soft_follow *follow, struct soft_process *process)
{
	struct engine_channel *head = soft_follow_head(process);
	uint32_t told = head ? __atomic_load_n(&head->told, __ATOMIC_ACQUIRE) : 0;
	int had = 0, waits = 0;

	for (uint32_t i = 0; head && i < ENGINE_CHILDREN; i++) {
		struct engine_child *entry = &head->children[i];
		uint32_t use = __atomic_load_n(&entry->use, __ATOMIC_ACQUIRE);
		uint16_t number = process->children[i];

		if (!number && use == ENGINE_USE_NONE)
			soft_channel_give_child(entry);
		if (number)
			note_number(follow, &follow->processes[number]);
		if (number || use != ENGINE_USE_MADE)
			continue;
		had = 1;
		if (expect(follow, process, i))
			note_number(follow, &follow->processes[process->children[i]]);
		else
			waits |= !turn_away(follow, process->pid, entry);
	}
	if (!waits)
		process->told = told;
	return had;
}

/*
 * While it waits for a channel, only SIGKILL ends it; one that has executed a program is counted.
 */
int soft_children_is_lost(const struct soft_process *process)
{
	int is_killed = process->has_status && WIFSIGNALED(process->status) &&
			WTERMSIG(process->status) == SIGKILL;

	return !process->shares_parent && !process->is_native && !is_killed;
}

/* ---- that run natively, and are traced ---- */

int soft_children_calls_untraced(struct soft_follow *follow, const struct soft_process *process)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, process->traced, 0, &regs) || (int64_t)regs.rax != -ENOSYS)
		return 0;
	if (regs.orig_rax == SYS_ptrace && regs.rdi == PTRACE_TRACEME)
		native_note(&follow->natives, ENGINE_NATIVE_TRACED, process->pid,
			    ticks_monotonic_ns() - follow->began_ns);
	else if (privileges_gained(process->traced, &regs))
		follow->privileged++;
	else
		return 0;
	return 1;
}

void soft_children_made(struct soft_follow *follow, const struct soft_process *process)
{
	unsigned long made = 0;
	char path[64];

	ptrace(PTRACE_GETEVENTMSG, process->traced, 0, &made);
	snprintf(path, sizeof(path), "/proc/%d/task/%lu", (int)process->traced, made);
	if (access(path, F_OK))
		soft_follow_unfollowed(follow, ENGINE_UNFOLLOWED_VFORKED, 1);
	follow->strays++;
}
