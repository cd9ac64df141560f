/* SPDX-License-Identifier: MIT */
/* How a step takes a process, and lets it go. */
#include "record/trail/launch_gate.h"
#include "record/trail/testing/step/step_own.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/reach.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLOSE_MS 2000
#define ATTACH_ROUNDS 20

static int trail_begin(struct step *step)
{
	int err = step->sink->calls->begin(step->sink, step->pid);

	step->modules.sink = step->sink;
	return err ? err : modules_note(&step->modules, step->pid);
}

static struct step *step_new(struct trail_sink *sink)
{
	struct step *step = calloc(1, sizeof(*step));

	if (!step)
		return NULL;
	step->root = step;
	step->sink = sink;
	step->maker = block_maker_here();
	step->simulates_drop = getenv("ORACLE_DROPS_TRAPS") != NULL;
	return step;
}

static int options_of(const struct step *step)
{
	return step_follows(step) ? STEP_OPTIONS | STEP_OPTIONS_FOLLOW : STEP_OPTIONS;
}

/* One that did not come to be the program is ended, also if it is not our child. */
static void give_up(struct step *step)
{
	kill(step->pid, SIGKILL);
	/* one that is ending stops for us, and can't be killed */
	ptrace(PTRACE_CONT, step->pid, 0, 0);
	waitpid(step->pid, NULL, __WALL);
}

int step_take(struct step **out, struct trail_sink *sink, pid_t pid, int gate)
{
	struct step *step = *out = step_new(sink);
	struct step_thread *thread = NULL;
	int err;

	if (!step)
		return -ENOMEM;
	step->pid = pid;
	err = gate_await(gate, pid, options_of(step));
	step_note_ignored(step, pid);
	if (!err)
		err = trail_begin(step);
	if (!err)
		thread = step_thread_add(step, pid);
	if (thread) /* with the system call's end, before the first instruction */
		thread->is_stopped = ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0;
	err = err ? err : step->error;
	if (!err)
		return 0;
	give_up(step);
	step_close(step);
	*out = NULL;
	return err;
}

/*
 * Why a thread could not be seized, which the kernel does not say. It has ended and was not waited
 * for yet; or it was seized already, with the thread that made it, and its stop for that is
 * pending.
 */
enum seizing { SEIZE_REFUSED, SEIZE_ENDED, SEIZE_OURS };

static enum seizing seizing_of(pid_t pid, pid_t tid)
{
	char state = target_thread_state(pid, tid);

	if (target_status_number(tid, "TracerPid") == gettid())
		return SEIZE_OURS;
	return !state || state == 'Z' || state == 'X' ? SEIZE_ENDED : SEIZE_REFUSED;
}

/*
 * Seize the threads that are there and were not seized yet. Returns whether others may be there, or
 * the error that ended it.
 */
static int seize_all(struct step *step, pid_t only)
{
	int options = only ? STEP_OPTIONS & ~PTRACE_O_TRACECLONE : options_of(step);
	pid_t *tids;
	int count = target_threads(step->pid, &tids), has_more = 0, err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		enum seizing seizing = SEIZE_OURS;
		pid_t tid = tids[i];

		if ((only && tid != only) || step_thread_find(step, tid) ||
		    reach_is_agents(step->pid, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, options) < 0) {
			err = errno == ESRCH ? 0 : -errno;
			seizing = err ? seizing_of(step->pid, tid) : SEIZE_ENDED;
			if (seizing != SEIZE_REFUSED)
				err = 0;
			if (seizing != SEIZE_OURS)
				continue;
		}
		has_more = 1;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		step_thread_add(step, tid);
	}
	if (!err && !only && !target_threads_are(step->pid, tids, count))
		has_more = 1;
	free(tids);
	return err ? err : has_more;
}

int step_attach(struct step **out, struct trail_sink *sink, pid_t pid, pid_t only)
{
	struct step *step = *out = step_new(sink);
	int err, found = 1;

	if (!step)
		return -ENOMEM;
	step->pid = pid;
	step->is_single = only != 0;
	step_note_ignored(step, pid);
	err = trail_begin(step);
	/*
	 * threads that these start meanwhile are seized by the kernel, others' are found in the
	 * next round
	 */
	for (int i = 0; !err && (found > 0 || (!found && !step->threads)) && i < ATTACH_ROUNDS; i++)
		found = seize_all(step, only);
	err = err ? err : found < 0 ? found : step->error;
	if (!err && step->threads)
		return 0;
	step_close(step);
	*out = NULL;
	return err ? err : -ESRCH;
}

#define WAITING_MAX 64

/* Whether a step's SIGTRAP is still to come: it would kill who is let go. */
static int trap_waits(pid_t tid)
{
	struct __ptrace_peeksiginfo_args which = { .nr = WAITING_MAX };
	siginfo_t waiting[WAITING_MAX];
	long count = ptrace(PTRACE_PEEKSIGINFO, tid, &which, waiting);

	for (long i = 0; i < count; i++)
		if (waiting[i].si_signo == SIGTRAP && waiting[i].si_code > 0)
			return 1;
	return 0;
}

/*
 * Wait for a stop that it can be let go in; *signal is what it was about to get. 0, -ESRCH when it
 * has ended, -ETIMEDOUT.
 */
static int await_stop(struct step *step, struct step_thread *thread, uint64_t end_ns, int *signal)
{
	struct user_regs_struct regs;
	unsigned long message = 0;
	int status;

	if (!thread->is_stopped)
		ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
	while (!thread->is_stopped) {
		pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (got < 0 || (got > 0 && !WIFSTOPPED(status))) {
			if (got > 0 && thread->tid == step->pid) {
				step->result.status = status;
				step->has_status = 1;
			}
			return -ESRCH;
		}
		if (!got && ticks_monotonic_ns() > end_ns)
			return -ETIMEDOUT;
		if (!got) {
			nanosleep(&(struct timespec){ .tv_nsec = STEP_POLL_NS }, NULL);
			continue;
		}
		/* what it has just made is seized with it, and waits to be let go as well */
		if ((status >> 16 == PTRACE_EVENT_CLONE || status >> 16 == PTRACE_EVENT_FORK ||
		     status >> 16 == PTRACE_EVENT_VFORK) &&
		    !ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &message)) {
			thread->child = (pid_t)message;
			step_thread_made(step, (pid_t)message);
		}
		if (status >> 16 && trap_waits(thread->tid)) {
			ptrace(PTRACE_CONT, thread->tid, 0, 0); /* it stops for that at once */
			continue;
		}
		thread->is_stopped = 1;
		if (!ptrace(PTRACE_GETREGS, thread->tid, 0, &regs))
			step_catch_up(step, thread, &regs);
		if (!(status >> 16) && WSTOPSIG(status) != CALL_STOP)
			*signal = WSTOPSIG(status) == SIGTRAP ? step_own_trap(step, thread)
							      : WSTOPSIG(status);
	}
	return 0;
}

/* Stopped, and let go: nothing of a step is left in it. As await_stop(). */
static int detach(struct step *step, struct step_thread *thread, uint64_t end_ns)
{
	struct user_regs_struct regs;
	int signal = thread->about_to_get, err = await_stop(step, thread, end_ns, &signal);

	thread->about_to_get = 0;

	if (err)
		return err;
	if (!ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) && thread->is_begun) {
		if (!step_entered(step, thread, &regs) && regs.rip != thread->at &&
		    !thread->is_broken_off) {
			step_ran(step, thread, regs.rip);
			step_hide_flag(thread, &regs);
		}
		step_clear_flag(thread, &regs);
		step_show_mask(thread);
		step_give_pending(step, thread);
	}
	if (thread->child)
		step_event(step, thread, TRAIL_FORK, 0, (uint64_t)thread->child, 0);
	step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
	return step_release(step, thread, signal);
}

/* For a program that ignores SIGTRAP: all threads stop before the first continues (ignored.c). */
static void stop_all(struct step *step, uint64_t end_ns)
{
	struct step_thread *thread = step->threads;

	while (thread) {
		struct step_thread *first = step->threads, *next = thread->next;

		if (!thread->is_stopped &&
		    await_stop(step, thread, end_ns, &thread->about_to_get) == -ESRCH)
			step_thread_remove(step, thread);
		/* its children are before the first */
		thread = first == step->threads || first == thread ? next : step->threads;
	}
}

/* All threads of one process. How many are left. */
static int let_go_of(struct step *step, uint64_t end_ns)
{
	struct step_thread *left = NULL, *thread;
	int count = 0;

	if (step->threads)
		step_failed(step, modules_note(&step->modules, step->pid));
	step->is_put_back = 0;
	if (step->is_trap_ignored)
		stop_all(step, end_ns);
	while ((thread = step->threads) != NULL) {
		if (detach(step, thread, end_ns) != -ETIMEDOUT) {
			step_thread_remove(step, thread);
			continue;
		}
		step_thread_end(step, thread);
		step->threads = thread->next;
		thread->next = left;
		left = thread;
		count++;
	}
	step->threads = left;
	return count;
}

int step_process_let_go(struct step *step, unsigned int for_ms)
{
	return let_go_of(step, ticks_monotonic_ns() + for_ms * UINT64_C(1000000));
}

/* The newest first: who waits in vfork(2) can be stopped when his child has gone on. */
static int let_go_of_children(struct step *root, uint64_t end_ns)
{
	struct step *left = NULL, *child;
	int count = 0;

	while ((child = root->children) != NULL) {
		int threads = let_go_of(child, end_ns);

		count += threads;
		if (!threads) {
			step_over(child);
			continue;
		}
		/* others may have come before it meanwhile */
		for (struct step **at = &root->children; *at; at = &(*at)->next) {
			if (*at != child)
				continue;
			*at = child->next;
			break;
		}
		child->next = left;
		left = child;
	}
	root->children = left;
	return count;
}

int step_let_go(struct step *step, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	int left;

	let_go_of_children(step, end_ns);
	left = let_go_of(step, end_ns);
	left += let_go_of_children(step, end_ns); /* those that it made meanwhile, too */
	if (!step->threads && !step->is_told)
		step_over(step);
	return left;
}

int step_close(struct step *step)
{
	int err;

	if (!step)
		return 0;
	step_let_go(step, CLOSE_MS);
	while (step->children) {
		while (step->children->threads)
			step_thread_remove(step->children, step->children->threads);
		step_over(step->children);
	}
	while (step->threads)
		step_thread_remove(step, step->threads);
	modules_release(&step->modules);
	err = step->error;
	free(step);
	return err;
}
