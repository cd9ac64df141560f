/* SPDX-License-Identifier: MIT */
#include "session/trail/step.h"

#include "session/ticks.h"
#include "session/trail/step_own.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define TRAP_FLAG 0x100u
#define CODE_SEGMENT 0x33 /* __USER_CS: any other's code is not 64-bit code */
#define SPINS 200	  /* looks in vain before the tracer sleeps */
/* In rax of a system call that is to be made again: include/linux/errno.h of the kernel. */
#define ERESTARTSYS 512
#define ERESTART_LAST 516
#define SYSCALL_BYTES 2

/* ---- what ran, written down ---- */

void step_failed(struct step *step, int err)
{
	if (err < 0 && !step->error)
		step->error = err;
}

static void block_end(struct step *step, struct step_thread *thread)
{
	if (!thread->cut.entry.instructions || !thread->trail)
		return;
	step_failed(step, step->sink->calls->block(step->sink, thread->trail, &thread->cut.entry,
						   thread->cut.code, ticks_monotonic_ns()));
	thread->cut.entry = (struct trail_entry){ 0 };
	step->result.blocks++;
}

void step_event(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
		uint64_t first, uint64_t second)
{
	struct trail_between between = { .event = kind, .at = at, .values = { first, second } };

	block_end(step, thread);
	if (!thread->trail)
		return;
	step_failed(step, step->sink->calls->event(step->sink, thread->trail, &between,
						   ticks_monotonic_ns()));
}

void step_ran(struct step *step, struct step_thread *thread, uint64_t rip)
{
	if (!thread->insn.bytes) {
		step_event(step, thread, TRAIL_GAP, rip, TRAIL_GAP_NATIVE, 0);
		return;
	}
	if (thread->insn.repeats && rip == thread->at)
		return; /* a round of a string instruction */
	step->result.instructions++;
	if (block_cut_add(&thread->cut, thread->at, thread->code, &thread->insn))
		block_end(step, thread);
	thread->is_over = 1;
}

static void made_syscall(struct step *step, struct step_thread *thread,
			 const struct user_regs_struct *regs, uint64_t at)
{
	step_event(step, thread, TRAIL_SYSCALLED, at, thread->rax, regs->rax);
	if (thread->child)
		step_event(step, thread, TRAIL_FORK, at, (uint64_t)thread->child, 0);
	thread->child = 0;
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

static void comm_read(pid_t pid, pid_t tid, char comm[17])
{
	char path[64];
	FILE *file;

	comm[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	file = fopen(path, "re");
	if (file && fgets(comm, 17, file))
		comm[strcspn(comm, "\n")] = '\0';
	if (file)
		fclose(file);
}

int step_is_agents(pid_t pid, pid_t tid)
{
	char comm[17];

	if (tid == pid)
		return 0;
	comm_read(pid, tid, comm);
	return !strcmp(comm, "waymark") || !strcmp(comm, "waymark-keeper");
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

void step_thread_made(struct step *step, pid_t tid)
{
	struct step_thread *thread;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", step->pid, tid);
	if (!access(path, F_OK) || step_thread_find(step, tid)) {
		step_thread_add(step, tid);
		return;
	}
	thread = thread_new(step, tid);
	if (thread)
		thread->is_stranger = 1;
}

struct step_thread *step_thread_add(struct step *step, pid_t tid)
{
	struct step_thread *thread = step_thread_find(step, tid);
	char comm[17];

	if (thread)
		return thread;
	thread = thread_new(step, tid);
	if (!thread)
		return NULL;
	comm_read(step->pid, tid, comm);
	step_failed(step, step->sink->calls->thread_begin(step->sink, &thread->trail, tid, comm,
							  TRAIL_STEP, ticks_monotonic_ns()));
	return thread;
}

void step_thread_end(struct step *step, struct step_thread *thread)
{
	block_end(step, thread);
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

/* The bytes of code at an address: as many as there are. */
static size_t code_read(pid_t tid, uint64_t at, uint8_t code[STEP_CODE_MAX])
{
	size_t here = PAGE - at % PAGE;
	struct iovec to = { code, STEP_CODE_MAX };
	struct iovec from[2] = {
		{ (void *)(uintptr_t)at, here < STEP_CODE_MAX ? here : STEP_CODE_MAX },
		{ (void *)(uintptr_t)(at + here), here < STEP_CODE_MAX ? STEP_CODE_MAX - here : 0 }
	};
	ssize_t got = process_vm_readv(tid, &to, 1, from, here < STEP_CODE_MAX ? 2 : 1, 0);

	return got > 0 ? (size_t)got : 0;
}

/* Let it go for the instruction at `at`, where it stands; `signal` is delivered first. */
static void let_go(struct step_thread *thread, const struct user_regs_struct *regs, uint64_t at,
		   int signal)
{
	size_t bytes = code_read(thread->tid, at, thread->code);

	thread->at = at;
	thread->rax = regs->rax;
	thread->signal = signal;
	thread->is_over = 0;
	if (regs->cs != CODE_SEGMENT || block_insn(&thread->insn, at, thread->code, bytes))
		thread->insn = (struct block_insn){ 0 };
	thread->is_stopped = ptrace(PTRACE_SINGLESTEP, thread->tid, 0, signal) < 0;
}

void step_hide_flag(struct step_thread *thread, struct user_regs_struct *regs)
{
	size_t at = 0;
	long word;

	if (thread->insn.kind == TRAIL_SYSCALL && regs->r11 & TRAP_FLAG) {
		regs->r11 &= ~(unsigned long long)TRAP_FLAG;
		ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
		return;
	}
	while (at < STEP_CODE_MAX - 1 &&
	       (thread->code[at] == 0x66 || (thread->code[at] & 0xf0) == 0x40))
		at++;
	if (!thread->insn.bytes || thread->code[at] != 0x9c)
		return;
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, thread->tid, regs->rsp, 0);
	if (!errno)
		ptrace(PTRACE_POKEDATA, thread->tid, regs->rsp, word & ~(long)TRAP_FLAG);
}

/* ---- stops ---- */

/*
 * A system call was broken off, and will be made again by an instruction that the thread goes back to behind our
 * back, or never, where a handler comes between. Until a step is over, it counts as standing there.
 */
static int says_again(const struct user_regs_struct *regs)
{
	long long result = (long long)regs->rax;

	return result <= -ERESTARTSYS && result >= -ERESTART_LAST;
}

static int is_broken_off(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	return thread->insn.bytes && thread->insn.kind == TRAIL_SYSCALL && says_again(regs);
}

static void on_broken_off(struct step *step, struct step_thread *thread,
			  const struct user_regs_struct *regs, int signal)
{
	uint64_t at = regs->rip - SYSCALL_BYTES, number = thread->rax;

	if (!thread->is_broken_off) {
		step_ran(step, thread, regs->rip);
		made_syscall(step, thread, regs, at);
	}
	let_go(thread, regs, at, signal);
	thread->rax = number;
	thread->is_broken_off = 1;
}

/*
 * Let it go from a stop that it was asked for, or that SIGCONT has ended, wherever it is: in a system call it goes back to
 * that. (orig_rax is that call's number, and negative anywhere else.)
 */
static void resume(struct step_thread *thread, const struct user_regs_struct *regs, int signal)
{
	int is_again = (long long)regs->orig_rax >= 0 && says_again(regs);

	let_go(thread, regs, is_again ? regs->rip - SYSCALL_BYTES : regs->rip, signal);
	thread->is_broken_off = is_again;
	if (is_again)
		thread->rax = regs->orig_rax;
}

/* An agent that comes in with another program begins as threads of that. */
static int named_itself(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	return thread->insn.kind == TRAIL_SYSCALL && thread->rax == SYS_prctl &&
	       regs->rdi == PR_SET_NAME;
}

/* After an instruction, or at a handler's first. */
static void on_trap(struct step *step, struct step_thread *thread, struct user_regs_struct *regs)
{
	siginfo_t info = { 0 };
	int signal = 0;

	ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info);
	if (info.si_code == SIGTRAP) { /* ptrace_notify(), in the kernel's signal_setup_done() */
		step_event(step, thread, TRAIL_SIGNAL, thread->at, (uint64_t)thread->signal,
			   regs->rip);
	} else if (is_broken_off(thread, regs)) {
		thread->is_broken_off = 0;
		on_broken_off(step, thread, regs, 0);
		return;
	} else {
		step_ran(step, thread, regs->rip);
		if (thread->insn.kind == TRAIL_SYSCALL)
			made_syscall(step, thread, regs, regs->rip);
		step_hide_flag(thread, regs);
		if (named_itself(thread, regs) && step_is_agents(step->pid, thread->tid)) {
			step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
			ptrace(PTRACE_DETACH, thread->tid, 0, 0);
			step_thread_remove(step, thread);
			return;
		}
		if (info.si_code == SI_KERNEL || info.si_code <= 0)
			signal = SIGTRAP; /* the program's own */
	}
	thread->is_broken_off = 0;
	let_go(thread, regs, regs->rip, signal);
}

/* About to get a signal. Its instruction has not run, but for a system call. */
static void on_signal(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		      int signal)
{
	if (is_broken_off(thread, regs)) {
		on_broken_off(step, thread, regs, signal);
		return;
	}
	if (thread->insn.bytes && thread->insn.kind == TRAIL_SYSCALL && !thread->is_over &&
	    regs->rip == thread->at + thread->insn.bytes) {
		step_ran(step, thread, regs->rip);
		made_syscall(step, thread, regs, regs->rip);
	}
	let_go(thread, regs, regs->rip, signal);
}

static void on_exec(struct step *step, struct step_thread *thread,
		    const struct user_regs_struct *regs)
{
	for (struct step_thread *other = step->threads, *next; other; other = next) {
		next = other->next;
		if (other != thread)
			step_thread_remove(step, other);
	}
	if (thread->is_begun && thread->insn.kind == TRAIL_SYSCALL)
		step_ran(step, thread, thread->at + thread->insn.bytes);
	step_event(step, thread, TRAIL_EXEC, regs->rip, 0, 0);
	step_failed(step, modules_note(&step->modules, step->pid));
	if (regs->cs != CODE_SEGMENT) {
		step->result.is_foreign = 1;
		step_event(step, thread, TRAIL_GAP, 0, TRAIL_GAP_NATIVE, 0);
		step_event(step, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
		ptrace(PTRACE_DETACH, thread->tid, 0, 0);
		step_thread_remove(step, thread);
		return;
	}
	/* the step ends with the system call's, before an instruction has run */
	thread->is_begun = 0;
	thread->is_stopped = ptrace(PTRACE_SINGLESTEP, thread->tid, 0, 0) < 0;
}

static void on_exit_of(struct step *step, struct step_thread *thread,
		       const struct user_regs_struct *regs)
{
	unsigned long status = 0;
	int number = (int)regs->orig_rax;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &status);
	if (thread->insn.kind == TRAIL_SYSCALL &&
	    (number == SYS_exit || number == SYS_exit_group) &&
	    regs->rip == thread->at + thread->insn.bytes)
		step_ran(step, thread, regs->rip);
	step_failed(step, modules_note(&step->modules, step->pid));
	/* each thread is told of the signal, and one of them had it */
	if (WIFSIGNALED((int)status) && thread->signal == WTERMSIG((int)status)) {
		step->result.killed_tid = thread->tid;
		step->result.killed_by = thread->signal;
	}
	if (WIFSIGNALED((int)status))
		step_event(step, thread, TRAIL_END,
			   thread->is_begun && !thread->is_over ? thread->at : 0, TRAIL_KILLED,
			   (uint64_t)WTERMSIG((int)status));
	else
		step_event(step, thread, TRAIL_END, 0, TRAIL_EXITED,
			   (uint64_t)WEXITSTATUS((int)status));
	thread->is_stopped = ptrace(PTRACE_CONT, thread->tid, 0, 0) < 0;
}

static void on_stop(struct step *step, struct step_thread *thread, int status)
{
	struct user_regs_struct regs;
	int signal = WSTOPSIG(status), kind = status >> 16;
	unsigned long message = 0;

	thread->is_stopped = 1;
	if (thread->is_stranger) {
		ptrace(PTRACE_DETACH, thread->tid, 0, kind || signal == SIGTRAP ? 0 : signal);
		step_thread_remove(step, thread);
		return;
	}
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		return; /* killed; its end is yet to come */
	if (kind == PTRACE_EVENT_EXIT) {
		on_exit_of(step, thread, &regs);
	} else if (kind == PTRACE_EVENT_EXEC) {
		on_exec(step, thread, &regs);
	} else if (kind == PTRACE_EVENT_CLONE) {
		ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &message);
		thread->child = (pid_t)message;
		step_thread_made(step, (pid_t)message);
		thread->is_stopped = ptrace(PTRACE_SINGLESTEP, thread->tid, 0, 0) < 0;
	} else if (kind == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		thread->is_stopped = ptrace(PTRACE_LISTEN, thread->tid, 0, 0) < 0;
	} else if (!thread->is_begun) {
		thread->is_begun = 1;
		resume(thread, &regs, kind || signal == SIGTRAP ? 0 : signal);
	} else if (kind == PTRACE_EVENT_STOP) {
		resume(thread, &regs, 0);
	} else if (signal == SIGTRAP) {
		on_trap(step, thread, &regs);
	} else {
		on_signal(step, thread, &regs, signal);
	}
}

/* Look once at all threads. Returns how many had stopped or ended. */
static int look(struct step *step)
{
	int found = 0;

	for (struct step_thread *thread = step->threads, *next; thread; thread = next) {
		int status;
		pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		next = thread->next;
		if (!got)
			continue;
		found++;
		if (got > 0 && WIFSTOPPED(status)) {
			on_stop(step, thread, status);
			if (status >> 16 == PTRACE_EVENT_EXEC)
				break; /* the others are gone */
			continue;
		}
		if (got > 0 && thread->tid == step->pid)
			step->result.status = status;
		step_thread_remove(step, thread);
	}
	return found;
}

int step_run(struct step *step, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	int spins = 0;

	while (step->threads && !step->error) {
		if (look(step)) {
			spins = 0;
		} else if (++spins > SPINS) {
			nanosleep(&(struct timespec){ .tv_nsec = STEP_NAP_NS }, NULL);
			spins = 0;
		}
		if (ticks_monotonic_ns() >= end_ns)
			break;
	}
	step->result.is_over = !step->threads;
	return step->error ? step->error : !!step->threads;
}

void step_result(const struct step *step, struct step_result *result)
{
	*result = step->result;
}

pid_t step_pid(const struct step *step)
{
	return step->pid;
}
