/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/attach.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/code_changes.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_syscall.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/kernel_writes.h"
#include "inside/engine/leave.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/processor.h"
#include "inside/engine/rseq.h"
#include "inside/engine/signal.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <time.h>

#define BACK_OFF_NS 100000
#define BACK_OFF_NS_MAX 10000000
#define RESTART_BLOCK 516 /* ERESTART_RESTARTBLOCK of the kernel's linux/errno.h */

void attach_native(void) __attribute__((noreturn));
void attach_vector_save(uint8_t value[64], enum vector_width width);
void attach_vector_load(const uint8_t value[64], enum vector_width width);
void attach_call_over(struct thread *thread, long result);

void attach_way_first(struct engine_taken *taken, uint64_t stack) __attribute__((noreturn));
void attach_take(struct engine_taken *taken);
void attach_commit(struct thread *thread);
void attach_undo(struct thread *thread);
void attach_leave(struct thread *thread, long code);

/* Whether those that were taken are the engine's: set once. */
enum { UNDECIDED, TAKEN, GIVEN_BACK };
static uint32_t decision;
static uint32_t taken_count;

/*
 * Sleep for *poll_ns, and make it twice as long for the next time. Many threads that wake each
 * 100 us keep the processors from all other sessions: with autogroups, Linux 6.18 did not run the
 * tool for up to 70 s. The kernel's state for a restarted system call must not change. So do not
 * call nanosleep(2), which itself restarts.
 */
static void back_off(long *poll_ns)
{
	struct timespec poll_wait = { 0, *poll_ns };

	sys_call(SYS_ppoll, 0, 0, (long)&poll_wait, 0, 0, 0);
	if (*poll_ns < BACK_OFF_NS_MAX)
		*poll_ns *= 2;
}

/* The tool finds the thread here. */
static void park(void)
{
	struct engine_channel *head = channel.head;
	uint32_t way = __atomic_load_n(&head->way, __ATOMIC_ACQUIRE);
	long poll_ns = BACK_OFF_NS;

	__atomic_add_fetch(&head->parked, 1, __ATOMIC_RELEASE);
	sys_call3(SYS_futex, (long)&head->parked, FUTEX_WAKE, 1);
	while (__atomic_load_n(&head->way, __ATOMIC_ACQUIRE) == way && channel_has_tool())
		back_off(&poll_ns);
}

void attach_open(struct engine_channel *head, const struct engine_boot *boot, int err)
{
	struct engine_taken *taken = (struct engine_taken *)boot->taken_at;
	uint64_t back = boot->regs.rip;

	taken_count = boot->taken_count;
	for (uint32_t i = 0; i < taken_count && !err; i++) {
		taken[i].thread = (uint64_t)thread_make();
		err = taken[i].thread ? 0 : -ENOMEM;
	}
	head->error = err;
	if (!err)
		attach_way_first(taken, ((struct thread *)taken->thread)->stack);
	park();
	__asm__ volatile("jmp *%0" : : "r"(back));
	__builtin_unreachable();
}

/* ---- taken ---- */

/* The calling thread's own part of what the kernel has for us. */
static void restore(struct thread *thread)
{
	stack_t stack;

	signal_stack_restore(thread, &stack);
	rseq_restore(thread);
	thread->spill = thread->blocked;
}

/*
 * The thread continues by itself, as no tool is there to set its registers. `is_led`: or there is
 * one, which led it, and counts who has parked; a thread that comes by itself must not count.
 */
static void native(int is_led) __attribute__((noreturn));

static void native(int is_led)
{
	if (is_led)
		park();
	attach_native();
}

static void put_back(struct thread *thread, int is_led) __attribute__((noreturn));

static void put_back(struct thread *thread, int is_led)
{
	DEBUG_TRACE("engine/attach", "put back, led %d", is_led);
	leave_delist(thread);
	restore(thread);
	native(is_led);
}

/*
 * Continue natively, by itself or as the tool wants. Do not use leave(): its signal would abort the
 * system call that the thread resumes, if restart_syscall(2) restarts it.
 */
static void out(struct thread *thread, int is_led) __attribute__((noreturn));

static void out(struct thread *thread, int is_led)
{
	int is_last;

	DEBUG_TRACE("engine/attach", "out at %x, led %d", thread->regs.rip, is_led);
	leave_ask();
	/* as left() of signal.c has it */
	thread_leaves(thread);
	thread->is_native = 1;
	thread->call_next = 0;
	is_last = thread_left(thread);
	leave_untold(thread, is_last);
	pending_signals_restore(thread, is_last);
	if (is_last)
		action_restore(~UINT64_C(0));
	restore(thread);
	leave_wait(is_last);
	if (is_led)
		park();
	process_left(thread->tid);
	attach_vector_load(thread->vector15, processor_width());
	native(0);
}

/*
 * Continue from where the tool took the thread. It may do so by itself, so the other taken threads
 * may not have been asked yet.
 */
static void go_on(struct thread *thread)
{
	struct engine_channel *head = channel.head;
	uint32_t decided = UNDECIDED;
	long poll_ns = BACK_OFF_NS;

	__atomic_compare_exchange_n(&decision, &decided, GIVEN_BACK, 0, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	if (decided != TAKEN)
		put_back(thread, 0);
	while (__atomic_load_n(&head->state, __ATOMIC_ACQUIRE) == ENGINE_WAITING)
		back_off(&poll_ns);
	if (__atomic_load_n(&head->state, __ATOMIC_ACQUIRE) == ENGINE_REFUSED)
		put_back(thread, 0);
	thread->call_next = 0; /* restarted */
	if (channel_is_over())
		out(thread, 0);
	signal_let_all(thread);
	dispatch_to(thread, thread->regs.rip, NULL);
}

/* Ours reads the clock. */
static int has_clock(void)
{
	int mode = PR_TSC_ENABLE;

	return sys_call3(SYS_prctl, PR_GET_TSC, (long)&mode, 0) || mode == PR_TSC_ENABLE;
}

void attach_take(struct engine_taken *taken)
{
	struct thread *thread = (struct thread *)taken->thread;
	long err;

	thread->regs = taken->regs;
	thread->blocked = taken->mask;
	thread->is_taken = 1;
	thread->call_next = taken->call_next;
	attach_vector_save(thread->vector15, processor_width());
	err = thread_enter(thread);
	if (!err && !has_clock())
		err = -ENOTSUP;
	if (!err && taken->rseq_at) {
		thread->rseq.at = taken->rseq_at;
		thread->rseq.bytes = taken->rseq_bytes;
		thread->rseq.signature = taken->rseq_signature;
		err = rseq_take(thread);
	}
	if (!err)
		err = thread_words_open(thread);
	kernel_writes_take(thread);
	leave_enlist(thread);
	DEBUG_TRACE("engine/attach", "taken at %x: error %d", thread->regs.rip, err);
	taken->error = (int)err;
	taken->is_taken = 1;
	park();
	go_on(thread);
}

void attach_commit(struct thread *thread)
{
	struct engine_channel *head = channel.head;
	uint32_t decided = UNDECIDED;
	int err;

	if (__atomic_compare_exchange_n(&decision, &decided, TAKEN, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		thread_first(taken_count);
		signal_descriptors_expect();
		code_attached();
		err = signal_open_all();
		if (err)
			action_restore(~UINT64_C(0));
		DEBUG_TRACE("engine/attach", "committed, %d threads: error %d", taken_count, err);
		head->error = err;
		__atomic_store_n(&head->state, err ? ENGINE_REFUSED : ENGINE_RUNS,
				 __ATOMIC_RELEASE);
	}
	park();
	go_on(thread);
}

void attach_undo(struct thread *thread)
{
	put_back(thread, 1);
}

void attach_call_over(struct thread *thread, long result)
{
	struct engine_regs *regs = &thread->regs;
	uint64_t next = thread->call_next;

	/* as in call_make() */
	__atomic_exchange_n(&thread->call_next, 0, __ATOMIC_SEQ_CST);
	syscall_over(thread, next, result);
	regs->gpr[0] = (uint64_t)result;
	regs->gpr[1] = next;
	regs->gpr[11] = regs->rflags;
	dispatch_to(thread, next, NULL);
}

/* ---- given back ---- */

void attach_leave(struct thread *thread, long code)
{
	thread->regs.rip = thread->call_next - 2;
	if (code == RESTART_BLOCK)
		thread->regs.gpr[0] = SYS_restart_syscall;
	out(thread, 1);
}
