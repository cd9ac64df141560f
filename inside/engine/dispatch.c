/* SPDX-License-Identifier: MIT */
#include "inside/engine/breakpoints.h"
#include "inside/engine/channel.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_syscall.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"
#include "inside/engine/signal.h"
#include "inside/engine/state.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/translate.h"

#include <errno.h>
#include <time.h>

/* How long the others may take to come out of what was given up. */
#define POLL_NS 1000000
#define POLLS_MAX 200u
#define CHECKED_ENTRIES 32u /* of a checked trace by the same thread: then the page may be calm */

static int is_room(int error)
{
	return error == -ENOMEM || error == -ERANGE;
}

/* Drop all translations. Once no thread is in them, their addresses are free again. */
static struct trace *make_room(struct thread *thread, uint64_t pc, code_reader *reader, int *error)
{
	static const struct timespec poll_wait = { .tv_nsec = POLL_NS };
	struct trace *trace = NULL;

	trace_out(thread);
	traces_ask();
	traces_turn();
	for (unsigned int i = 0; i < POLLS_MAX && !trace && is_room(*error); i++) {
		if (i) {
			lock_give(&dispatch_lock);
			sys_call3(SYS_nanosleep, (long)&poll_wait, 0, 0);
			lock_take(&dispatch_lock);
		}
		traces_drop();
		trace = translate(pc, reader, error);
	}
	return trace;
}

static enum engine_native cause(int error)
{
	int refused = error == -ERANGE ? memory_code_error() : 0;

	if (refused == -EACCES || refused == -EPERM)
		return ENGINE_NATIVE_FORBIDDEN;
	if (error == -ERANGE)
		return refused ? ENGINE_NATIVE_ROOM : ENGINE_NATIVE_REACH;
	if (error == -ENODATA)
		return ENGINE_NATIVE_UNREAD;
	if (error == -ENOEXEC)
		return ENGINE_NATIVE_CODE;
	return traces_are_stuck() ? ENGINE_NATIVE_STUCK : ENGINE_NATIVE_ROOM;
}

struct trace *dispatch_find(struct thread *thread, uint64_t pc, struct exit *from,
			    code_reader *reader, int *error)
{
	struct trace *trace = translate(pc, reader, error);

	if (!trace && is_room(*error))
		trace = make_room(thread, pc, reader, error);
	else if (trace && from)
		translate_link(from, trace);
	trace_in(thread);
	if (trace && breakpoints_news(pc))
		thread_words_event(thread, TRAIL_GAP, pc, 0, TRAIL_GAP_BREAKPOINT, 0);
	if (!trace && *error != -EFAULT && *error != -EAGAIN) {
		channel.head->error = *error;
		channel_native(cause(*error));
	}
	return trace;
}

static struct thread_checked *checked_at(struct thread *thread, uint64_t pc)
{
	return &thread->checked[(pc ^ pc >> 8) % THREAD_CHECKED];
}

/*
 * Without the lock: a trace that the thread has entered before, and whose code is what it was. The
 * thread is in its generation, so it is there; it is dead once the mapping changes.
 */
static const struct trace *checked_find(struct thread *thread, uint64_t pc)
{
	struct thread_checked *known = checked_at(thread, pc);
	uint8_t code[CODE_ONCE_MAX];

	if (known->pc != pc || !known->left || known->generation != thread->generation ||
	    __atomic_load_n(&known->trace->is_dead, __ATOMIC_ACQUIRE) ||
	    gate_read(code, (const void *)pc, known->trace->code_bytes))
		return NULL;
	for (uint32_t i = 0; i < known->trace->code_bytes; i++)
		if (code[i] != known->trace->code[i])
			return NULL;
	known->left--;
	return known->trace;
}

static void checked_add(struct thread *thread, const struct trace *trace)
{
	if (trace->is_checked && !trace->is_x87_shown)
		*checked_at(thread, trace->pc) = (struct thread_checked){ trace->pc,
									  thread->generation, trace,
									  CHECKED_ENTRIES };
}

void dispatch_to(struct thread *thread, uint64_t pc, struct exit *from)
{
	const struct trace *trace;
	int error;

	thread->regs.rip = pc;
	if (thread->is_deferred)
		gate_signal();
	pages_look(sys_ticks());
	trace = checked_find(thread, pc);
	if (trace) {
		thread->next = (uint64_t)trace->head;
		return;
	}
	lock_take(&dispatch_lock);
	trace = dispatch_find(thread, pc, from, gate_read, &error);
	lock_give(&dispatch_lock);
	if (!trace && error != -EFAULT)
		leave(thread, pc);
	if (!trace) { /* it faults where the program wanted to be */
		thread->try_at = pc;
		thread->try_left = thread->try_id = 0;
		gate_signal();
	}
	if (trace->is_x87_shown)
		state_x87_now();
	checked_add(thread, trace);
	thread->next = (uint64_t)trace->head;
}

/* ---- where translated code comes to when it does not know on: gate.S calls engine_enter() ---- */

#define ADDRESS_BITS 47 /* of user space, if a program asks for no more */

/* Where an indirect branch leads, by what its exit says of it. */
static uint64_t indirect_target(const struct thread *thread, const struct exit *exit)
{
	switch (exit->kind) {
	case EXIT_RETURN: /* still there, below what it dropped */
		return *(const uint64_t *)(thread->regs.gpr[4] - exit->pops - 8);
	case EXIT_REGISTER:
		return thread->regs.gpr[exit->reg];
	default:
		return thread->target;
	}
}

/*
 * A branch to where no user's code can be. The processor faults at the branch if the address is not
 * canonical, else at the target. The thread runs the branch itself, so the fault is as natively.
 */
static void branch_try(struct thread *thread, const struct exit *exit)
{
	struct state state;

	state_left(&state, thread, exit);
	thread->regs.gpr[4] += exit->kind == EXIT_RETURN ? -(exit->pops + 8ul) : exit->pops;
	thread->regs.rip = thread->try_at = state.pc;
	thread->try_left = state.left;
	state_unrecord(thread);
	signal_onward_path(thread, &state);
	gate_signal();
}

/* An instruction with a breakpoint of another tool, as if it had not run. */
static void native_try(struct thread *thread, const struct exit *exit)
{
	thread->try_id = ring_last(thread);
	thread->try_left = 0;
	thread->regs.rip = thread->try_at = exit->target;
	state_unrecord(thread);
	thread_words_event(thread, TRAIL_GAP, exit->target, 0, TRAIL_GAP_BREAKPOINT, 0);
	gate_signal();
}

static void indirect(struct thread *thread, const struct exit *exit)
{
	uint64_t target = indirect_target(thread, exit);
	int has_code = 1;

	if (target >> ADDRESS_BITS) {
		lock_take(&dispatch_lock);
		has_code = ranges_left(target) || ranges_are_unreadable();
		lock_give(&dispatch_lock);
	}
	if (!has_code)
		branch_try(thread, exit);
	dispatch_to(thread, target, NULL);
}

void engine_enter(struct thread *thread, enum gate why)
{
	struct exit *exit = trace_exit_of(ring_last(thread));
	uint64_t target;

	switch (why) {
	case GATE_EXIT:
		dispatch_to(thread, exit->target, exit);
		return;
	case GATE_MISS:
		thread->regs.gpr[1] = thread->scratch;
		indirect(thread, exit);
		return;
	case GATE_CHANGED:
		target = thread->regs.gpr[1];
		thread->regs.gpr[1] = thread->scratch;
		dispatch_to(thread, target, NULL);
		return;
	case GATE_SYSCALL:
		trace_out(thread);
		syscall_make(thread, exit->target);
		dispatch_to(thread, thread->regs.rip, NULL);
		return;
	case GATE_REFUSED:
		if (exit->kind == EXIT_NATIVE)
			native_try(thread, exit);
		channel.head->error = -ENOEXEC;
		channel_native(ENGINE_NATIVE_CODE);
		leave(thread, exit->target);
	}
}
