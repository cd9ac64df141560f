/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_follow.h"

#include "record/trail/soft/soft_asked.h"
#include "record/trail/soft/soft_children.h"
#include "record/trail/soft/soft_ended.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/soft/soft_stopped.h"
#include "record/trail/soft/soft_traced.h"
#include "record/trail/privileges.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define SYSCALL_TRAP (SIGTRAP | 0x80)
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)
/* runs natively: no engine says what it makes */
#define CHILD_OPTIONS (OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

int soft_follow_failed(struct soft_follow *follow, int err)
{
	if (err < 0 && !follow->error)
		follow->error = err;
	return follow->error;
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
	if (privileges_must_be_named())
		control->page->tracer = (uint32_t)getpid();
	return 0;
}

void soft_follow_set_modules(struct soft_process *process)
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
	soft_follow_set_modules(first);
	first->end_fd = ended_open(pid);
	follow->began_ns = ticks_monotonic_ns();
	return soft_follow_failed(follow, first->end_fd < 0 ? first->end_fd
							    : soft_modules_note(&first->modules));
}

/* ---- execve(2) ---- */

/* Where it asks; NULL: nowhere, any more. */
static uint32_t *ask_of(const struct soft_follow *follow, const struct soft_process *process)
{
	struct engine_channel *head = soft_follow_head(process);
	struct engine_child *entry = process->shares_parent ? soft_children_entry(follow, process)
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
	return asked_is_thread(channel, process->pid, tid) ? tid : 0;
}

static void trace(struct soft_follow *follow, struct soft_process *process, uint32_t asked)
{
	pid_t tid = asking(follow, process);
	int options = asked == ENGINE_ASK_CHILD ? CHILD_OPTIONS : OPTIONS;

	process->is_native |= asked == ENGINE_ASK_CHILD;
	if (follow->is_ending || !tid || ptrace(PTRACE_SEIZE, tid, 0, options)) {
		if (!follow->is_ending)
			soft_follow_unfollowed(
				follow, tid ? ENGINE_UNFOLLOWED_CLOSED : ENGINE_UNFOLLOWED_LATE, 1);
		answer(follow, process, ENGINE_ASK_REFUSED);
		return;
	}
	process->traced = tid;
	process->is_let_go = process->is_looked_at = 0;
	process->answer = 0;
	follow->traced++;
	if (asked == ENGINE_ASK_EXEC && asked_gains(soft_follow_head(process), tid)) {
		follow->privileged++;
		soft_follow_let_go(process, ENGINE_ASK_REFUSED);
	} else if (asked == ENGINE_ASK_CHILD &&
		   asked_must_look(soft_children_entry(follow, process))) {
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
	uint64_t ns;

	if (!head)
		return;
	for (uint32_t why = 0; why < ENGINE_UNFOLLOWEDS_TOLD && follow->is_wanted; why++)
		soft_follow_unfollowed(follow, why, head->unfollowed[why]);
	follow->lost_threads += head->lost_threads;
	soft_clock_look(clock);
	ns = soft_clock_ns(clock, head->native_ticks);
	native_note(&follow->natives, head->native, process->pid,
		    ns > follow->began_ns ? ns - follow->began_ns : 0);
}

/* It has left the memory where its channel was mapped. */
static void leave_channel(struct soft_follow *follow, struct soft_process *process)
{
	note_head(follow, process);
	soft_children_give_entry(follow, process);
	process->reader->channel = NULL;
	soft_channel_close(process->channel);
	memset(process->children, 0, sizeof(process->children));
	process->life++;
	process->told = 0;
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
	soft_children_look(follow, process);
	soft_follow_failed(follow, soft_reader_executed(process->reader, (pid_t)former,
							process->pid, comm));
	leave_channel(follow, process);
	soft_follow_failed(follow, soft_modules_note(&process->modules));
	err = enter(follow, process, &follow->sizes);
	process->is_native = err != 0;
	process->is_entered = !err;
	if (!err)
		return;
	process->is_foreign = err == -WM_E_FOREIGN_ARCH;
	follow->privileged += err == -EPERM;
	if (!process->is_foreign && err != -EPERM)
		soft_follow_unfollowed(follow, soft_children_cause(process), 1);
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
		soft_children_made(follow, process);
	process->answer = 0;
	if (signal == SYSCALL_TRAP && soft_children_calls_untraced(follow, process))
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
			/* soft_children_made() counts it, or will; of a killed one 1 may stay */
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
		soft_follow_failed(follow,
				   process->sink->calls->process_end(process->sink, &ending));
}

int soft_follow_end(struct soft_follow *follow, struct soft_process *process,
		    const struct trail_between *end_with)
{
	const struct engine_channel *head = soft_follow_head(process);
	int is_first = process == follow->processes, is_over = !end_with;
	struct trail_between made;

	if (process->use != SOFT_LIVE)
		return follow->error;
	soft_children_look(follow, process);
	if (!end_with && process->has_status) {
		tell_end(process, &made);
		end_with = &made;
	}
	process->modules.is_gone = process->has_status;
	if (follow->is_wanted && !is_first &&
	    (head ? head->state == ENGINE_REFUSED : soft_children_is_lost(process)))
		soft_follow_unfollowed(follow, soft_children_cause(process), 1);
	if (process->sink && !follow->error) {
		soft_follow_failed(follow, soft_reader_end(process->reader, end_with));
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

	return head && __atomic_load_n(&head->told, __ATOMIC_ACQUIRE) != process->told;
}

/* A child of a process that is new is looked at behind it: so it is met in the same look. */
static int look_at_processes(struct soft_follow *follow)
{
	int had = 0;

	for (uint32_t n = 0; n < follow->count; n++) {
		struct soft_process *process = &follow->processes[n];

		if (process->use == SOFT_EXPECTED)
			had |= soft_children_look_expected(follow, process);
		if (process->use == SOFT_LIVE && has_told(process))
			had |= soft_children_look(follow, process);
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

/* Whether a process is in the engine, where its state is one of two. */
static int is_in(const struct soft_follow *follow, uint32_t one, uint32_t other)
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

int soft_follow_is_inside(const struct soft_follow *follow)
{
	return is_in(follow, ENGINE_RUNS, ENGINE_WAITING);
}

int soft_follow_is_entering(const struct soft_follow *follow)
{
	return is_in(follow, ENGINE_WAITING, ENGINE_WAITING);
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

		soft_modules_release(&process->modules);
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
