/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/code_changes.h"
#include "inside/engine/dispatch.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/pages.h"
#include "inside/engine/places.h"
#include "inside/engine/rseq.h"
#include "inside/engine/signal.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/trace.h"

#include <asm/prctl.h>
#include <errno.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/mman.h>

#define CLONE3_BYTES_MAX 4096u /* the kernel takes no more */

static uint32_t threads; /* that run as translated code */
static int has_guests;	 /* or had */

#define HEAD_BYTES ((sizeof(struct thread) + 4095) & ~(size_t)4095)
#define THREAD_BYTES (HEAD_BYTES + THREAD_STACK_BYTES + THREAD_SIGNAL_BYTES)

static struct thread
	*spare; /* that was freed, for the next: a program that forks often makes one each time */

struct thread *thread_make(void)
{
	struct thread *thread = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

	if (thread)
		memory_clear(thread, sizeof(*thread));
	else
		thread = memory_map(0, THREAD_BYTES, PROT_READ | PROT_WRITE);
	if (!thread)
		return NULL;
	thread->self = thread;
	thread->stack = (uint64_t)thread + HEAD_BYTES + THREAD_STACK_BYTES;
	thread->signal_stack = thread->stack;
	return thread;
}

/* Never of the caller's own. */
static void thread_free(struct thread *thread)
{
	struct thread *none = NULL;

	if (!__atomic_compare_exchange_n(&spare, &none, thread, 0, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		memory_unmap(thread, THREAD_BYTES);
}

int thread_enter(struct thread *thread)
{
	long err = sys_call3(SYS_arch_prctl, ARCH_SET_GS, (long)thread, 0);

	if (!err)
		err = signal_thread(thread);
	thread->tid = (uint32_t)sys_call3(SYS_gettid, 0, 0, 0);
	return (int)err;
}

/*
 * It shares our memory and our handlers: on in translated code, on its own stack of the engine's.
 */
static void child_inside(struct thread *thread)
{
	int err = thread_enter(thread);

	if (!err)
		err = thread->is_guest ? thread_words_open_unkept(thread)
				       : thread_words_open(thread);
	DEBUG_TRACE("engine/thread", "begins at %x, guest %d: error %d", thread->regs.rip,
		    thread->is_guest, err);
	if (err) {
		channel_native(ENGINE_NATIVE_THREAD);
		leave(thread, thread->regs.rip);
	}
	leave_enlist(thread);
	signal_let_all(thread);
	dispatch_to(thread, thread->regs.rip, NULL);
}

/* What a copy has of its maker's other threads, and of itself as that. */
static void copy_alone(void)
{
	action_copy_end();
	leave_copy_end(1);
	lock_give(&dispatch_lock);
	traces_copied();
	threads = 1;
	has_guests = 0;
}

/*
 * A copy runs natively, without a channel.
 */
static void copy_leaves(struct thread *thread) __attribute__((noreturn));

static void copy_leaves(struct thread *thread)
{
	DEBUG_TRACE("engine/process", "child runs natively, followed %d", channel.follows);
	channel_lose();
	thread_enter(thread);
	pages_unguard();
	leave(thread, thread->regs.rip);
}

/* A copy of the process: on in its own copy of the translated code. */
static void child_copied(struct thread *thread)
{
	int err;

	copy_alone();
	if (process_become(thread))
		copy_leaves(thread);
	err = thread_enter(thread);
	if (!err && thread->is_process == PROCESS_CLEARED)
		action_reset();
	thread->is_process = 0;
	if (!err)
		err = thread_words_open(thread);
	channel.head->error = err;
	__atomic_store_n(&channel.head->state, err ? ENGINE_REFUSED : ENGINE_RUNS,
			 __ATOMIC_RELEASE);
	leave_enlist(thread);
	DEBUG_TRACE("engine/process", "child of fork continues at %x: error %d", thread->regs.rip,
		    err);
	if (err)
		leave(thread, thread->regs.rip);
	signal_let_all(thread);
	dispatch_to(thread, thread->regs.rip, NULL);
}

/*
 * A process with handlers of its own: natively, its trail is not ours to write. A copy has the lock
 * as its maker held it.
 */
static void child_native(struct thread *thread)
{
	if (thread->is_copy) {
		copy_alone();
		copy_leaves(thread);
	}
	thread_enter(thread);
	if (thread->entry)
		process_shares_memory(thread);
	leave(thread, thread->regs.rip);
}

/* The child as it will be: the caller's copy, behind the call. */
static struct thread *child_make(const struct thread *thread, uint64_t next, uint64_t flags,
				 uint64_t stack)
{
	struct thread *child = thread_make();

	if (!child)
		return NULL;
	child->regs = thread->regs;
	memory_copy(child->vector15, thread->vector15, sizeof(child->vector15));
	child->regs.gpr[0] = 0;
	child->regs.gpr[1] = next;
	child->regs.gpr[11] = thread->regs.rflags;
	child->regs.rip = next;
	child->has_stack = stack != 0;
	if (stack)
		child->regs.gpr[4] = stack;
	/*
	 * as in the kernel: a child that shares memory has no signal stack at first, except
	 * vfork(2)'s
	 */
	signal_inherit(child, thread, (flags & (CLONE_VM | CLONE_VFORK)) == CLONE_VM);
	rseq_inherit(child, thread, !!(flags & CLONE_VM));
	child->is_copy = !(flags & CLONE_VM);
	child->is_guest = (flags & (CLONE_SIGHAND | CLONE_THREAD)) == CLONE_SIGHAND;
	if (!(flags & CLONE_SIGHAND))
		child->is_process = flags & CLONE_CLEAR_SIGHAND ? PROCESS_CLEARED : PROCESS_ALONE;
	return child;
}

/*
 * Hold the lock while the process is copied, so that the copy is consistent: one that is not runs
 * natively (is_loose). A child that shares our memory and runs natively must find no page guarded.
 */
static void prepare(int is_process, int is_copy, int is_loose)
{
	if (!is_process || is_loose)
		return;
	lock_take(&dispatch_lock);
	if (is_copy)
		return;
	pages_share(1);
	lock_give(&dispatch_lock);
}

/*
 * An entry for one that is to be recorded. A copy with our descriptors can't have one of its own,
 * even for a moment. A copy that we wait for has run before we know its number.
 */
static struct engine_child *entry_for(uint64_t flags, int is_loose)
{
	int is_process = !(flags & CLONE_SIGHAND), is_copy = !(flags & CLONE_VM);

	if (!is_process || is_loose || flags & CLONE_NEWPID || !process_follows() ||
	    !(is_copy ? !(flags & (CLONE_FILES | CLONE_VFORK)) : flags & CLONE_VFORK))
		return NULL;
	return process_take();
}

/* Whatever else has a lock: none is held by a thread that a copy does not have. */
static long clone_held(struct thread *thread, const uint64_t args[6], struct thread *child,
		       int is_process, int is_copy)
{
	long result;

	if (!is_copy) /* or a loose one */
		return gate_clone((long)thread->regs.gpr[0], args, child,
				  is_process ? child_native : child_inside);
	leave_copy_begin();
	action_copy_begin();
	result = gate_clone((long)thread->regs.gpr[0], args, child,
			    child->entry ? child_copied : child_native);
	action_copy_end();
	leave_copy_end(0);
	return result;
}

static void done(int is_process, int is_copy, int is_loose, int is_over)
{
	if (!is_process || is_loose)
		return;
	if (!is_copy)
		lock_take(&dispatch_lock);
	if (!is_copy && is_over)
		pages_share(-1);
	lock_give(&dispatch_lock);
}

static long clone_with(struct thread *thread, uint64_t next, uint64_t flags, uint64_t stack,
		       const uint64_t args[6])
{
	struct thread *child = child_make(thread, next, flags, stack);
	int is_process = !(flags & CLONE_SIGHAND), is_copy = !(flags & CLONE_VM), is_over;
	int is_guest = child && child->is_guest;
	int is_loose = is_process && is_copy && code_call_waits();
	long result;

	if (!child)
		return -ENOMEM;
	if (is_guest)
		__atomic_store_n(&has_guests, 1, __ATOMIC_RELAXED);
	if (is_guest && flags & CLONE_NEWPID)
		process_is_apart();
	child->entry = entry_for(flags, is_loose);
	prepare(is_process, is_copy, is_loose);
	if (child->entry)
		process_made(child, is_copy ? trace_next_id() : 0);
	if (!is_process) /* before it can be, so that we are not the last to leave meanwhile */
		__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	signal_hold_all();
	result = clone_held(thread, args, child, is_process, is_copy && !is_loose);
	signal_let_all(thread);
	if (is_process && child->entry) /* a thread may be over, and all of it gone */
		process_born(child, result, flags & CLONE_PARENT || action_reaps());
	else if ((is_process || is_guest) && !sys_failed(result))
		process_unfollowed(flags);
	if (!is_process && sys_failed(result))
		__atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED);
	DEBUG_TRACE("engine/thread", "clone, flags %x, recorded %d: %d", flags,
		    !is_process || child->entry, result);
	is_over = sys_failed(result) || flags & CLONE_VFORK;
	done(is_process, is_copy, is_loose, is_over);
	/*
	 * Threads have freed their own by now, or will; another that borrows our memory for long
	 * keeps it.
	 */
	if (sys_failed(result) || (is_process && (is_copy || is_over)))
		thread_free(child);
	return result;
}

/*
 * A copy of what is asked for: the caller's may change. The kernel looks at all of it, as far as it
 * can be.
 */
static long clone3_call(struct thread *thread, uint64_t next)
{
	union {
		struct clone_args args;
		uint8_t bytes[CLONE3_BYTES_MAX];
	} asked;
	uint64_t bytes = thread->regs.gpr[6];
	uint64_t args[6] = { (uint64_t)&asked, bytes };

	if (bytes > sizeof(asked))
		return -E2BIG;
	if (bytes < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	if (gate_copy(&asked, (const void *)thread->regs.gpr[7], bytes))
		return -EFAULT;
	if ((asked.args.flags & (CLONE_CLEAR_SIGHAND | CLONE_SIGHAND)) == CLONE_CLEAR_SIGHAND) {
		asked.args.flags &= ~CLONE_CLEAR_SIGHAND; /* by us: we still need ours */
		return clone_with(thread, next, asked.args.flags | CLONE_CLEAR_SIGHAND,
				  asked.args.stack ? asked.args.stack + asked.args.stack_size : 0,
				  args);
	}
	return clone_with(thread, next, asked.args.flags,
			  asked.args.stack ? asked.args.stack + asked.args.stack_size : 0, args);
}

long thread_clone_call(struct thread *thread, uint64_t next)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t args[6] = { gpr[7], gpr[6], gpr[2], gpr[10], gpr[8], gpr[9] };

	switch (gpr[0]) {
	case SYS_clone:
		return clone_with(thread, next, (uint32_t)args[0], args[1], args);
	case SYS_fork:
		return clone_with(thread, next, 0, 0, args);
	case SYS_vfork:
		return clone_with(thread, next, CLONE_VM | CLONE_VFORK, 0, args);
	default:
		return clone3_call(thread, next);
	}
}

static void all_left(void)
{
	DEBUG_TRACE("engine/leave", "all threads have left: native %d", channel.head->native);
	places_vacate(THREAD_BYTES);
	__atomic_store_n(&channel.head->state, ENGINE_LEFT, __ATOMIC_RELEASE);
	channel_tell();
}

void thread_exit_call(struct thread *thread)
{
	long number = (long)thread->regs.gpr[0], status = (long)thread->regs.gpr[7];

	DEBUG_TRACE("engine/thread", "ends by call %d, status %d", number, status);
	leave_delist(thread);
	trace_out(thread);
	thread_words_event(thread, TRAIL_END, 0, 0, TRAIL_EXITED, (uint64_t)(status & 0xff));
	thread_words_close(thread);
	if (!__atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED) && leave_is_asked()) {
		action_restore(~UINT64_C(0));
		all_left();
		leave_wait(1);
	}
	if (number == SYS_exit_group)
		process_meet();
	if (number == SYS_exit) {
		places_drop((uint64_t)thread);
		gate_end(thread, THREAD_BYTES, status);
	}
	process_ends(status);
	for (;;)
		sys_call3(SYS_exit_group, status, 0, 0);
}

uint32_t thread_count(void)
{
	return __atomic_load_n(&threads, __ATOMIC_ACQUIRE);
}

int thread_has_guests(void)
{
	return __atomic_load_n(&has_guests, __ATOMIC_RELAXED);
}

void thread_first(uint32_t count)
{
	threads = count;
}

void thread_leaves(struct thread *thread)
{
	if (thread->is_process)
		return;
	leave_delist(thread);
	thread_words_leave(thread);
	trace_out(thread);
	lock_take(&dispatch_lock);
	pages_share(1);
	lock_give(&dispatch_lock);
}

int thread_left(struct thread *thread)
{
	if (thread->is_process && thread->is_copy)
		places_vacate(THREAD_BYTES);
	if (thread->is_process)
		return 1;
	process_leaves();
	if (__atomic_sub_fetch(&threads, 1, __ATOMIC_ACQ_REL))
		return 0;
	all_left();
	thread->is_process = PROCESS_ALONE;
	return 1;
}
