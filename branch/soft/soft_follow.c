/* SPDX-License-Identifier: MIT */
#include "branch/soft/soft_follow.h"

#include "branch/soft/soft_asked.h"
#include "branch/soft/soft_ended.h"
#include "branch/soft/soft_launch.h"
#include "branch/soft/soft_stopped.h"
#include "branch/step/rights.h"
#include "process/target.h"
#include "process/ticks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define SYSCALL_TRAP (SIGTRAP | 0x80)
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)
#define EXPECTED_NS UINT64_C(2000000000) /* its parent is gone, and it says nothing of itself */

static int failed(struct soft_follow *follow, int err)
{
	if (err < 0 && !follow->error)
		follow->error = err;
	return follow->error;
}

static uint32_t count_of(const struct soft_follow *follow)
{
	return follow->channel->pages;
}

static uint32_t number_of(const struct soft_follow *follow, const struct soft_process *process)
{
	return (uint32_t)(process - follow->processes);
}

static struct engine_channel *page_of(const struct soft_follow *follow,
				      const struct soft_process *process)
{
	return soft_channel_page(follow->channel, number_of(follow, process));
}

static struct soft_source *source_of(const struct soft_follow *follow,
				     const struct soft_process *process)
{
	return &follow->reader->sources[number_of(follow, process)];
}

static int on_module(void *data, const struct engine_module *module, const char *path)
{
	return soft_modules_told(data, module, path);
}

/* ---- begin ---- */

/* Those from `first` on are new. */
static void begin_pages(struct soft_follow *follow, uint32_t first)
{
	for (uint32_t n = first; n < count_of(follow); n++)
		follow->processes[n].end_fd = -1;
}

int soft_follow_init(struct soft_follow *follow, struct soft_channel *channel,
		     struct soft_reader *reader, const struct soft_image *image)
{
	*follow = (struct soft_follow){ .channel = channel, .reader = reader, .image = image };
	follow->processes = calloc(channel->sizes.processes, sizeof(*follow->processes));
	follow->ready = calloc(channel->sizes.processes, sizeof(*follow->ready));
	if (!follow->processes || !follow->ready)
		return -ENOMEM;
	begin_pages(follow, 0);
	if (rights_must_be_named())
		soft_channel_head(channel)->tracer = (uint32_t)getpid();
	return 0;
}

static void set_modules(struct soft_follow *follow, struct soft_process *process)
{
	struct soft_paths *paths = &source_of(follow, process)->paths;

	process->modules.pid = process->pid;
	process->modules.modules.sink = process->sink;
	paths->on_module = on_module;
	paths->data = &process->modules;
}

int soft_follow_first(struct soft_follow *follow, pid_t pid, struct trail_sink *sink)
{
	struct soft_process *first = &follow->processes[0];

	follow->uid = (uid_t)target_status_number(pid, "Uid");
	first->pid = pid;
	first->sink = sink;
	first->use = SOFT_LIVE;
	set_modules(follow, first);
	first->end_fd = ended_open(pid);
	follow->began_ns = ticks_monotonic_ns();
	page_of(follow, first)->use = ENGINE_USE_MADE;
	return failed(follow,
		      first->end_fd < 0 ? first->end_fd : soft_modules_note(&first->modules));
}

static int look_at_page(struct soft_follow *follow, struct soft_process *process);

/*
 * A page was taken: what it shares is noted while its parent is there. That may be as new, with a
 * page behind this one: then it is looked at first, for what it has from its own parent is shared,
 * too.
 */
static void expect(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_channel *page = page_of(follow, process);
	uint32_t parent = page->parent;

	*process = (struct soft_process){ .use = SOFT_EXPECTED, .end_fd = -1 };
	process->since_ns = ticks_monotonic_ns();
	if (parent < count_of(follow) && follow->processes[parent].use == SOFT_NONE)
		look_at_page(follow, &follow->processes[parent]);
	if (parent < count_of(follow))
		process->ppid = follow->processes[parent].pid;
	if (parent < count_of(follow) && page->parent_first_id)
		failed(follow, modules_copy(&process->modules.modules,
					    &follow->processes[parent].modules.modules));
	failed(follow, soft_reader_expect(follow->reader, number_of(follow, process), parent,
					  page->parent_first_id));
}

/* Nothing came of it, or nothing can be known. */
static void forget(struct soft_follow *follow, struct soft_process *process)
{
	uint32_t number = number_of(follow, process);

	soft_reader_end(follow->reader, number, NULL);
	soft_modules_release(&process->modules);
	ended_close(process->end_fd);
	*process = (struct soft_process){ .end_fd = -1 };
	soft_channel_give_page(follow->channel, number);
}

/* The parent that its page names, while that lives. */
static pid_t parent_of(const struct soft_follow *follow, const struct engine_channel *page)
{
	const struct soft_process *parent = &follow->processes[page->parent % count_of(follow)];

	return parent->use == SOFT_LIVE && !ended_is(parent->end_fd) ? parent->pid : 0;
}

static void begin(struct soft_follow *follow, struct soft_process *process, pid_t pid)
{
	struct trail_sink *first = follow->processes[0].sink;
	struct sink_process about = { pid, process->ppid, 0, "" };
	struct target target;
	int err;

	process->end_fd = ended_open(pid);
	err = asked_child(follow->channel, &target, pid, process->end_fd,
			  parent_of(follow, page_of(follow, process)), follow->uid);
	if (err == -EPERM) {
		follow->unfollowed++;
		forget(follow, process);
		return;
	}
	process->pid = pid;
	if (!err && process->end_fd >= 0) {
		about = (struct sink_process){ pid, target.ppid, target.start_time, target.exe };
		snprintf(source_of(follow, process)->comm, sizeof(source_of(follow, process)->comm),
			 "%.16s", target.comm);
	}
	soft_channel_meet(follow->channel, number_of(follow, process));
	process->use = SOFT_LIVE;
	if (failed(follow, first->calls->child(first, &process->sink, &about)))
		return;
	set_modules(follow, process);
	source_of(follow, process)->sink = process->sink;
	source_of(follow, process)->pid = pid;
	/* it may be over by now, and have nothing mapped */
	failed(follow, modules_tell(&process->modules.modules));
	failed(follow, soft_modules_note(&process->modules));
}

static int look_at_page(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_channel *page = page_of(follow, process);
	uint32_t use = __atomic_load_n(&page->use, __ATOMIC_ACQUIRE);
	uint64_t born = __atomic_load_n(&page->born, __ATOMIC_ACQUIRE);
	int is_made = use == ENGINE_USE_MADE || use == ENGINE_USE_ENDING;

	if (process->use == SOFT_NONE && is_made)
		expect(follow, process);
	else if (process->use == SOFT_NONE && use == ENGINE_USE_NONE)
		soft_channel_give_page(follow->channel, number_of(follow, process));
	if (process->use != SOFT_EXPECTED)
		return 0;
	if (use == ENGINE_USE_NONE) {
		forget(follow, process);
	} else if ((pid_t)(uint32_t)born > 0) {
		begin(follow, process, (pid_t)(uint32_t)born);
	} else if (follow->processes[page->parent % count_of(follow)].pid != process->ppid &&
		   ticks_monotonic_ns() - process->since_ns > EXPECTED_NS) {
		follow->unfollowed++;
		forget(follow, process);
	} else {
		return 0;
	}
	return 1;
}

/* ---- execve(2) ---- */

static void answer(struct soft_follow *follow, const struct soft_process *process, uint32_t what)
{
	soft_channel_answer(follow->channel, number_of(follow, process), what);
}

static void untrace(struct soft_follow *follow, struct soft_process *process)
{
	process->traced = 0;
	process->is_let_go = process->is_looked_at = 0;
	follow->traced--;
}

/* At its next stop, or now if it is stopped. */
static void let_go(struct soft_process *process, uint32_t answer)
{
	process->is_let_go = 1;
	process->answer = answer;
	ptrace(PTRACE_INTERRUPT, process->traced, 0, 0);
}

static void trace(struct soft_follow *follow, struct soft_process *process, uint32_t asked)
{
	const struct engine_channel *page = page_of(follow, process);
	pid_t tid = (pid_t)page->ask_tid;

	process->is_native |= asked == ENGINE_ASK_CHILD;
	if (follow->is_ending || !asked_is_thread(follow->channel, process->pid, tid) ||
	    ptrace(PTRACE_SEIZE, tid, 0, OPTIONS)) {
		follow->unfollowed += !follow->is_ending;
		answer(follow, process, ENGINE_ASK_REFUSED);
		return;
	}
	process->traced = tid;
	process->is_let_go = process->is_looked_at = 0;
	process->answer = 0;
	follow->traced++;
	if (asked == ENGINE_ASK_EXEC && asked_gains(page, tid)) {
		follow->privileged++;
		let_go(process, ENGINE_ASK_REFUSED);
	} else if (asked == ENGINE_ASK_CHILD && asked_must_look(page)) {
		process->is_looked_at = 1;
		process->answer = ENGINE_ASK_TRACED;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	} else {
		answer(follow, process, ENGINE_ASK_TRACED);
	}
}

static int look_at_ask(struct soft_follow *follow, struct soft_process *process)
{
	uint32_t asked = __atomic_load_n(&page_of(follow, process)->ask, __ATOMIC_ACQUIRE);

	if ((asked == ENGINE_ASK_EXEC || asked == ENGINE_ASK_CHILD) && !process->traced)
		trace(follow, process, asked);
	else if (asked == ENGINE_ASK_OVER && !process->traced)
		answer(follow, process, ENGINE_ASK_NOTHING);
	else if (asked == ENGINE_ASK_OVER && !process->is_let_go)
		let_go(process, ENGINE_ASK_NOTHING);
	else
		return soft_stopped_look(follow->channel, page_of(follow, process), process->pid,
					 &follow->late_ns);
	return 1;
}

/* ---- stops ---- */

/* It is stopped before the first instruction of another program. */
static void executed(struct soft_follow *follow, struct soft_process *process)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	uint32_t number = number_of(follow, process);
	unsigned long former = 0;
	char comm[17] = "";
	int err;

	ptrace(PTRACE_GETEVENTMSG, process->pid, 0, &former);
	target_comm(process->pid, process->pid, comm);
	untrace(follow, process);
	failed(follow,
	       soft_reader_executed(follow->reader, number, (pid_t)former, process->pid, comm));
	soft_channel_executed(follow->channel, number);
	failed(follow, soft_modules_note(&process->modules));
	err = soft_launch_again(process->pid, follow->channel, number, follow->image);
	process->is_native = err != 0;
	if (!err)
		return;
	soft_channel_page(follow->channel, number)->entering = 0;
	process->is_foreign = err == -WM_E_FOREIGN_ARCH;
	follow->unfollowed += !process->is_foreign;
	soft_reader_drop_carried(follow->reader, number, &gone);
}

/* A thread that runs natively is about to make a call that fails while it is traced. */
static int calls_untraced(struct soft_follow *follow, const struct soft_process *process)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, process->traced, 0, &regs) || (int64_t)regs.rax != -ENOSYS)
		return 0;
	if (regs.orig_rax == SYS_ptrace && regs.rdi == PTRACE_TRACEME)
		native_note(&follow->natives, ENGINE_NATIVE_TRACED, process->pid,
			    ticks_monotonic_ns() - follow->began_ns);
	else if (rights_gained(process->traced, &regs))
		follow->privileged++;
	else
		return 0;
	return 1;
}

static void stopped(struct soft_follow *follow, struct soft_process *process, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status);
	int is_signal = !event && signal != SYSCALL_TRAP;
	uint32_t reply = process->answer;

	if (event == PTRACE_EVENT_EXEC) {
		executed(follow, process);
		return;
	}
	process->answer = 0;
	if (signal == SYSCALL_TRAP && calls_untraced(follow, process))
		process->is_let_go = 1;
	if (process->is_let_go) {
		/* It fails if the thread was killed: then its end is awaited. */
		if (!ptrace(PTRACE_DETACH, process->traced, 0, is_signal ? signal : 0))
			untrace(follow, process);
	} else if (event == PTRACE_EVENT_STOP && soft_stopped_is_by(signal)) {
		ptrace(PTRACE_LISTEN, process->traced, 0, 0);
	} else {
		ptrace(process->is_looked_at ? PTRACE_SYSCALL : PTRACE_CONT, process->traced, 0,
		       is_signal ? signal : 0);
	}
	if (reply || (!process->traced && page_of(follow, process)->ask == ENGINE_ASK_OVER))
		answer(follow, process, reply);
}

static struct soft_process *process_of(const struct soft_follow *follow, pid_t tid)
{
	for (uint32_t n = 0; n < count_of(follow); n++)
		if (follow->processes[n].traced == tid)
			return &follow->processes[n];
	/* execve(2) gives a thread its process's number */
	for (uint32_t n = 0; n < count_of(follow); n++)
		if (follow->processes[n].traced && follow->processes[n].pid == tid)
			return &follow->processes[n];
	return NULL;
}

static int look_at_stops(struct soft_follow *follow)
{
	int status, had = 0;
	pid_t tid;

	while (follow->traced && (tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		struct soft_process *process = process_of(follow, tid);

		had = 1;
		if (!process)
			continue;
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
		ending.killed_tid = follow->reader->killed_tid ? follow->reader->killed_tid
							       : process->pid;
		ending.killed_by = WTERMSIG(process->status);
	}
	if (process->sink->calls->process_end)
		failed(follow, process->sink->calls->process_end(process->sink, &ending));
}

static void note_native(struct soft_follow *follow, const struct soft_process *process,
			const struct engine_channel *page)
{
	struct soft_clock *clock = &follow->reader->clock;
	uint64_t ns;

	soft_clock_look(clock);
	ns = soft_clock_ns(clock, page->native_ticks);
	native_note(&follow->natives, page->native, process->pid,
		    ns > follow->began_ns ? ns - follow->began_ns : 0);
}

int soft_follow_end(struct soft_follow *follow, uint32_t number,
		    const struct trail_between *end_with)
{
	struct soft_process *process = &follow->processes[number];
	const struct engine_channel *page = page_of(follow, process);
	int is_over = !end_with;
	struct trail_between made;

	if (process->use != SOFT_LIVE)
		return follow->error;
	if (!end_with && process->has_status) {
		tell_end(process, &made);
		end_with = &made;
	}
	process->modules.is_gone = process->has_status;
	if (follow->is_wanted)
		follow->unfollowed += page->unfollowed + (page->state == ENGINE_REFUSED && number);
	follow->lost_threads += page->lost_threads;
	note_native(follow, process, page);
	if (process->sink && !follow->error) {
		failed(follow, soft_reader_end(follow->reader, number, end_with));
		tell_sink(follow, process);
	}
	soft_modules_release(&process->modules);
	if (is_over)
		ended_release(process->end_fd, process->pid);
	ended_close(process->end_fd);
	if (process->traced)
		untrace(follow, process);
	process->end_fd = -1;
	process->use = SOFT_NONE;
	/* threads inside read their page after our end; an ended one would be found for ever */
	if (number && (is_over || !follow->is_ending))
		soft_channel_give_page(follow->channel, number);
	return follow->error;
}

int soft_follow_end_all(struct soft_follow *follow, const struct trail_between *end_with)
{
	for (uint32_t n = 0; n < count_of(follow); n++)
		soft_follow_end(follow, n, end_with);
	return follow->error;
}

/* A process that has ended; its children are known before. */
static int look_at_end(struct soft_follow *follow, struct soft_process *process)
{
	const struct engine_channel *page = page_of(follow, process);

	if (process->end_fd >= 0)
		process->has_status |= !ended_status(process->end_fd, process->pid,
						     &process->status);
	/* reaped already, and by an older kernel, which keeps nothing of it */
	if (!process->has_status && page->use == ENGINE_USE_ENDING) {
		process->has_status = 1;
		process->status = (int)(page->exit_status & 0xff) << 8;
	}
	soft_follow_end(follow, number_of(follow, process), NULL);
	return 1;
}

static int look_at_pages(struct soft_follow *follow)
{
	uint32_t count = count_of(follow), used = 0;
	int had = 0;

	for (uint32_t n = 1; n < count; n++) {
		had |= look_at_page(follow, &follow->processes[n]);
		used += follow->processes[n].use != SOFT_NONE;
	}
	if (used >= count / 2 && count < follow->channel->sizes.processes) {
		soft_channel_grow(follow->channel);
		begin_pages(follow, count);
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
	uint32_t count = count_of(follow);
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
	had = look_at_pages(follow);
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

	if (count_of(follow) == 1)
		return follow->error;
	had = look_at_pages(follow);
	had |= look_at_stops(follow);
	for (uint32_t n = 0; n < count_of(follow) && !follow->error; n++)
		if (follow->processes[n].use == SOFT_LIVE)
			had |= look_at_ask(follow, &follow->processes[n]);
	had |= look_at_ends(follow);
	return follow->error ? follow->error : had;
}

int soft_follow_has(const struct soft_follow *follow)
{
	for (uint32_t n = 1; n < count_of(follow); n++)
		if (follow->processes[n].use != SOFT_NONE)
			return 1;
	return 0;
}

/* Whether a process is in the engine, where its state is one of two. */
static int is_in(const struct soft_follow *follow, uint32_t one, uint32_t other)
{
	for (uint32_t n = 0; n < count_of(follow); n++) {
		const struct soft_process *process = &follow->processes[n];
		uint32_t state = __atomic_load_n(&page_of(follow, process)->state,
						 __ATOMIC_ACQUIRE);

		if (process->use == SOFT_LIVE && !process->is_native && process->end_fd >= 0 &&
		    (state == one || state == other) && !ended_is(process->end_fd))
			return 1;
	}
	return 0;
}

int soft_follow_is_inside(const struct soft_follow *follow)
{
	return is_in(follow, ENGINE_RUNS, ENGINE_WAITING);
}

int soft_follow_is_entering(const struct soft_follow *follow)
{
	return is_in(follow, ENGINE_WAITING, ENGINE_WAITING);
}

void soft_follow_release(struct soft_follow *follow)
{
	for (uint32_t n = 0; follow->processes && n < count_of(follow); n++) {
		soft_modules_release(&follow->processes[n].modules);
		ended_close(follow->processes[n].end_fd);
	}
	free(follow->processes);
	free(follow->ready);
	follow->processes = NULL;
	follow->ready = NULL;
}
