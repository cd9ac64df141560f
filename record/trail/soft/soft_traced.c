/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_traced.h"

#include "record/trail/soft/soft_asked.h"
#include "record/trail/soft/soft_children.h"
#include "record/trail/soft/soft_stopped.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#define LEAVE_NS UINT64_C(2000000000) /* for a process to leave */

static struct soft_process *process_of(const struct soft_follow *follow, pid_t tid)
{
	pid_t pid = (pid_t)target_status_number(tid, "Tgid");

	for (uint32_t n = 0; pid > 0 && n < follow->count; n++)
		if (follow->processes[n].use != SOFT_NONE && follow->processes[n].pid == pid)
			return &follow->processes[n];
	return NULL;
}

/* It runs in the engine, or soon will. A child that borrows its parent's memory never does. */
static int is_inside(const struct soft_process *process)
{
	const struct engine_channel *head = soft_follow_head(process);
	uint32_t state = head ? __atomic_load_n(&head->state, __ATOMIC_ACQUIRE)
			      : (uint32_t)ENGINE_LEFT;

	return process->use == SOFT_EXPECTED || state == ENGINE_RUNS ||
	       (state == ENGINE_WAITING && !process->is_native);
}

/* All its threads run natively. A thread may reach its native code a moment later. */
static int is_out(const struct soft_follow *follow, const struct soft_process *process)
{
	const struct engine_channel *head = soft_follow_head(process);
	const struct engine_child *entry = soft_children_entry(follow, process);

	return !is_inside(process) &&
	       !(head && __atomic_load_n(&head->leaving, __ATOMIC_SEQ_CST)) &&
	       !(entry && __atomic_load_n(&entry->leaving, __ATOMIC_SEQ_CST));
}

static int seize_turn(struct engine_channel *head, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&head->seize, &from, to, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/* It has a handler for the signal, and no execve(2) is about to take that away. */
static int may_be_told(const struct soft_process *process, const struct engine_channel *head)
{
	uint32_t asked = __atomic_load_n(&head->ask, __ATOMIC_SEQ_CST);

	return is_inside(process) && asked != ENGINE_ASK_EXEC && asked != ENGINE_ASK_TRACED &&
	       (__atomic_load_n(&head->state, __ATOMIC_SEQ_CST) == ENGINE_RUNS ||
		!process->is_entered);
}

/*
 * A process that has left, or has executed a program, would die of the signal: pairs with
 * leave_untold() and process_executes() of the engine.
 */
static int tell(const struct soft_process *process, struct engine_channel *head)
{
	siginfo_t info = { .si_signo = SIGTRAP, .si_code = SI_QUEUE };
	int may;

	info.si_pid = getpid();
	info.si_ptr = (void *)(uintptr_t)ENGINE_MAGIC;
	__atomic_add_fetch(&head->tellers, 1, __ATOMIC_SEQ_CST);
	may = may_be_told(process, head);
	if (may)
		syscall(SYS_rt_sigqueueinfo, process->pid, SIGTRAP, &info);
	__atomic_sub_fetch(&head->tellers, 1, __ATOMIC_SEQ_CST);
	return may;
}

/* It runs natively because of that, if it did not before. */
static int note_traced(struct engine_channel *head)
{
	uint32_t none = ENGINE_NATIVE_NOT;

	if (!__atomic_compare_exchange_n(&head->native, &none, ENGINE_NATIVE_TRACED, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return 0;
	head->native_ticks = __rdtsc();
	return 1;
}

/* Once a look: what makes it leave. */
static void lead_out(struct soft_follow *follow, struct soft_tracing *tracing)
{
	struct soft_process *tracee = tracing->tracee;
	struct engine_channel *head = soft_follow_head(tracee);

	if (!head)
		return;
	/* A program that it has executed meanwhile knows nothing of it. */
	if (note_traced(head))
		tracing->is_told = 0;
	/* it may have left the engine and executed a program without a word */
	if (!tracing->is_told && asked_is_thread(tracee->channel, tracee->pid, tracing->asked_tid))
		tracing->is_told = tell(tracee, head);
	if (tracing->is_told && !tracing->was_led)
		tracing->was_led = soft_stopped_lead(tracee->channel, tracee->pid,
						     &follow->late_ns);
}

/* We trace a child that borrows its parent's memory, and no other can. 1: no more. */
static int let_go(struct soft_follow *follow, struct soft_process *tracee)
{
	if (!tracee->traced || !tracee->shares_parent)
		return 1;
	if (!tracee->is_let_go) {
		native_note(&follow->natives, ENGINE_NATIVE_TRACED, tracee->pid,
			    ticks_monotonic_ns() - follow->began_ns);
		soft_follow_let_go(tracee, ENGINE_ASK_NOTHING);
	}
	return 0;
}

static void begin(const struct soft_follow *follow, struct soft_process *tracer,
		  const struct engine_channel *head)
{
	struct soft_tracing *tracing = &tracer->tracing;
	pid_t tid = (pid_t)head->trace_tid;
	struct soft_process *tracee = process_of(follow, tid);

	if (tracee == tracer)
		tracee = NULL;
	*tracing = (struct soft_tracing){ .asked_tid = tid,
					  .tracee = tracee,
					  .pid = tracee ? tracee->pid : 0,
					  .since_ns = ticks_monotonic_ns() };
	if (tracee && head->trace_seizes)
		tracing->tid = tid;
}

/* The call was made, or not: the thread waits no longer. */
static void end(struct soft_tracing *tracing)
{
	struct engine_channel *head = tracing->tracee ? soft_follow_head(tracing->tracee) : NULL;

	if (head && tracing->tid && tracing->tracee->pid == tracing->pid &&
	    !seize_turn(head, (uint32_t)tracing->tid, 0))
		seize_turn(head, ENGINE_SEIZE_WAITS, ENGINE_SEIZE_OVER);
	*tracing = (struct soft_tracing){ 0 };
}

int soft_traced_look(struct soft_follow *follow, struct soft_process *tracer)
{
	struct engine_channel *head = soft_follow_head(tracer);
	uint32_t asked = head ? __atomic_load_n(&head->trace, __ATOMIC_ACQUIRE)
			      : (uint32_t)ENGINE_TRACE_NOTHING;
	struct soft_tracing *tracing = &tracer->tracing;
	struct soft_process *tracee;
	struct engine_channel *of;
	int is_new, is_late, is_in;

	/* between two looks it may have made one call and asked for another */
	if (tracing->since_ns &&
	    (asked == ENGINE_TRACE_NOTHING ||
	     (asked == ENGINE_TRACE_ASKED && tracing->asked_tid != (pid_t)head->trace_tid)))
		end(tracing);
	if (asked != ENGINE_TRACE_ASKED)
		return 0;
	is_new = !tracing->since_ns;
	if (is_new || !tracing->tracee)
		begin(follow, tracer, head);
	tracee = tracing->tracee;
	/* a child that was made since all processes were looked at: the next look knows it */
	if (is_new && !tracee)
		return 1;
	is_late = ticks_monotonic_ns() - tracing->since_ns > LEAVE_NS;
	is_in = tracee && tracee->use != SOFT_NONE && tracee->pid == tracing->pid &&
		!is_out(follow, tracee);
	of = tracee ? soft_follow_head(tracee) : NULL;
	if (is_in && of && tracing->tid)
		seize_turn(of, 0, (uint32_t)tracing->tid);
	if (is_in && !is_late) {
		lead_out(follow, tracing);
		return 0;
	}
	if (!is_in && tracee && !is_late && !let_go(follow, tracee))
		return 1;
	soft_channel_answer(&head->trace, is_in && is_inside(tracee) ? ENGINE_TRACE_REFUSED
								     : ENGINE_TRACE_ALLOWED);
	return 1;
}
