/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/step/step.h"

#include "abi/control.h"
#include "record/trail/testing/step/step_own.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPINS 200 /* looks in vain before the tracer sleeps */
/* In rax of a system call that is to be made again: include/linux/errno.h of the kernel. */
#define ERESTARTSYS 512
#define ERESTART_LAST 516
#define GONE_NS 1000000000u /* a thread that executes a program is found again within that */
/* Selectors of 64-bit code: the kernel's, as the low byte also in a guest of Xen. */
#define LONG_MODE_SELECTOR 0x33

static void made_syscall(struct step *step, struct step_thread *thread,
			 const struct user_regs_struct *regs)
{
	if (!thread->is_unseen)
		step_event(step, thread, TRAIL_SYSCALLED, regs->rip, thread->rax, regs->rax);
	if (!thread->child && step_call_makes(thread->rax) && (long long)regs->rax > 0) {
		thread->child = (pid_t)regs->rax;
		step->root->result.unfollowed += (uint64_t)step_follows(step);
	}
	if (thread->child)
		step_event(step, thread, TRAIL_FORK, regs->rip, (uint64_t)thread->child, 0);
	thread->child = 0;
	if (thread->rax == SYS_rt_sigaction)
		step_set_action(step, thread, regs);
	if (thread->rax == SYS_rt_sigtimedwait)
		step_waited(thread, regs);
	if (thread->rax == SYS_mmap && regs->rdx & PROT_EXEC)
		step_failed(step, modules_note(&step->modules, step->pid));
}

/* ---- threads ---- */

struct step_thread *step_thread_find(struct step *step, pid_t tid)
{
	for (struct step_thread *thread = step->threads; thread; thread = thread->next)
		if (thread->tid == tid)
			return thread;
	return NULL;
}

static struct step_thread *thread_new(struct step *step, pid_t tid)
{
	struct step_thread *thread = calloc(1, sizeof(*thread));

	if (!thread) {
		step_failed(step, -ENOMEM);
		return NULL;
	}
	thread->tid = tid;
	thread->next = step->threads;
	step->threads = thread;
	return thread;
}

void step_stranger_add(struct step *maker, pid_t pid)
{
	struct step_thread *thread = thread_new(maker->root, pid);

	if (!thread)
		return;
	thread->is_stranger = 1;
	thread->ignores_trap = maker->is_trap_ignored;
}

void step_thread_made(struct step *step, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", step->pid, tid);
	if (!access(path, F_OK) || step_thread_find(step, tid)) {
		step_thread_add(step, tid);
		return;
	}
	if (step_follows(step))
		step_child_made(step, tid);
	else
		step_stranger_add(step, tid);
}

struct step_thread *step_thread_add(struct step *step, pid_t tid)
{
	struct step_thread *thread = step_thread_find(step, tid);
	char comm[16];

	if (thread)
		return thread;
	thread = thread_new(step, tid);
	if (!thread)
		return NULL;
	target_comm(step->pid, tid, comm);
	step_failed(step, step->sink->calls->thread_begin(step->sink, &thread->trail, tid, comm,
							  TRAIL_STEP, ticks_monotonic_ns()));
	return thread;
}

void step_thread_end(struct step *step, struct step_thread *thread)
{
	step_block_end(step, thread);
	if (thread->trail)
		step_failed(step, step->sink->calls->thread_end(step->sink, thread->trail,
								ticks_monotonic_ns()));
	thread->trail = NULL;
}

void step_thread_remove(struct step *step, struct step_thread *thread)
{
	struct step_thread **at = &step->threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	step_thread_end(step, thread);
	free(thread);
}

static int is_long_mode(const struct user_regs_struct *regs)
{
	return (regs->cs & 0xff) == LONG_MODE_SELECTOR;
}

/* Continue, with that signal first. System calls stop, except one whose signal has a handler. */
static void resume(const struct step *step, struct step_thread *thread,
		   struct user_regs_struct *regs, int signal)
{
	int by_call = thread->insn.kind == TRAIL_SYSCALL &&
		      (!signal || !step_is_caught(thread, signal));

	if (by_call) {
		step_show_mask(thread);
		step_give_pending(step, thread);
		step_clear_flag(thread, regs);
		step_await_children(step, thread);
	}
	thread->is_stopped = ptrace(by_call ? PTRACE_SYSCALL : PTRACE_SINGLESTEP, thread->tid, 0,
				    signal) < 0;
}

/* Let it go for its next instruction, which is at `at`; `signal` is delivered first. */
static void let_go(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		   uint64_t at, int signal)
{
	step_load(step, thread, at);
	if (!is_long_mode(regs))
		thread->insn = (struct block_insn){ 0 };
	thread->rax = regs->rax;
	thread->signal = signal;
	thread->is_over = 0;
	thread->is_in_call = 0;
	step_hidden_begin(thread, regs);
	if (thread->is_native && thread->insn.bytes) {
		step_put(step, thread, TRAIL_GAP, at, TRAIL_GAP_NATIVE, 0);
		thread->is_native = 0;
	}
	resume(step, thread, regs, signal);
}

/* ---- stops ---- */

static int has_to_restart(const struct user_regs_struct *regs)
{
	long long result = (long long)regs->rax;

	return (long long)regs->orig_rax >= 0 && result <= -ERESTARTSYS && result >= -ERESTART_LAST;
}

/*
 * A system call was broken off, and will be made again by an instruction that the thread goes back
 * to behind our back, or never, where a handler comes between. Until a step is over, it counts as
 * standing there.
 */
static int is_broken_off(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	return thread->insn.kind == TRAIL_SYSCALL && has_to_restart(regs);
}

static void on_broken_off(struct step *step, struct step_thread *thread,
			  struct user_regs_struct *regs, int signal)
{
	uint64_t number = thread->rax;

	if (!thread->is_broken_off) {
		step_ran(step, thread, regs->rip);
		thread->is_broken_off = !thread->is_unseen;
		thread->broken_result = (long long)regs->rax;
	}
	let_go(step, thread, regs, regs->rip - SYSCALL_BYTES, signal);
	thread->rax = number;
}

/* The kernel reports it by ptrace_notify(), in its signal_setup_done(). */
static int is_at_handler(const struct step_thread *thread)
{
	siginfo_t info = { 0 };

	return !ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) && info.si_signo == SIGTRAP &&
	       info.si_code == SIGTRAP;
}

/* An agent that comes in with another program begins as threads of that. */
static int named_itself(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	return thread->insn.kind == TRAIL_SYSCALL && thread->rax == SYS_prctl &&
	       regs->rdi == PR_SET_NAME && regs->rdx == CONTROL_NAMED;
}

int step_entered(struct step *step, struct step_thread *thread, struct user_regs_struct *regs)
{
	uint64_t at = thread->at;

	if (!is_at_handler(thread))
		return 0;
	/* the frame says what became of a system call that was broken off */
	if (thread->is_broken_off &&
	    (uint64_t)ptrace(PTRACE_PEEKDATA, thread->tid, regs->rdx + CONTEXT_RIP, 0) ==
		    at + SYSCALL_BYTES) {
		at += SYSCALL_BYTES;
		step_settle(step, thread, at,
			    ptrace(PTRACE_PEEKDATA, thread->tid, regs->rdx + CONTEXT_RAX, 0));
	}
	step_event(step, thread, TRAIL_SIGNAL, at, (uint64_t)thread->signal, regs->rip);
	step_clear_frame(thread, regs);
	thread->has_own_flag = 0;
	return 1;
}

/* About to get a signal. Its instruction has not run, unless it is a system call. */
static void on_signal(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		      int signal)
{
	if (thread->is_mask_shown)
		step_hide_mask(thread);
	if (signal == SIGTRAP && thread->is_trap_blocked) {
		step_hold(thread);
		signal = 0;
	}
	if (signal == SIGTRAP)
		step_report_pending(thread);
	if (is_broken_off(thread, regs)) {
		on_broken_off(step, thread, regs, signal);
		return;
	}
	if (thread->insn.bytes && !thread->is_over &&
	    regs->rip == thread->at + thread->insn.bytes &&
	    (thread->insn.kind == TRAIL_SYSCALL || thread->insn.traits & STEP_HIDES)) {
		step_ran(step, thread, regs->rip);
		if (thread->insn.kind == TRAIL_SYSCALL)
			made_syscall(step, thread, regs);
	}
	let_go(step, thread, regs, regs->rip, signal);
}

/* After an instruction, or at a handler's first, or with a SIGTRAP of the program's. */
static void on_trap(struct step *step, struct step_thread *thread, struct user_regs_struct *regs)
{
	int signal = step_own_trap(step, thread);
	siginfo_t info;

	if (ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info))
		return; /* killed */
	if (step_is_fatal(step, thread, regs, signal))
		return;
	if (step_entered(step, thread, regs)) {
		step_hide_mask(thread);
		let_go(step, thread, regs, regs->rip, 0);
		return;
	}
	if (step_is_probed(step, thread, &info)) {
		thread->insn.bytes = 0; /* what it was is not in memory */
	} else if (info.si_code <= 0 ||
		   (info.si_code == SI_KERNEL && thread->insn.kind != TRAIL_STOP)) {
		on_signal(step, thread, regs,
			  info.si_code <= 0 && step->is_trap_ignored ? 0 : SIGTRAP);
		return;
	}
	if (step_is_before(thread, &info, regs->rip)) {
		let_go(step, thread, regs, regs->rip, signal);
		return;
	}
	if (is_broken_off(thread, regs)) {
		on_broken_off(step, thread, regs, 0);
		return;
	}
	step_ran(step, thread, regs->rip);
	if (thread->insn.kind == TRAIL_SYSCALL) {
		made_syscall(step, thread, regs);
		step_hide_mask(thread);
	}
	step_hide_flag(thread, regs);
	let_go(step, thread, regs, regs->rip, signal);
}

/* Before a system call, and after it. */
static void on_call(struct step *step, struct step_thread *thread, struct user_regs_struct *regs)
{
	if (!thread->is_in_call) {
		thread->is_in_call = 1;
		step_settle(step, thread, thread->at, thread->broken_result);
		thread->rax = regs->orig_rax;
		if (step_gains_rights(thread, regs)) {
			step_let_gain(step);
			return;
		}
		thread->is_stopped = ptrace(PTRACE_SYSCALL, thread->tid, 0, 0) < 0;
		return;
	}
	if (named_itself(thread, regs)) {
		step_ran(step, thread, regs->rip);
		made_syscall(step, thread, regs);
		step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
		ptrace(PTRACE_DETACH, thread->tid, 0,
		       0); /* of its process others are still stepped */
		step_thread_remove(step, thread);
		return;
	}
	step_hide_mask(thread);
	if (is_broken_off(thread, regs)) {
		on_broken_off(step, thread, regs, 0);
		return;
	}
	step_ran(step, thread, regs->rip);
	made_syscall(step, thread, regs);
	step_hide_flag(thread, regs);
	if ((long long)regs->orig_rax < 0) /* from a handler, to where it may have been set */
		thread->has_own_flag = !!(regs->eflags & TRAP_FLAG);
	let_go(step, thread, regs, regs->rip, 0);
}

/* It has ended, or was ended, wherever it was. */
static void thread_gone(struct step *step, struct step_thread *thread)
{
	step_children_find(step, thread);
	step_thread_remove(step, thread);
}

static void tell_name(struct step *step, struct step_thread *thread)
{
	char comm[16];

	if (!thread->trail || !step->sink->calls->thread_name)
		return;
	target_comm(step->pid, thread->tid, comm);
	step_failed(step, step->sink->calls->thread_name(step->sink, thread->trail, comm));
}

/* All of its process continues without us; where that can't be just now, at its next stop. */
static void leave(struct step *step, struct step_thread *thread)
{
	step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
	step_thread_end(step, thread);
	thread->is_stranger = 1;
	thread->ignores_trap = step->is_trap_ignored;
	if (!step_release(step, thread, 0))
		step_thread_remove(step, thread);
}

static void on_exec(struct step *step, struct step_thread *thread,
		    const struct user_regs_struct *regs)
{
	unsigned long former = 0;
	struct step_thread *caller;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &former);
	caller = step_thread_find(step, (pid_t)former);
	if (caller && caller != thread) { /* who has executed it takes over the first thread's id */
		caller->tid = thread->tid;
		thread_gone(step, thread);
		thread = caller;
	}
	for (struct step_thread *other = step->threads, *next; other; other = next) {
		next = other->next;
		if (other != thread && !other->is_stranger)
			thread_gone(step, other);
	}
	if (thread->is_begun && thread->insn.kind == TRAIL_SYSCALL)
		step_ran(step, thread, thread->at + thread->insn.bytes);
	else if (thread->is_begun && thread->insn.traits & STEP_HIDES)
		thread->is_native = 1; /* the system call was hidden */
	step_event(step, thread, TRAIL_EXEC, regs->rip, 0, 0);
	tell_name(step, thread);
	step_failed(step, modules_note(&step->modules, step->pid));
	if (!is_long_mode(regs)) {
		step->result.is_foreign = 1;
		step_event(step, thread, TRAIL_GAP, 0, TRAIL_GAP_NATIVE, 0);
		leave(step, thread);
		return;
	}
	/* the step ends with the system call's, before an instruction has run */
	thread->is_begun = 0;
	thread->is_stopped = ptrace(PTRACE_SYSCALL, thread->tid, 0, 0) < 0;
}

static void on_exit_of(struct step *step, struct step_thread *thread,
		       const struct user_regs_struct *regs)
{
	enum trail_ending how = TRAIL_KILLED;
	unsigned long status = 0;
	int number = (int)regs->orig_rax;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &status);
	if (thread->insn.kind == TRAIL_SYSCALL &&
	    (number == SYS_exit || number == SYS_exit_group) &&
	    regs->rip == thread->at + thread->insn.bytes)
		step_ran(step, thread, regs->rip);
	if (thread->child) /* vfork(2), which it did not live to come back from */
		step_event(step, thread, TRAIL_FORK, 0, (uint64_t)thread->child, 0);
	step_failed(step, modules_note(&step->modules, step->pid));
	/* the kernel reports the signal to each thread; one of them had it */
	if (WIFSIGNALED((int)status) && thread->signal == WTERMSIG((int)status)) {
		step->result.killed_tid = thread->tid;
		step->result.killed_by = thread->signal;
	} else if (WIFSIGNALED((int)status) && WTERMSIG((int)status) != SIGKILL) {
		how = TRAIL_ENDED_WITH; /* SIGKILL alone kills a thread without a stop for it */
	}
	if (WIFSIGNALED((int)status))
		step_event(step, thread, TRAIL_END,
			   thread->is_begun && !thread->is_over ? thread->at : 0, how,
			   (uint64_t)WTERMSIG((int)status));
	else
		step_event(step, thread, TRAIL_END, 0, TRAIL_EXITED,
			   (uint64_t)WEXITSTATUS((int)status));
	thread->is_stopped = ptrace(PTRACE_CONT, thread->tid, 0, 0) < 0;
}

/* A thread's first stop, which may be in a system call that it will make again. */
static void on_first(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		     int signal)
{
	thread->is_begun = 1;
	thread->has_own_flag = !!(regs->eflags & TRAP_FLAG);
	step_hide_mask(thread);
	let_go(step, thread, regs, regs->rip - (has_to_restart(regs) ? SYSCALL_BYTES : 0), signal);
}

static void on_stop(struct step *step, struct step_thread *thread, int status)
{
	struct user_regs_struct regs;
	int signal = WSTOPSIG(status), kind = status >> 16;
	unsigned long message = 0;

	thread->is_stopped = 1;
	if (thread->is_stranger) {
		if (!step_release(step, thread, kind || signal == SIGTRAP ? 0 : signal))
			step_thread_remove(step, thread);
		return;
	}
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		return; /* killed; its end is yet to come */
	if (kind != PTRACE_EVENT_EXEC)
		step_catch_up(step, thread, &regs);
	if (kind == PTRACE_EVENT_EXIT) {
		on_exit_of(step, thread, &regs);
	} else if (kind == PTRACE_EVENT_EXEC) {
		on_exec(step, thread, &regs);
	} else if (kind == PTRACE_EVENT_CLONE || kind == PTRACE_EVENT_FORK ||
		   kind == PTRACE_EVENT_VFORK) {
		ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &message);
		thread->child = (pid_t)message;
		step_thread_made(step, (pid_t)message);
		thread->is_stopped = ptrace(thread->is_in_call ? PTRACE_SYSCALL : PTRACE_SINGLESTEP,
					    thread->tid, 0, 0) < 0;
	} else if (kind == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		thread->is_stopped = ptrace(PTRACE_LISTEN, thread->tid, 0, 0) < 0;
	} else if (!thread->is_begun) {
		on_first(step, thread, &regs, kind || (signal & ~0x80) == SIGTRAP ? 0 : signal);
	} else if (kind == PTRACE_EVENT_STOP) {
		on_signal(step, thread, &regs, 0);
		thread->is_unmoved = 0; /* a trap may be pending */
	} else if (signal == CALL_STOP) {
		on_call(step, thread, &regs);
	} else if (signal == SIGTRAP) {
		on_trap(step, thread, &regs);
	} else {
		on_signal(step, thread, &regs, signal);
	}
}

/*
 * A thread that executes a program takes its process's id, and is found under that a little later.
 * The others have their leader's among them; one that is stepped through alone has not. As
 * waitpid(2) does.
 */
static pid_t wait_for(struct step *step, struct step_thread *thread, int *status)
{
	pid_t got = waitpid(thread->tid, status, __WALL | WNOHANG);
	uint64_t now_ns;

	if (step->root->simulates_drop && got > 0 && step_simulate_drop(thread, *status))
		return ptrace(PTRACE_SINGLESTEP, thread->tid, 0, 0) < 0 ? got : 0;
	if (got >= 0 || !step->is_single || thread->tid == step->pid)
		return got;
	got = waitpid(step->pid, status, __WALL | WNOHANG);
	if (got > 0)
		thread->tid = step->pid;
	if (got >= 0)
		return got;
	now_ns = ticks_monotonic_ns();
	thread->gone_ns = thread->gone_ns ? thread->gone_ns : now_ns;
	return now_ns - thread->gone_ns > GONE_NS ? -1 : 0;
}

/* Look once at all threads. Returns how many had stopped or ended. */
static int look(struct step *step)
{
	int found = 0;

	for (struct step_thread *thread = step->threads, *next; thread; thread = next) {
		int status;
		pid_t got = wait_for(step, thread, &status);

		next = thread->next;
		/*
		 * the id of a thread that executes a program ends; what comes is the first thread's
		 */
		if (!got ||
		    (got < 0 && thread->tid != step->pid && step_thread_find(step, step->pid)))
			continue;
		found++;
		if (got > 0 && WIFSTOPPED(status)) {
			on_stop(step, thread, status);
			if (status >> 16 == PTRACE_EVENT_EXEC || step->is_let_go)
				break; /* the others are gone */
			continue;
		}
		if (got > 0 && thread->tid == step->pid) {
			step->result.status = status;
			step->has_status = 1;
		}
		thread_gone(step, thread);
	}
	return found;
}

/* The same of all processes. One that has no threads any more is over. */
static int look_at_all(struct step *root)
{
	int found = look(root);

	if (!root->threads && !root->is_told)
		step_over(root);
	for (struct step *child = root->children, *next; child; child = next) {
		next = child->next;
		found += look(child);
		if (!child->threads)
			step_over(child);
	}
	return found;
}

int step_run(struct step *step, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	int spins = 0;

	while ((step->threads || step->children) && !step->error) {
		if (step->sink->calls->is_full && step->sink->calls->is_full(step->sink)) {
			nanosleep(&(struct timespec){ .tv_nsec = STEP_POLL_NS }, NULL);
		} else if (look_at_all(step)) {
			spins = 0;
		} else if (++spins > SPINS) {
			nanosleep(&(struct timespec){ .tv_nsec = STEP_POLL_NS }, NULL);
			spins = 0;
		}
		if (ticks_monotonic_ns() >= end_ns)
			break;
	}
	step->result.is_over = !step->threads;
	return step->error ? step->error : step->threads || step->children;
}
