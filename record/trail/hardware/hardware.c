/* SPDX-License-Identifier: MIT */
/* What a process that is recorded by hardware stops for, and when its buffers are drained. */
#include "record/trail/hardware/hardware.h"

#include "record/trail/hardware/hardware_own.h"
#include "target/process/ticks.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#define POLL_NS 1000000 /* buffers take much longer to fill */
#define SYSCALL_BYTES 2
#define GONE_NS UINT64_C(1000000000)

void hardware_failed(struct hardware *hardware, int err)
{
	if (err < 0 && !hardware->error)
		hardware->error = err;
}

void hardware_note(struct hardware *hardware, enum hardware_note note, const char *form, ...)
{
	char *detail = hardware->result.detail;
	size_t room = sizeof(hardware->result.detail), used = strlen(detail);
	va_list arguments;

	if (hardware->noted & note)
		return;
	hardware->noted |= note;
	if (used)
		used += (size_t)snprintf(detail + used, room - used, "; ");
	if (used >= room)
		return;
	va_start(arguments, form);
	vsnprintf(detail + used, room - used, form, arguments);
	va_end(arguments);
}

static void let_go(struct hardware_thread *thread, int request, int signal)
{
	thread->is_stopped = ptrace((enum __ptrace_request)request, thread->tid, 0, signal) < 0;
}

/* Seen at its end: after the last branch no record shows what ran. */
static void last_steps(struct hardware *hardware, struct hardware_thread *thread,
		       const struct user_regs_struct *regs)
{
	int number = (int)regs->orig_rax, reached;
	int has_called = number == SYS_exit || number == SYS_exit_group;
	uint64_t at = regs->rip - (has_called ? SYSCALL_BYTES : 0);
	const struct block_insn *insn;

	if (hardware->origin != ORIGIN_BTS)
		return;
	reached = weave_reach(&thread->weave, at);
	hardware_failed(hardware, reached);
	insn = weave_look(&thread->weave, at);
	if (reached > 0 && has_called && insn && insn->kind == TRAIL_SYSCALL)
		hardware_failed(hardware, weave_insn(&thread->weave, at));
}

static void on_exit_of(struct hardware *hardware, struct hardware_thread *thread,
		       const struct user_regs_struct *regs)
{
	unsigned long status = 0;
	int is_killed;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &status);
	is_killed = WIFSIGNALED((int)status);
	hardware_renew(hardware);
	hardware_thread_settle(hardware, thread);
	/* by now another mapping may lie over one of the last records' */
	if (hardware->maps_changed)
		hardware_renew(hardware);
	if (thread->fd >= 0)
		last_steps(hardware, thread, regs);
	hardware_thread_event(
		hardware, thread, TRAIL_END, 0, is_killed ? TRAIL_KILLED : TRAIL_EXITED,
		(uint64_t)(is_killed ? WTERMSIG((int)status) : WEXITSTATUS((int)status)));
	let_go(thread, PTRACE_CONT, 0);
}

/* It may have been another thread that now has the number of the first. */
static void take_former(struct hardware *hardware, struct hardware_thread *thread)
{
	unsigned long former = 0;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &former);
	for (struct hardware_thread *other = hardware->threads; other; other = other->next) {
		if (other == thread || other->tid != (pid_t)former)
			continue;
		hardware_thread_settle(hardware, other);
		hardware_thread_take_over(hardware, thread, other);
	}
}

/* All that was stored is of the old program, whose files are still known. */
static void on_exec(struct hardware *hardware, struct hardware_thread *thread,
		    const struct user_regs_struct *regs)
{
	hardware_thread_settle(hardware, thread);
	take_former(hardware, thread);
	for (struct hardware_thread *other = hardware->threads, *next; other; other = next) {
		next = other->next;
		if (other != thread)
			hardware_thread_remove(hardware, other);
	}
	hardware_thread_event(hardware, thread, TRAIL_EXEC, regs->rip, 0, 0);
	codes_of_process_release(&hardware->codes);
	codes_of_process_init(&hardware->codes, hardware->pid, hardware->kernel);
	hardware->codes.codes.generation = thread->weave.generation + 1;
	hardware->is_executing = 0;
	hardware_renew(hardware);
	hardware_thread_stands(hardware, thread, regs->rip);
	let_go(thread, PTRACE_CONT, 0);
}

/* The thread made another: the place in its trail is unknown, so the trail does not say it. */
static void on_clone(struct hardware *hardware, struct hardware_thread *thread)
{
	unsigned long tid = 0;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &tid);
	hardware_thread_add(hardware, (pid_t)tid);
	let_go(thread, PTRACE_CONT, 0);
}

/* Its first stop: nothing of it has run that is to be recorded. */
static void on_first(struct hardware *hardware, struct hardware_thread *thread,
		     const struct user_regs_struct *regs, int signal)
{
	thread->is_begun = 1;
	if (!hardware_thread_open(hardware, thread))
		hardware_thread_stands(hardware, thread, regs->rip);
	let_go(thread, PTRACE_CONT, signal);
}

static void on_stop(struct hardware *hardware, struct hardware_thread *thread, int status)
{
	struct user_regs_struct regs;
	int signal = WSTOPSIG(status), kind = status >> 16;

	thread->is_stopped = 1;
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		return; /* killed; its end is yet to come */
	if (kind == PTRACE_EVENT_EXIT)
		on_exit_of(hardware, thread, &regs);
	else if (kind == PTRACE_EVENT_EXEC)
		on_exec(hardware, thread, &regs);
	else if (kind == PTRACE_EVENT_CLONE)
		on_clone(hardware, thread);
	else if (kind == PTRACE_EVENT_STOP && signal != SIGTRAP)
		let_go(thread, PTRACE_LISTEN, 0);
	else if (!thread->is_begun)
		on_first(hardware, thread, &regs, kind ? 0 : signal);
	else
		let_go(thread, PTRACE_CONT, kind ? 0 : signal);
}

/*
 * As waitpid(2) for it. One thread alone that executes a program is found under its process's id a
 * little later: as step.c.
 */
static pid_t wait_for(struct hardware *hardware, struct hardware_thread *thread, int *status)
{
	pid_t got = waitpid(thread->tid, status, __WALL | WNOHANG);
	uint64_t now_ns;

	if (got >= 0 || !hardware->is_single || thread->tid == hardware->pid)
		return got;
	got = waitpid(hardware->pid, status, __WALL | WNOHANG);
	if (got > 0)
		thread->tid = hardware->pid;
	if (got >= 0)
		return got;
	now_ns = ticks_monotonic_ns();
	thread->gone_ns = thread->gone_ns ? thread->gone_ns : now_ns;
	return now_ns - thread->gone_ns > GONE_NS ? -1 : 0;
}

/* Look once at all threads. Returns how many had stopped or ended. */
static int look(struct hardware *hardware)
{
	int found = 0;

	for (struct hardware_thread *thread = hardware->threads, *next; thread; thread = next) {
		int status;
		pid_t got = wait_for(hardware, thread, &status);

		next = thread->next;
		if (!got)
			continue;
		found++;
		if (got > 0 && WIFSTOPPED(status)) {
			on_stop(hardware, thread, status);
			if (status >> 16 == PTRACE_EVENT_EXEC)
				break; /* the others are gone */
			continue;
		}
		if (got > 0 && thread->tid == hardware->pid)
			hardware->result.status = status;
		hardware_thread_remove(hardware, thread);
	}
	return found;
}

static void drain_all(struct hardware *hardware)
{
	for (struct hardware_thread *thread = hardware->threads; thread; thread = thread->next)
		hardware_thread_drain(hardware, thread);
	if (hardware->maps_changed)
		hardware_renew(hardware);
}

int hardware_run(struct hardware *hardware, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);

	if (hardware->is_waiting)
		let_go(hardware->threads, PTRACE_CONT, 0);
	hardware->is_waiting = 0;
	while (hardware->threads && !hardware->error) {
		if (!look(hardware)) {
			drain_all(hardware);
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
		}
		if (ticks_monotonic_ns() >= end_ns)
			break;
	}
	hardware->result.is_over = !hardware->threads;
	return hardware->error ? hardware->error : !!hardware->threads;
}

void hardware_result(const struct hardware *hardware, struct hardware_result *result)
{
	*result = hardware->result;
}
