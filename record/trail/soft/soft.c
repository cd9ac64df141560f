/* SPDX-License-Identifier: MIT */
/*
 * The origin `soft`: an engine inside of the process runs its program as translated code, which
 * logs its blocks (inside/engine/, abi/engine.h); this part reads the log.
 *
 * ptrace(2) is used only while the engine enters the process. When the tool ends, the process
 * continues. All calls come from one thread: tracing_soft, by take() at a gate of soft_become()
 * (soft_launch.h), or by attach(), which stops all threads.
 */
#include "record/trail/soft/soft_attach.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_ended.h"
#include "record/trail/soft/soft_follow.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/soft/soft_leave.h"
#include "record/trail/soft/soft_reader.h"
#include "record/trail/tracing.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define POLL_NS 500000	    /* segments take longer to fill */
#define STORE_BLOCK_BYTES 4 /* a store has its id at least */
#define POLL_NS_MAX 4000000
#define RID_POLL_NS_MAX 50000000
#define CLOSE_MS 2000

struct tracing {
	pid_t pid;
	int is_waiting, is_done; /* is_done: all was taken */
	uint64_t poll_ns;
	struct soft_control control;
	struct soft_channel channel; /* the first process's */
	struct soft_image image;
	struct soft_launch launch;
	struct soft_attach attach;
	int is_attached; /* to a program that ran before; what is ours is taken away again */
	int rid_fd;	 /* signals its end, as long as that takes; -1: nothing does */
	struct soft_follow follow;
	struct soft_reader reader;
	int is_let_go;
	struct tracing_result result;
	pid_t killed_tid; /* the thread whose signal killed the program; 0: not known */
	char detail[160]; /* of what was recorded with losses, or "" */
};

/* ---- begin ---- */

static int open_reader(struct tracing *soft, struct trail_sink *sink, const struct tracing_how *how)
{
	int err = soft_reader_init(&soft->reader, &soft->channel, sink);

	if (!err)
		soft->reader.newest_blocks = how->last_bytes / STORE_BLOCK_BYTES;
	if (!err)
		err = soft_follow_init(&soft->follow, &soft->control, &soft->channel, &soft->reader,
				       &soft->image);
	soft->follow.is_wanted = how->follows;
	return err;
}

static int open_all(struct tracing *soft, struct trail_sink *sink, const struct tracing_how *how)
{
	struct soft_sizes sizes = soft_sizes_for(how->last_bytes, how->follows);
	int err = soft_control_open(&soft->control);

	if (!err)
		err = soft_channel_open(&soft->channel, &sizes);
	if (err)
		return err;
	soft_channel_fill(&soft->channel);
	return open_reader(soft, sink, how);
}

static void end_child(pid_t pid)
{
	int status, got;

	kill(pid, SIGKILL);
	do {
		ptrace(PTRACE_CONT, pid, 0, 0);
		got = waitpid(pid, &status, __WALL);
	} while (got > 0 && WIFSTOPPED(status));
}

/* With nothing open yet, and nothing to be let go. */
static struct tracing *tracing_new(pid_t pid, char *detail)
{
	struct tracing *soft = calloc(1, sizeof(*soft));

	detail[0] = '\0';
	if (soft) {
		soft->pid = pid;
		soft->control.fd = soft->channel.fd = soft->image.fd = soft->rid_fd = -1;
		soft->is_done = 1;
		soft->poll_ns = POLL_NS;
	}
	return soft;
}

/* Up to where the engine is to begin. */
static int enter(struct tracing *soft, struct trail_sink *sink, int gate, char *detail)
{
	const struct soft_parts parts = { &soft->channel, &soft->image, &soft->control };
	int err = soft_launch_await(&soft->launch, soft->pid, gate, &parts);

	if (!err)
		err = sink->calls->begin(sink, soft->pid);
	if (!err)
		err = soft_follow_first(&soft->follow, soft->pid, sink);
	if (!err)
		err = soft_launch_enter(&soft->launch, &parts,
					(struct detail){ detail, TRACING_DETAIL_BYTES });
	soft_channel_close_fd(&soft->channel);
	return err;
}

static int take_launched(struct tracing **out, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	struct tracing *soft = tracing_new(pid, detail);
	int err;

	*out = NULL;
	if (!soft)
		return -ENOMEM;
	err = open_all(soft, sink, how);
	if (err)
		snprintf(detail, TRACING_DETAIL_BYTES, "the recorder maps memory for its trail%s",
			 err == -ENOMEM ? ": see ulimit -v, and how much is free" : "");
	if (!err)
		err = soft_image_find(&soft->image, how->machine.engine, detail,
				      TRACING_DETAIL_BYTES);
	if (!err) {
		err = enter(soft, sink, gate, detail);
		if (err)
			end_child(pid);
	}
	if (err) {
		soft_close(soft);
		return err;
	}
	soft_control_hold(&soft->control);
	soft->is_waiting = 1;
	soft->is_done = 0;
	*out = soft;
	return 0;
}

/* Until all its threads are stopped, and can continue under the engine. */
static int enter_running(struct tracing *soft, struct trail_sink *sink,
			 const struct tracing_how *how, struct detail detail)
{
	struct soft_sizes sizes = soft_sizes_for(how->last_bytes, 0);
	int err = soft_attach_enter(&soft->attach, soft->pid, &soft->control, &soft->channel,
				    &sizes, &soft->image, detail);

	if (err)
		return err;
	soft->is_waiting = soft->is_attached = 1;
	soft->rid_fd = ended_open(soft->pid);
	soft->attach.detail = (struct detail){ soft->detail, sizeof(soft->detail) };
	err = open_reader(soft, sink, how);
	if (!err)
		err = sink->calls->begin(sink, soft->pid);
	if (!err)
		err = soft_follow_first(&soft->follow, soft->pid, sink);
	return err;
}

static int attach_running(struct tracing **out, struct trail_sink *sink,
			  const struct tracing_how *how, pid_t pid, pid_t only, char *detail)
{
	struct tracing *soft;
	int err;

	*out = NULL;
	if (only) {
		snprintf(detail, TRACING_DETAIL_BYTES, "the engine takes all threads of a program");
		return -WM_E_TRAIL_ASKED;
	}
	soft = tracing_new(pid, detail);
	if (!soft)
		return -ENOMEM;
	err = soft_image_find(&soft->image, how->machine.engine, detail, TRACING_DETAIL_BYTES);
	if (!err)
		err = enter_running(soft, sink, how,
				    (struct detail){ detail, TRACING_DETAIL_BYTES });
	if (err) {
		if (soft->is_waiting)
			soft_attach_undo(&soft->attach, &soft->channel);
		soft_close(soft);
		return err;
	}
	soft->is_done = 0;
	*out = soft;
	return 0;
}

/* ---- run ---- */

static int go(struct tracing *soft)
{
	int err = 0;

	if (soft->is_waiting && soft->is_attached)
		err = soft_attach_go(&soft->attach, &soft->channel);
	else if (soft->is_waiting)
		soft_launch_go(&soft->launch);
	soft->is_waiting = 0;
	soft->is_attached = soft->is_attached && !err;
	return err;
}

/* Why the engine does not record. 0: it does, or has not begun. */
static int refusal(struct tracing *soft)
{
	const struct engine_channel *head = soft_follow_head(&soft->follow.processes[0]);
	int error = head ? __atomic_load_n(&head->error, __ATOMIC_RELAXED) : 0;

	if (error >= 0 || error < -(1 << 16) ||
	    __atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != ENGINE_REFUSED)
		return 0;
	snprintf(soft->detail, sizeof(soft->detail), "the engine says: %s", wm_error_text(error));
	return -WM_E_ENGINE_REFUSED;
}

static void note_figures(struct tracing *soft)
{
	struct tracing_result *result = &soft->result;

	result->words = soft->reader.words_put;
	result->overwritten = soft->reader.overwritten;
	result->unfollowed = soft->follow.unfollowed;
	result->privileged = soft->follow.privileged;
	result->natives = soft->follow.natives;
	result->is_foreign = soft->follow.processes[0].is_foreign;
	if (!soft->detail[0] && soft->follow.lost_threads)
		snprintf(soft->detail, sizeof(soft->detail),
			 "%u threads found no room to be recorded", soft->follow.lost_threads);
}

/* The first process has ended. Others may live. */
static int over(struct tracing *soft)
{
	struct soft_process *first = &soft->follow.processes[0];

	soft->result.is_over = 1;
	if (first->use == SOFT_LIVE && !first->has_status)
		first->has_status = !ended_status(first->end_fd, first->pid, &first->status);
	soft->result.status = first->status;
	first->modules.is_gone = 1;
	if (first->use == SOFT_LIVE) {
		soft_follow_end(&soft->follow, first, NULL);
		soft->killed_tid = soft->reader.killed_tid;
	}
	return soft->follow.error;
}

/* No process is left. */
static int finish(struct tracing *soft, const struct trail_between *end_with)
{
	int err = soft->is_done ? 0 : soft_follow_end_all(&soft->follow, end_with);

	soft->is_done = 1;
	note_figures(soft);
	return err;
}

static int first_is_over(const struct tracing *soft)
{
	const struct soft_process *first = &soft->follow.processes[0];

	return first->use != SOFT_LIVE || ended_is(first->end_fd);
}

/*
 * There was nothing to be taken: who has something wakes us, as does one that is traced, and stops.
 */
static void rest(struct tracing *soft)
{
	const struct timespec poll_wait = { .tv_nsec = (long)soft->poll_ns };
	sigset_t set;

	/* longer each time there was nothing: who waits for us, wakes us */
	if (soft->poll_ns < POLL_NS_MAX)
		soft->poll_ns *= 2;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (soft->follow.traced)
		sigtimedwait(&set, NULL, &poll_wait);
	else
		soft_control_wait(&soft->control, &poll_wait);
}

/* 1: there was something, and the first process was over before; or an error. */
static int look(struct tracing *soft, int *is_over)
{
	int had, more;

	*is_over = first_is_over(soft); /* before the look that takes the last of it */
	had = soft_follow_look(&soft->follow);
	if (had < 0)
		return had;
	more = soft_follow_take(&soft->follow);
	return more < 0 ? more : had || more;
}

static int run(struct tracing *soft, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	int err = go(soft), is_over;

	if (err)
		return err;
	do {
		int had = look(soft, &is_over);

		if (had < 0)
			return had;
		if (is_over && !had) {
			err = over(soft);
			if (err < 0)
				return err;
			if (!soft_follow_has(&soft->follow)) {
				err = finish(soft, NULL);
				return err < 0 ? err : refusal(soft);
			}
		}
		err = is_over ? 0 : refusal(soft);
		if (err)
			return err;
		if (had)
			soft->poll_ns = POLL_NS;
		else
			rest(soft);
	} while (ticks_monotonic_ns() < end_ns);
	return 1;
}

static int fetch(struct tracing *soft)
{
	return soft->is_done ? soft->reader.error : soft_follow_fetch(&soft->follow);
}

static void result(struct tracing *soft, struct tracing_result *result, char *detail)
{
	*result = soft->result;
	if (result->is_over)
		tracing_ended(result, soft->killed_tid ? soft->killed_tid : soft->pid,
			      result->status);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", soft->detail);
}

/* ---- close ---- */

/* Not yet: somebody is in there, it can't be stopped now, or another enters or traces it. */
static int may_unmap_yet(int err)
{
	return err == -EAGAIN || err == -EBUSY || err == -ETIMEDOUT || err == -EPERM ||
	       err == -WM_E_TRACED || err == -WM_E_STOPPED;
}

/*
 * Of one that attach_running() has taken and that was let go: get what is ours out of it, for about
 * that long. 1: something is left, for a thread does not come out.
 */
static int rid(struct tracing *soft, unsigned int for_ms)
{
	uint64_t poll_ns = POLL_NS;
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	struct engine_channel *head = soft_channel_head(&soft->channel);
	const struct soft_left left = {
		.engine = soft->attach.engine,
		.engine_bytes = soft->attach.engine_bytes,
		.channel_at = soft->attach.channel_at,
		.channel_bytes = soft->channel.bytes,
		.places = &soft->attach.places,
	};
	struct target target;
	int err;

	while (soft->is_attached && soft->rid_fd >= 0 && !ended_is(soft->rid_fd)) {
		/* the engine sets it at any time: it says what stays mapped, and no address */
		soft->attach.places.is_lasting = head->places.is_lasting;
		err = target_read(&target, soft->pid);
		if (err == -ESRCH || (!err && target_has_ended(&target)))
			soft->is_attached = 0; /* killed: our end lets its threads go */
		else if (__atomic_load_n(&head->state, __ATOMIC_ACQUIRE) == ENGINE_RUNS)
			soft_leave_move(soft->pid, left.places,
					soft->control.is_held ? head : NULL);
		else
			soft->is_attached = may_unmap_yet(soft_leave_unmap(soft->pid, &left));
		if (soft->is_attached && ticks_monotonic_ns() >= end_ns)
			return 1;
		if (soft->is_attached)
			nanosleep(&(struct timespec){ .tv_nsec = (long)poll_ns }, NULL);
		if (poll_ns < RID_POLL_NS_MAX) /* all its threads are stopped each time */
			poll_ns *= 2;
	}
	return 0;
}

/*
 * Whether what they do is recorded still: threads of our agent's are not, and may sleep for long.
 */
static int is_recorded(struct tracing *soft)
{
	if (!soft_follow_is_in(&soft->follow, ENGINE_RUNS, ENGINE_WAITING))
		return 0;
	if (soft->is_attached)
		return 1;
	return soft_follow_is_writing(&soft->follow) || soft->follow.traced ||
	       /* it has the engine, and has nothing to be recorded yet */
	       soft_follow_is_in(&soft->follow, ENGINE_WAITING, ENGINE_WAITING);
}

/*
 * Have the engine give the process back to its own code, within about that long, and write what is
 * left. An error is of the writing.
 */
static int end(struct tracing *soft, unsigned int for_ms)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	struct engine_channel *head = soft_channel_head(&soft->channel);
	int had = 1, is_over;

	if (soft->is_done)
		return soft->reader.error;
	if (soft->is_waiting && soft->is_attached) {
		soft_attach_undo(&soft->attach, &soft->channel);
		soft->is_waiting = soft->is_attached = 0;
	}
	go(soft);
	soft->follow.is_ending = 1;
	soft_control_ask(&soft->control, ENGINE_ASKED_STOP);
	while (had >= 0 && (had || is_recorded(soft)) && ticks_monotonic_ns() < end_ns) {
		had = look(soft, &is_over);
		if (had)
			continue;
		rest(soft);
		if (soft->is_attached)
			soft_leave_move(soft->pid, &soft->attach.places, head);
	}
	/* the reader failed: threads that wait for room would wait for ever */
	if (soft->reader.error)
		soft_control_let_go(&soft->control);
	rid(soft, ticks_monotonic_ns() < end_ns ? for_ms : 0);
	soft_control_let_go(&soft->control);
	if (first_is_over(soft))
		over(soft);
	return finish(soft, &gone);
}

static int let_go(struct tracing *soft, unsigned int for_ms)
{
	/* an error is of the sink, which the other end knows of */
	end(soft, for_ms);
	return rid(soft, soft->is_let_go++ ? for_ms : 0);
}

int soft_close(struct tracing *soft)
{
	int err;

	if (!soft)
		return 0;
	err = end(soft, CLOSE_MS);
	soft_reader_release(&soft->reader);
	soft_follow_release(&soft->follow);
	soft_image_close(&soft->image);
	if (soft->rid_fd >= 0)
		close(soft->rid_fd);
	soft_control_close(&soft->control);
	soft_channel_close(&soft->channel);
	free(soft);
	return err;
}

const struct tracing_calls tracing_soft = {
	.take = take_launched,
	.attach = attach_running,
	.run = run,
	.let_go = let_go,
	.fetch = fetch,
	.result = result,
};
