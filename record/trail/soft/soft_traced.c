/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_traced.h"

#include "base/array.h"
#include "record/trail/soft/soft_follow.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define LEAVE_NS UINT64_C(2000000000) /* for a process to leave */
#define LEAD_MS 1500		      /* less than the engine waits that asks */
#define LATE_NS UINT64_C(3000000000) /* of all that failed: meanwhile no other process is seen to */
#define POLL_NS 100000

/*
 * ---- a tracee that is stopped, for example by SIGSTOP: it has to leave the engine, but none of
 * its threads runs. The tool traces all its threads for a moment, lets each run out of the engine,
 * and detaches before the thread's first native instruction. There the kernel stops the thread
 * again. The process's group stop lasts throughout, so its parent gets no further report.
 *
 * A thread of the tool does that and ends. The kernel then detaches what is still traced, whatever
 * failed; it does the same when the tool is killed. A thread that is still in the engine stops
 * where it is, and leaves the engine once the process continues.
 */

struct led {
	pid_t tid;
	int is_out, has_mask;
	int again; /* a stop signal that came meanwhile: sent again when it is out */
};

struct leading {
	struct engine_places places; /* a copy: the process may write its channel at any time */
	pid_t pid;
	struct led *threads;
	size_t count, room;
	size_t inside; /* threads that have not left the engine */
};

/* Its registers are the program's. The engine gives gs back last, before its handler returns. */
static int is_native(const struct leading *leading, pid_t tid)
{
	const struct engine_places *places = &leading->places;
	struct user_regs_struct regs;

	return !ptrace(PTRACE_GETREGS, tid, NULL, &regs) && !regs.gs_base &&
	       regs.rip - places->start >= places->bytes;
}

/*
 * Signals for the program stay pending meanwhile, as they do natively. The engine restores the
 * program's mask when it leaves.
 */
static void hold_signals(const struct leading *leading, struct led *thread)
{
	uint64_t mask = ~leading->places.own_signals;

	if (!thread->has_mask && leading->places.own_signals)
		thread->has_mask = !ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(mask), &mask);
}

int soft_traced_stops(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* 1: something has become of it; 0: not yet; or -ESRCH. */
static int follow(const struct leading *leading, struct led *thread)
{
	int signal, stop = tracee_look(thread->tid, &signal);

	if (stop <= 0)
		return stop;
	if (is_native(leading, thread->tid)) {
		thread->is_out = 1;
		return ptrace(PTRACE_DETACH, thread->tid, NULL, thread->again) ? -ESRCH : 1;
	}
	hold_signals(leading, thread);
	if (stop == TRACEE_SIGNAL && soft_traced_stops(signal)) {
		thread->again = signal;
		signal = 0;
	}
	return ptrace(PTRACE_SYSCALL, thread->tid, NULL, stop == TRACEE_SIGNAL ? signal : 0)
		       ? -ESRCH
		       : 1;
}

static int is_known(const struct leading *leading, pid_t tid)
{
	for (size_t i = 0; i < leading->count; i++)
		if (leading->threads[i].tid == tid)
			return 1;
	return 0;
}

/* All threads, also those that have yet to begin. A stopped thread reports its stop when seized. */
static int seize_all(struct leading *leading)
{
	pid_t *tids;
	int count = target_threads(leading->pid, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		if (is_known(leading, tids[i]) ||
		    !target_state_lives(target_thread_state(leading->pid, tids[i])))
			continue;
		err = array_grow(&leading->threads, &leading->room, leading->count + 1,
				 sizeof(*leading->threads));
		if (!err)
			err = tracee_seize(tids[i]);
		if (!err)
			leading->threads[leading->count++] = (struct led){ .tid = tids[i] };
		else if (err == -ESRCH)
			err = 0;
	}
	if (count >= 0)
		free(tids);
	return err;
}

static void *lead(void *arg)
{
	struct leading *leading = arg;
	uint64_t deadline_ns = tracee_deadline(LEAD_MS);

	leading->inside = 1;
	while (leading->inside && !tracee_late(deadline_ns)) {
		int had = 0;

		if (seize_all(leading))
			break;
		leading->inside = 0;
		for (size_t i = 0; i < leading->count; i++) {
			struct led *thread = &leading->threads[i];
			int got = thread->is_out ? 0 : follow(leading, thread);

			thread->is_out |= got < 0;
			had |= got;
			leading->inside += !thread->is_out;
		}
		if (!had)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return NULL;
}

int soft_traced_lead(const struct soft_channel *channel, pid_t pid, uint64_t *late_ns)
{
	uint64_t began_ns = ticks_monotonic_ns();
	struct engine_channel *head = soft_channel_head(channel);
	struct leading leading = { .places = head->places, .pid = pid };
	pthread_t thread;

	if (target_thread_state(pid, pid) != 'T')
		return 0;
	__atomic_store_n(&head->is_led, 1, __ATOMIC_SEQ_CST);
	if (*late_ns < LATE_NS && soft_follow_is_thread(channel, pid, pid) &&
	    !pthread_create(&thread, NULL, lead, &leading)) {
		pthread_join(thread, NULL);
		*late_ns += leading.inside ? ticks_monotonic_ns() - began_ns : 0;
	}
	free(leading.threads);
	__atomic_store_n(&head->is_led, 0, __ATOMIC_SEQ_CST);
	return 1;
}

/* ---- what the tracer asks for ---- */

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
	const struct engine_child *entry = soft_follow_entry(follow, process);

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
	if (!tracing->is_told &&
	    soft_follow_is_thread(tracee->channel, tracee->pid, tracing->asked_tid))
		tracing->is_told = tell(tracee, head);
	if (tracing->is_told && !tracing->was_led)
		tracing->was_led = soft_traced_lead(tracee->channel, tracee->pid, &follow->late_ns);
}

/* We trace a child that borrows its parent's memory, and no other can. 1: no more. */
static int let_go(struct soft_follow *follow, struct soft_process *tracee)
{
	if (!tracee->traced || !tracee->shares_parent)
		return 1;
	if (!tracee->is_let_go) {
		soft_follow_native(follow, ENGINE_NATIVE_TRACED, tracee->pid, ticks_monotonic_ns());
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

/* The call was made, or not: the thread waits no longer. 0: it has yet to see that. */
static int end(const struct soft_tracing *tracing)
{
	struct engine_channel *head = tracing->tracee ? soft_follow_head(tracing->tracee) : NULL;

	if (!head || !tracing->tid || tracing->tracee->pid != tracing->pid ||
	    seize_turn(head, (uint32_t)tracing->tid, 0))
		return 1;
	seize_turn(head, ENGINE_SEIZE_WAITS, ENGINE_SEIZE_OVER);
	return __atomic_load_n(&head->seize, __ATOMIC_SEQ_CST) != ENGINE_SEIZE_OVER;
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
	    (asked == ENGINE_TRACE_NOTHING || asked == ENGINE_TRACE_MADE ||
	     (asked == ENGINE_TRACE_ASKED && tracing->asked_tid != (pid_t)head->trace_tid))) {
		if (!end(tracing) && asked == ENGINE_TRACE_MADE)
			return 0;
		*tracing = (struct soft_tracing){ 0 };
	}
	if (asked == ENGINE_TRACE_MADE) {
		soft_channel_answer(&head->trace, ENGINE_TRACE_NOTHING);
		return 1;
	}
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
