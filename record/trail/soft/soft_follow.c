/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_follow.h"

#include "base/maps.h"
#include "base/number_file.h"
#include "record/trail/privileges.h"
#include "record/trail/soft/soft_ended.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/soft/soft_traced.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define SYSCALL_TRAP (SIGTRAP | 0x80)
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)
/* runs natively: no engine says what it makes */
#define CHILD_OPTIONS (OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)
#define NAME_BYTES 96u
#define TMPFS 0x01021994		 /* linux/magic.h */
#define EXPECTED_NS UINT64_C(2000000000) /* it has made no channel, or says nothing of itself */

static int failed(struct soft_follow *follow, int err)
{
	if (err < 0 && !follow->error)
		follow->error = err;
	return follow->error;
}

void soft_follow_native(struct soft_follow *follow, uint32_t why, pid_t pid, uint64_t since_ns)
{
	struct natives *natives = &follow->natives;

	if (why == ENGINE_NATIVE_NOT || why >= ENGINE_NATIVES || natives->counts[why]++)
		return;
	natives->pids[why] = pid;
	natives->after_ns[why] = since_ns > follow->began_ns ? since_ns - follow->began_ns : 0;
}

/* So many children are not recorded: enum engine_unfollowed. */
static void unfollowed(struct soft_follow *follow, uint32_t why, uint32_t count)
{
	follow->unfollowed += count;
	follow->natives.unfollowed[why] += count;
}

static int64_t on_module(void *data, const struct engine_module *module, const char *path)
{
	struct soft_modules *modules = data;
	int err = soft_modules_told(modules, module, path);

	return err ? err : (int64_t)modules->modules.epochs.moment_count;
}

/* ---- begin ---- */

int soft_follow_init(struct soft_follow *follow, const struct soft_control *control,
		     struct soft_channel *channel, struct soft_reader *reader,
		     const struct soft_image *image)
{
	*follow = (struct soft_follow){
		.control = control, .image = image, .sizes = channel->sizes, .count = 1
	};
	follow->processes = calloc(SOFT_PROCESSES_MAX, sizeof(*follow->processes));
	follow->ready = calloc(SOFT_PROCESSES_MAX, sizeof(*follow->ready));
	if (!follow->processes || !follow->ready)
		return -ENOMEM;
	follow->processes[0] = (struct soft_process){
		.end_fd = -1, .channel = channel, .reader = reader, .is_entered = 1
	};
	/* Yama lets us trace only the processes that name us: PR_SET_PTRACER */
	if (number_file_read("/proc/sys/kernel/yama/ptrace_scope", 0) == 1)
		control->page->tracer = (uint32_t)getpid();
	return 0;
}

/* It has a sink: its modules are reported to that. */
static void set_modules(struct soft_process *process)
{
	struct soft_paths *paths = &process->reader->source.paths;

	process->modules.pid = process->pid;
	process->modules.modules.sink = process->sink;
	process->modules.clock = &process->reader->first->clock;
	process->reader->source.epochs = &process->modules.modules.epochs;
	paths->on_module = on_module;
	paths->data = &process->modules;
}

int soft_follow_first(struct soft_follow *follow, pid_t pid, struct trail_sink *sink)
{
	struct soft_process *first = &follow->processes[0];

	first->pid = pid;
	first->sink = sink;
	first->use = SOFT_LIVE;
	set_modules(first);
	first->end_fd = ended_open(pid);
	follow->began_ns = ticks_monotonic_ns();
	return failed(follow, first->end_fd < 0
				      ? first->end_fd
				      : modules_note(&first->modules.modules, first->pid));
}

/* ---- what a process asks for: whether it is what it says, and may have it ---- */

/* What a thread asks to execute gains privileges, that it would not have while it is traced. */
static int gains(const struct engine_channel *head, pid_t tid)
{
	const struct engine_exec exec = head->exec;
	const struct user_regs_struct regs = {
		.orig_rax = exec.number,
		.rdi = exec.arguments[0],
		.rsi = exec.arguments[1],
		.rdx = exec.arguments[2],
		.r10 = exec.arguments[3],
		.r8 = exec.arguments[4],
	};

	return privileges_gained(tid, &regs);
}

static int has_channel(const struct soft_channel *channel, pid_t tid)
{
	struct maps maps;
	int found = 0;

	/* anonymous memory has neither */
	if (channel->base && channel->inode && !maps_read(&maps, tid))
		for (size_t i = 0; i < maps.count && !found; i++)
			found = maps.list[i].inode == channel->inode &&
				maps.list[i].device == channel->device;
	maps_release(&maps);
	return found;
}

int soft_follow_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && !access(path, F_OK) && has_channel(channel, tid);
}

static int has_name(int folder, const char *path, const char *name)
{
	char target[NAME_BYTES];
	ssize_t bytes = readlinkat(folder, path, target, sizeof(target));

	return bytes == (ssize_t)strlen(name) && !memcmp(target, name, (size_t)bytes);
}

/* Its mode forbids that, but we are its owner. soft_channel_open_at() forbids it again. */
static int open_anyhow(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0 || errno != EACCES || chmod(path, S_IRUSR | S_IWUSR))
		return fd;
	return open(path, O_RDWR | O_CLOEXEC);
}

/*
 * Any file may be behind the path by now: to open it may block, or change something. A memfd that
 * no one else uses has no seals yet; a file that is no memfd has one. The process made it, unless
 * another user's process has sent it.
 */
static int fd_open(pid_t pid, int folder, const char *path, const char *name)
{
	int at = has_name(folder, path, name) ? openat(folder, path, O_PATH | O_CLOEXEC) : -1;
	int fd = -1;
	struct statfs system;
	struct stat about;
	char own[64];

	snprintf(own, sizeof(own), "/proc/self/fd/%d", at);
	if (at >= 0 && has_name(AT_FDCWD, own, name) && !fstat(at, &about) &&
	    S_ISREG(about.st_mode) && about.st_uid == (uid_t)target_status_number(pid, "Uid") &&
	    !fstatfs(at, &system) && system.f_type == TMPFS)
		fd = open_anyhow(own);
	if (at >= 0)
		close(at);
	if (fd >= 0 && fcntl(fd, F_GET_SEALS)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int soft_follow_channel(pid_t pid, pid_t parent, uint32_t count, int *number, int all)
{
	char path[64], name[NAME_BYTES];
	struct dirent *entry;
	int fd = -1;
	DIR *dir;

	snprintf(name, sizeof(name), "/memfd:" ENGINE_CHANNEL_NAME "-%d-%u (deleted)", (int)parent,
		 count);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir) /* EACCES: it keeps others out: PR_SET_DUMPABLE */
		return errno == EACCES ? -EACCES : -ENOENT;
	snprintf(path, sizeof(path), "%d", *number);
	if (!all)
		fd = fd_open(pid, dirfd(dir), path, name);
	while (all && fd < 0 && (entry = readdir(dir))) {
		fd = fd_open(pid, dirfd(dir), entry->d_name, name);
		*number = fd < 0 ? *number : atoi(entry->d_name);
	}
	closedir(dir);
	return fd < 0 ? -ENOENT : fd;
}

/*
 * Whether to stop a vfork(2) child at its system calls: it may execute a program that gains
 * privileges, or call PTRACE_TRACEME. posix_spawn(3) gives its child a stack, never calls that,
 * and makes dozens of calls.
 */
static int must_look(const struct engine_child *entry)
{
	return !entry->has_stack || !(target_status_mask(gettid(), "CapEff") >> CAP_SYS_PTRACE & 1);
}

/*
 * ---- children: reported in entries of their parent's channel (struct engine_child) until they are
 * known, and given a channel of their own.
 */

struct engine_child *soft_follow_entry(const struct soft_follow *follow,
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
static void give_entry(struct soft_follow *follow, struct soft_process *process)
{
	struct engine_child *entry = soft_follow_entry(follow, process);
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
	failed(follow, soft_reader_init_child(process->reader, parent->reader, first_id));
	if (first_id)
		failed(follow, modules_copy(&process->modules.modules, &parent->modules.modules));
	return process;
}

/* Its number, once its maker has said it. */
static void note_number(const struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_child *entry = soft_follow_entry(follow, process);

	if (!entry || process->pid)
		return;
	process->pid = (pid_t)(uint32_t)__atomic_load_n(&entry->born, __ATOMIC_ACQUIRE);
	if (process->pid > 0)
		process->end_fd = ended_open(process->pid);
}

/* Nothing came of it, or nothing can be known. */
static void forget(struct soft_follow *follow, struct soft_process *process)
{
	give_entry(follow, process);
	soft_reader_release(process->reader);
	soft_channel_close(process->channel);
	modules_release(&process->modules.modules);
	ended_close(process->end_fd);
	process->end_fd = -1;
	process->use = SOFT_NONE;
}

/* By what shows of it from outside, or of its parent, whose limits and privileges it had. */
static enum engine_unfollowed cause_of(const struct soft_process *process)
{
	pid_t pid = process->pid;
	char path[32];

	if (pid <= 0 || !target_has_memory(pid))
		pid = process->ppid;
	if (target_status_number(pid, "Seccomp") > 0)
		return ENGINE_UNFOLLOWED_FILTER;
	if (target_limit(pid, "Max address space") != UINT64_MAX ||
	    target_limit(pid, "Max data size") != UINT64_MAX)
		return ENGINE_UNFOLLOWED_ROOM;
	if (target_lacks_descriptors(pid, 0))
		return ENGINE_UNFOLLOWED_DESCRIPTORS;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	return access(path, R_OK) && errno == EACCES ? ENGINE_UNFOLLOWED_CLOSED
						     : ENGINE_UNFOLLOWED_LATE;
}

/* It continues natively. */
static void refuse(struct soft_follow *follow, struct soft_process *process)
{
	unfollowed(follow, cause_of(process), 1);
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
	if (failed(follow, first->calls->child(first, &process->sink, &about)))
		return;
	set_modules(process);
	source->sink = process->sink;
	source->pid = process->pid;
	failed(follow, modules_tell(&process->modules.modules));
	if (process->shares_parent) /* its log has the rest of them */
		failed(follow, modules_note(&process->modules.modules, process->pid));
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
	int fd = soft_follow_channel(process->pid, process->ppid, count, &parent->child_fd, 0);

	if (fd != -ENOENT || now_ns - process->looked_ns < parent->look_ns)
		return fd;
	fd = soft_follow_channel(process->pid, process->ppid, count, &parent->child_fd, 1);
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
	return soft_follow_entry(follow, process) &&
			       soft_follow_is_thread(follow->processes[process->parent].channel,
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
		give_entry(follow, process);
	else if (soft_follow_entry(follow, process))
		soft_channel_meet(soft_follow_entry(follow, process));
	return 1;
}

int soft_follow_expected(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_child *entry = soft_follow_entry(follow, process);

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
	unfollowed(follow, ENGINE_UNFOLLOWED_MANY, 1);
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
int soft_follow_children(struct soft_follow *follow, struct soft_process *process)
{
	struct engine_channel *head = soft_follow_head(process);
	uint32_t ready_count = head ? __atomic_load_n(&head->ready_count, __ATOMIC_ACQUIRE) : 0;
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
		process->ready_count = ready_count;
	return had;
}

/*
 * While it waits for a channel, only SIGKILL ends it; one that has executed a program is counted.
 */
static int is_lost(const struct soft_process *process)
{
	int is_killed = process->has_status && WIFSIGNALED(process->status) &&
			WTERMSIG(process->status) == SIGKILL;

	return !process->shares_parent && !process->is_native && !is_killed;
}

/* ---- that run natively, and are traced ---- */

/*
 * A traced thread that runs natively is about to make a call that fails while it is traced: let it
 * go.
 */
static int calls_untraced(struct soft_follow *follow, const struct soft_process *process)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, process->traced, 0, &regs) || (int64_t)regs.rax != -ENOSYS)
		return 0;
	if (regs.orig_rax == SYS_ptrace && regs.rdi == PTRACE_TRACEME)
		soft_follow_native(follow, ENGINE_NATIVE_TRACED, process->pid,
				   ticks_monotonic_ns());
	else if (privileges_gained(process->traced, &regs))
		follow->privileged++;
	else
		return 0;
	return 1;
}

/* It has made another thread or process, which the kernel traces, too: count a process. */
static void made_child(struct soft_follow *follow, const struct soft_process *process)
{
	unsigned long made = 0;
	char path[64];

	ptrace(PTRACE_GETEVENTMSG, process->traced, 0, &made);
	snprintf(path, sizeof(path), "/proc/%d/task/%lu", (int)process->traced, made);
	if (access(path, F_OK))
		unfollowed(follow, ENGINE_UNFOLLOWED_VFORKED, 1);
	follow->strays++;
}

/* ---- execve(2) ---- */

/* Where it asks; NULL: nowhere, any more. */
static uint32_t *ask_of(const struct soft_follow *follow, const struct soft_process *process)
{
	struct engine_channel *head = soft_follow_head(process);
	struct engine_child *entry = process->shares_parent ? soft_follow_entry(follow, process)
							    : NULL;

	return entry ? &entry->ask : head ? &head->ask : NULL;
}

static void answer(const struct soft_follow *follow, const struct soft_process *process,
		   uint32_t what)
{
	uint32_t *ask = ask_of(follow, process);

	if (ask)
		soft_channel_answer(ask, what);
}

static void untrace(struct soft_follow *follow, struct soft_process *process)
{
	process->traced = 0;
	process->is_let_go = process->is_looked_at = 0;
	follow->traced--;
}

/* At its next stop, or now if it is stopped. */
void soft_follow_let_go(struct soft_process *process, uint32_t answer)
{
	process->is_let_go = 1;
	process->answer = answer;
	ptrace(PTRACE_INTERRUPT, process->traced, 0, 0);
}

/* The thread that asks, which has the channel mapped; 0: it is no such thread. */
static pid_t asking(const struct soft_follow *follow, const struct soft_process *process)
{
	const struct soft_channel *channel = process->channel;
	pid_t tid = process->pid;

	if (process->shares_parent)
		channel = follow->processes[process->parent].channel;
	else
		tid = (pid_t)soft_channel_head(channel)->ask_tid;
	return soft_follow_is_thread(channel, process->pid, tid) ? tid : 0;
}

static void trace(struct soft_follow *follow, struct soft_process *process, uint32_t asked)
{
	pid_t tid = asking(follow, process);
	int options = asked == ENGINE_ASK_CHILD ? CHILD_OPTIONS : OPTIONS;

	process->is_native |= asked == ENGINE_ASK_CHILD;
	if (follow->is_ending || !tid || ptrace(PTRACE_SEIZE, tid, 0, options)) {
		if (!follow->is_ending)
			unfollowed(follow, tid ? ENGINE_UNFOLLOWED_CLOSED : ENGINE_UNFOLLOWED_LATE,
				   1);
		answer(follow, process, ENGINE_ASK_REFUSED);
		return;
	}
	process->traced = tid;
	process->is_let_go = process->is_looked_at = 0;
	process->answer = 0;
	follow->traced++;
	if (asked == ENGINE_ASK_EXEC && gains(soft_follow_head(process), tid)) {
		follow->privileged++;
		soft_follow_let_go(process, ENGINE_ASK_REFUSED);
	} else if (asked == ENGINE_ASK_CHILD && must_look(soft_follow_entry(follow, process))) {
		process->is_looked_at = 1;
		process->answer = ENGINE_ASK_TRACED;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	} else {
		answer(follow, process, ENGINE_ASK_TRACED);
	}
}

static int look_at_ask(struct soft_follow *follow, struct soft_process *process)
{
	const uint32_t *ask = ask_of(follow, process);
	uint32_t asked = ask ? __atomic_load_n(ask, __ATOMIC_ACQUIRE) : ENGINE_ASK_NOTHING;
	uint32_t wanted = process->shares_parent ? ENGINE_ASK_CHILD : ENGINE_ASK_EXEC;

	if (asked == wanted && !process->traced)
		trace(follow, process, asked);
	else if (asked == ENGINE_ASK_OVER && !process->traced)
		answer(follow, process, ENGINE_ASK_NOTHING);
	else if (asked == ENGINE_ASK_OVER && !process->is_let_go)
		soft_follow_let_go(process, ENGINE_ASK_NOTHING);
	else
		return 0;
	return 1;
}

/* ---- stops ---- */

/* What its channel says of it, before that goes. */
static void note_head(struct soft_follow *follow, const struct soft_process *process)
{
	const struct engine_channel *head = soft_follow_head(process);
	struct soft_clock *clock = &process->reader->first->clock;

	if (!head)
		return;
	for (uint32_t why = 0; why < ENGINE_UNFOLLOWEDS_TOLD && follow->is_wanted; why++)
		unfollowed(follow, why, head->unfollowed[why]);
	follow->lost_threads += head->lost_threads;
	soft_clock_look(clock);
	soft_follow_native(follow, head->native, process->pid,
			   soft_clock_ns(clock, head->native_ticks));
}

/* It has left the memory where its channel was mapped. */
static void leave_channel(struct soft_follow *follow, struct soft_process *process)
{
	note_head(follow, process);
	give_entry(follow, process);
	process->reader->channel = NULL;
	soft_channel_close(process->channel);
	memset(process->children, 0, sizeof(process->children));
	process->life++;
	process->ready_count = 0;
	process->shares_parent = 0;
}

/* A new program, and a channel that no other process has. */
static int enter(struct soft_follow *follow, struct soft_process *process,
		 const struct soft_sizes *sizes)
{
	const struct soft_parts parts = { process->channel, follow->image, follow->control };
	int err = soft_channel_open(process->channel, sizes);

	if (!err) {
		soft_channel_fill(process->channel);
		err = soft_launch_again(process->pid, &parts);
	} else {
		ptrace(PTRACE_DETACH, process->pid, 0, 0);
	}
	if (err) {
		soft_channel_close(process->channel);
		return err;
	}
	soft_channel_close_fd(process->channel);
	process->reader->channel = process->channel;
	return 0;
}

/* It is stopped before the first instruction of another program. */
static void executed(struct soft_follow *follow, struct soft_process *process)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	unsigned long former = 0;
	char comm[17] = "";
	int err;

	ptrace(PTRACE_GETEVENTMSG, process->pid, 0, &former);
	target_comm(process->pid, process->pid, comm);
	untrace(follow, process);
	soft_follow_children(follow, process);
	failed(follow, soft_reader_executed(process->reader, (pid_t)former, process->pid, comm));
	leave_channel(follow, process);
	failed(follow, modules_note(&process->modules.modules, process->pid));
	err = enter(follow, process, &follow->sizes);
	process->is_native = err != 0;
	process->is_entered = !err;
	if (!err)
		return;
	process->is_foreign = err == -WM_E_FOREIGN_ARCH;
	follow->privileged += err == -EPERM;
	if (!process->is_foreign && err != -EPERM)
		unfollowed(follow, cause_of(process), 1);
	soft_reader_drop_carried(process->reader, &gone);
}

static void stopped(struct soft_follow *follow, struct soft_process *process, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status);
	int is_signal = !event && signal != SYSCALL_TRAP;
	uint32_t reply = process->answer;
	const uint32_t *ask;

	if (event == PTRACE_EVENT_EXEC) {
		executed(follow, process);
		return;
	}
	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	    event == PTRACE_EVENT_CLONE)
		made_child(follow, process);
	process->answer = 0;
	if (signal == SYSCALL_TRAP && calls_untraced(follow, process))
		process->is_let_go = 1;
	if (process->is_let_go) {
		/* It fails if the thread was killed: then its end is awaited. */
		if (!ptrace(PTRACE_DETACH, process->traced, 0, is_signal ? signal : 0))
			untrace(follow, process);
	} else if (event == PTRACE_EVENT_STOP && soft_traced_stops(signal)) {
		ptrace(PTRACE_LISTEN, process->traced, 0, 0);
	} else {
		ptrace(process->is_looked_at ? PTRACE_SYSCALL : PTRACE_CONT, process->traced, 0,
		       is_signal ? signal : 0);
	}
	ask = ask_of(follow, process);
	if (ask && (reply || (!process->traced && *ask == ENGINE_ASK_OVER)))
		answer(follow, process, reply);
}

static struct soft_process *process_of(const struct soft_follow *follow, pid_t tid)
{
	for (uint32_t n = 0; n < follow->count; n++)
		if (follow->processes[n].traced == tid)
			return &follow->processes[n];
	/* execve(2) gives a thread its process's number */
	for (uint32_t n = 0; n < follow->count; n++)
		if (follow->processes[n].traced && follow->processes[n].pid == tid)
			return &follow->processes[n];
	return NULL;
}

static int look_at_stops(struct soft_follow *follow)
{
	int status, had = 0;
	pid_t tid;

	while ((follow->traced || follow->strays) &&
	       (tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		struct soft_process *process = process_of(follow, tid);

		had = 1;
		if (!process) {
			/* made_child() counts it, or will; of a killed one 1 may stay */
			if (WIFSTOPPED(status) && !ptrace(PTRACE_DETACH, tid, 0, 0))
				follow->strays--;
			continue;
		}
		if (WIFSTOPPED(status)) {
			stopped(follow, process, status);
			continue;
		}
		if (tid == process->pid) {
			process->has_status = 1;
			process->status = status;
		}
		untrace(follow, process);
	}
	return had;
}

/* ---- end ---- */

static void tell_end(const struct soft_process *process, struct trail_between *end)
{
	int status = process->status;

	*end = (struct trail_between){
		.event = TRAIL_END,
		.values = { WIFSIGNALED(status) ? TRAIL_KILLED : TRAIL_EXITED,
			    (uint64_t)(WIFSIGNALED(status) ? WTERMSIG(status)
							   : WEXITSTATUS(status)) },
	};
}

static void tell_sink(struct soft_follow *follow, const struct soft_process *process)
{
	struct sink_ending ending = { .is_over = process->has_status,
				      .status = process->status,
				      .is_foreign = process->is_foreign };

	if (process->has_status && WIFSIGNALED(process->status)) {
		ending.killed_tid = process->reader->first->killed_tid
					    ? process->reader->first->killed_tid
					    : process->pid;
		ending.killed_by = WTERMSIG(process->status);
	}
	if (process->sink->calls->process_end)
		failed(follow, process->sink->calls->process_end(process->sink, &ending));
}

int soft_follow_end(struct soft_follow *follow, struct soft_process *process,
		    const struct trail_between *end_with)
{
	const struct engine_channel *head = soft_follow_head(process);
	int is_first = process == follow->processes, is_over = !end_with;
	struct trail_between made;

	if (process->use != SOFT_LIVE)
		return follow->error;
	soft_follow_children(follow, process);
	if (!end_with && process->has_status) {
		tell_end(process, &made);
		end_with = &made;
	}
	process->modules.is_gone = process->has_status;
	if (follow->is_wanted && !is_first &&
	    (head ? head->state == ENGINE_REFUSED : is_lost(process)))
		unfollowed(follow, cause_of(process), 1);
	if (process->sink && !follow->error) {
		failed(follow, soft_reader_end(process->reader, end_with));
		tell_sink(follow, process);
	}
	modules_release(&process->modules.modules);
	if (is_over)
		ended_release(process->end_fd, process->pid);
	ended_close(process->end_fd);
	if (process->traced)
		untrace(follow, process);
	process->end_fd = -1;
	process->use = SOFT_NONE;
	/* threads inside may be there after our end; the first one's is the caller's */
	if (is_first)
		note_head(follow, process);
	else
		leave_channel(follow, process);
	if (!is_first)
		soft_reader_release(process->reader);
	return follow->error;
}

int soft_follow_end_all(struct soft_follow *follow, const struct trail_between *end_with)
{
	for (uint32_t n = 0; n < follow->count; n++)
		soft_follow_end(follow, &follow->processes[n], end_with);
	return follow->error;
}

/* A process that has ended; its children are known before. */
static int look_at_end(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_channel *head = soft_follow_head(process);

	if (process->end_fd >= 0)
		process->has_status |= !ended_status(process->end_fd, process->pid,
						     &process->status);
	/* reaped already, and by an older kernel, which keeps nothing of it */
	if (!process->has_status && head && head->is_ending) {
		process->has_status = 1;
		process->status = (int)(head->exit_status & 0xff) << 8;
	}
	soft_follow_end(follow, process, NULL);
	return 1;
}

static int has_told(const struct soft_process *process)
{
	const struct engine_channel *head = soft_follow_head(process);

	return head &&
	       __atomic_load_n(&head->ready_count, __ATOMIC_ACQUIRE) != process->ready_count;
}

/* A child of a process that is new is looked at behind it: so it is met in the same look. */
static int look_at_processes(struct soft_follow *follow)
{
	int had = 0;

	for (uint32_t n = 0; n < follow->count; n++) {
		struct soft_process *process = &follow->processes[n];

		if (process->use == SOFT_EXPECTED)
			had |= soft_follow_expected(follow, process);
		if (process->use == SOFT_LIVE && has_told(process))
			had |= soft_follow_children(follow, process);
	}
	return had;
}

/* For a process whose end no descriptor shows: we had none, or it was over before. */
static int is_gone(const struct soft_process *process)
{
	return kill(process->pid, 0) && errno == ESRCH;
}

static int look_at_ends(struct soft_follow *follow)
{
	uint32_t count = follow->count;
	struct pollfd *ready = follow->ready;
	nfds_t open = 0;
	int had = 0;

	for (uint32_t n = 1; n < count; n++)
		if (follow->processes[n].end_fd >= 0)
			ready[open++] = (struct pollfd){ .fd = follow->processes[n].end_fd,
							 .events = POLLIN };
	if (poll(ready, open, 0) < 0)
		return 0;
	for (uint32_t n = 1; n < count; n++)
		follow->processes[n].is_ended = follow->processes[n].end_fd >= 0 &&
						(ready++)->revents;
	had = look_at_processes(follow);
	for (uint32_t n = 1; n < count && !follow->error; n++) {
		struct soft_process *process = &follow->processes[n];

		if (process->use == SOFT_LIVE &&
		    (process->end_fd < 0 ? is_gone(process) : process->is_ended))
			had |= look_at_end(follow, process);
	}
	return had;
}

int soft_follow_look(struct soft_follow *follow)
{
	int had;

	if (!follow->sizes.follows)
		return follow->error;
	had = look_at_processes(follow);
	had |= look_at_stops(follow);
	for (uint32_t n = 0; n < follow->count && !follow->error; n++)
		if (follow->processes[n].use == SOFT_LIVE) {
			had |= look_at_ask(follow, &follow->processes[n]);
			had |= soft_traced_look(follow, &follow->processes[n]);
		}
	had |= look_at_ends(follow);
	return follow->error ? follow->error : had;
}

int soft_follow_take(struct soft_follow *follow)
{
	int had = 0;

	for (uint32_t n = 0; n < follow->count && had >= 0; n++) {
		int got = follow->processes[n].use == SOFT_LIVE
				  ? soft_reader_take(follow->processes[n].reader)
				  : 0;

		had = got < 0 ? got : had | got;
	}
	return had;
}

int soft_follow_fetch(struct soft_follow *follow)
{
	int err = 0;

	for (uint32_t n = 0; n < follow->count && !err; n++)
		if (follow->processes[n].use == SOFT_LIVE)
			err = soft_reader_fetch(follow->processes[n].reader);
	return err;
}

int soft_follow_has(const struct soft_follow *follow)
{
	for (uint32_t n = 1; n < follow->count; n++)
		if (follow->processes[n].use != SOFT_NONE)
			return 1;
	return 0;
}

int soft_follow_is_in(const struct soft_follow *follow, uint32_t one, uint32_t other)
{
	for (uint32_t n = 0; n < follow->count; n++) {
		const struct soft_process *process = &follow->processes[n];
		const struct engine_channel *head = soft_follow_head(process);
		uint32_t state = head ? __atomic_load_n(&head->state, __ATOMIC_ACQUIRE)
				      : (uint32_t)ENGINE_LEFT;

		if (process->use == SOFT_LIVE && !process->is_native && process->end_fd >= 0 &&
		    (state == one || state == other) && !ended_is(process->end_fd))
			return 1;
	}
	return 0;
}

int soft_follow_is_writing(const struct soft_follow *follow)
{
	for (uint32_t n = 0; n < follow->count; n++) {
		const struct soft_process *process = &follow->processes[n];

		for (uint32_t i = 0; process->use == SOFT_LIVE && process->channel->base &&
				     i < soft_reader_used(process->reader);
		     i++)
			if (__atomic_load_n(&soft_channel_slot(process->channel, i)->state,
					    __ATOMIC_ACQUIRE) != ENGINE_SLOT_FREE)
				return 1;
	}
	return 0;
}

void soft_follow_release(struct soft_follow *follow)
{
	for (uint32_t n = 0; follow->processes && n < follow->count; n++) {
		struct soft_process *process = &follow->processes[n];

		modules_release(&process->modules.modules);
		ended_close(process->end_fd);
		if (n && process->use != SOFT_NONE) {
			soft_reader_release(process->reader);
			soft_channel_close(process->channel);
		}
	}
	free(follow->processes);
	free(follow->ready);
	follow->processes = NULL;
	follow->ready = NULL;
}
