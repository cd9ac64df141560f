/* SPDX-License-Identifier: MIT */
#include "abi/control.h"
#include "base/debug_trace.h"
#include "inside/engine/action.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/code_changes.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_syscall.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/gate.h"
#include "inside/engine/kernel_writes.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/pending_signals.h"
#include "inside/engine/places.h"
#include "inside/engine/rseq.h"
#include "inside/engine/signal.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"
#include "inside/engine/trace.h"

#include <asm/prctl.h>
#include <errno.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>

/*
 * ---- making way ----
 *
 * The engine makes way for what the program asks the kernel for, and could not have with it:
 * filters of all threads' calls, its own gs, memory where ours is, limits that count our memory.
 * All threads leave first, those in system calls, too, which make them again natively; who has
 * asked leaves last, and makes its call natively.
 */

static uint32_t waiting; /* for all others to leave */

/* 1: all have left, except those that also wait for that. */
static int others_left(void)
{
	int is_alone = 0;

	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	leave_together(thread_count() > 1);
	for (unsigned int i = 0; i < LEAVE_POLLS_MAX && !is_alone; i++) {
		is_alone = thread_count() <= __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
		if (!is_alone)
			leave_poll();
	}
	__atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	return is_alone;
}

/* No lock is held. The call is the one at pc. */
static void withdraw(struct thread *thread, uint64_t pc, enum engine_native why)
	__attribute__((noreturn));

static void withdraw(struct thread *thread, uint64_t pc, enum engine_native why)
{
	channel_native(why);
	if (why == ENGINE_NATIVE_FILTER)
		debug_trace_close();
	others_left();
	leave(thread, pc);
}

static uint64_t pages_of(uint64_t start, uint64_t bytes)
{
	return ((start & 4095) + bytes + 4095) & ~UINT64_C(4095);
}

static int is_ours(uint64_t start, uint64_t bytes)
{
	return start && bytes && places_meet(start & ~UINT64_C(4095), pages_of(start, bytes));
}

static int break_meets(uint64_t to)
{
	uint64_t now = to ? (uint64_t)sys_call3(SYS_brk, 0, 0, 0) : 0;

	return to > now && is_ours(now, to - now);
}

/* Of a segment of shared memory that the program may not look at, one page. */
static uint64_t segment_bytes(long number)
{
	struct shmid_ds about;

	return sys_call3(SYS_shmctl, number, IPC_STAT, (long)&about) ? 4096 : about.shm_segsz;
}

/*
 * Whether the call that thread->regs ask for wants memory where ours is. is_free: or memory that
 * must be free: without us it might be.
 */
static int meets(const uint64_t *gpr, int is_free)
{
	switch (gpr[0]) {
	case SYS_mmap:
		if (gpr[10] & MAP_FIXED_NOREPLACE)
			return is_free && is_ours(gpr[7], gpr[6]);
		return gpr[10] & MAP_FIXED && is_ours(gpr[7], gpr[6]);
	case SYS_brk:
		return break_meets(gpr[7]);
	case SYS_mremap:
		return (gpr[10] & MREMAP_FIXED && is_ours(gpr[8], gpr[2])) ||
		       (gpr[2] <= gpr[6] && is_ours(gpr[7], gpr[6])); /* it unmaps the rest */
	case SYS_shmat:
		return is_ours(gpr[6], segment_bytes((long)gpr[7]));
	default:
		return 0;
	}
}

#define RENEW_POLLS 64u /* a thread may not have been where it could come from */

/*
 * Move the map, which is where programs may have memory too. Other threads must have come out of
 * the code that uses it.
 */
static void move_map(void)
{
	lock_take(&dispatch_lock);
	if (!map_move()) {
		traces_ask();
		traces_turn();
		for (unsigned int i = 0; i < LEAVE_POLLS_MAX && !traces_are_new(); i++) {
			lock_give(&dispatch_lock);
			if (i % RENEW_POLLS == 0)
				leave_renew();
			leave_poll();
			lock_take(&dispatch_lock);
			traces_drop();
		}
		if (traces_are_new())
			map_moved();
		DEBUG_TRACE("engine/withdraw", "the map moves: done %d", traces_are_new());
	}
	lock_give(&dispatch_lock);
}

/*
 * The same for a call that must find the engine's memory unmapped. It returns -ENOMEM, and the call
 * must not be made, where a thread does not leave in time: one in vfork(2), or that the kernel does
 * not wake.
 */
static long withdraw_wholly(struct thread *thread, uint64_t pc, enum engine_native why)
{
	channel_native(why); /* all were asked to leave, and do */
	if (!others_left())
		return -ENOMEM;
	leave(thread, pc);
}

/*
 * Before a call that is about memory: it withdraws if that is ours, and returns if not. 0, or
 * -ENOMEM: others are still here.
 */
static long withdraw_from_memory(struct thread *thread, uint64_t pc)
{
	if (!meets(thread->regs.gpr, 1))
		return 0;
	move_map();
	if (!meets(thread->regs.gpr, 0))
		return 0;
	return withdraw_wholly(thread, pc, ENGINE_NATIVE_MEMORY);
}

/* ---- what came of a call ---- */

static int is_clone(uint64_t number)
{
	return number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
	       number == SYS_vfork;
}

/*
 * Threads of the tool's agent (inside/control/control_thread.c) run beside the program, and are no
 * part of it.
 */
static int is_agents_name(const uint64_t *gpr)
{
	return gpr[0] == SYS_prctl && (uint32_t)gpr[7] == PR_SET_NAME && gpr[2] == CONTROL_NAMED;
}

void syscall_over(struct thread *thread, uint64_t next, long result)
{
	uint64_t number = thread->regs.gpr[0];

	if (channel.flags & ENGINE_BOOT_EVENTS)
		thread_words_event(thread, TRAIL_SYSCALLED, next, 0, number, (uint64_t)result);
	if (is_clone(number) && result > 0)
		thread_words_event(thread, TRAIL_FORK, next, 0, (uint64_t)result, 0);
	code_call_over(thread, result);
	if (is_agents_name(thread->regs.gpr))
		thread_words_forget(thread);
}

void syscall_broken_off(struct thread *thread)
{
	pending_signals_wait_over(thread);
	if (thread->is_tracing)
		process_traced(thread);
	if (!thread->is_executing)
		return;
	thread->is_executing = 0;
	process_executed();
	thread_words_take_back(thread);
	action_exec(1);
}

/* ---- calls ---- */

/* As the program asked for it, whatever signals come. */
static long whole(const struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return sys_call((long)gpr[0], (long)gpr[7], (long)gpr[6], (long)gpr[2], (long)gpr[10],
			(long)gpr[8], (long)gpr[9]);
}

/* The same, and signals may break it off, or put it off. */
static long plain(const struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;

	return gate_call((long)gpr[0], (long)gpr[7], (long)gpr[6], (long)gpr[2], (long)gpr[10],
			 (long)gpr[8], (long)gpr[9]);
}

/* The program's own gs would be ours. */
static long prctl_arch(struct thread *thread, uint64_t next)
{
	static const uint64_t none;

	switch (thread->regs.gpr[7]) {
	case ARCH_SET_GS:
		withdraw(thread, next - 2, ENGINE_NATIVE_GS);
	case ARCH_GET_GS:
		return gate_copy((void *)thread->regs.gpr[6], &none, sizeof(none)) ? -EFAULT : 0;
	default:
		return plain(thread);
	}
}

/* If it succeeds, the code behind the call belongs to another program. */
static long execute(struct thread *thread)
{
	long result;

	thread_words_event(thread, TRAIL_EXEC, 0, 0, 0, 0);
	thread->is_executing = 1;
	process_executes(thread);
	result = signal_exec_call(thread, plain);
	syscall_broken_off(thread);
	return result;
}

/*
 * A filter may refuse, or end the thread for, what the engine needs: it is set natively, and may be
 * for all threads.
 */
static enum engine_native filters(const uint64_t *gpr)
{
	uint32_t what = (uint32_t)gpr[7];

	if (gpr[0] == SYS_seccomp)
		return what == SECCOMP_SET_MODE_STRICT || what == SECCOMP_SET_MODE_FILTER
			       ? ENGINE_NATIVE_FILTER
			       : ENGINE_NATIVE_NOT;
	if (what == PR_SET_SECCOMP)
		return ENGINE_NATIVE_FILTER;
	if (what == PR_SET_SYSCALL_USER_DISPATCH && gpr[6] != PR_SYS_DISPATCH_OFF)
		return ENGINE_NATIVE_DISPATCH;
	/* Ours would fault where it reads the clock. */
	return what == PR_SET_TSC && (uint32_t)gpr[6] == PR_TSC_SIGSEGV ? ENGINE_NATIVE_CLOCK
									: ENGINE_NATIVE_NOT;
}

static long filter(struct thread *thread, uint64_t next)
{
	enum engine_native why = filters(thread->regs.gpr);

	if (why)
		withdraw(thread, next - 2, why);
	return plain(thread);
}

/*
 * A tracer would see the engine's faults, and might suppress them: the tracee leaves the engine
 * first.
 */
static long trace(struct thread *thread, uint64_t next)
{
	uint64_t request = thread->regs.gpr[7];
	long result;

	if (request == PTRACE_TRACEME)
		withdraw(thread, next - 2, ENGINE_NATIVE_TRACED);
	if (request != PTRACE_ATTACH && request != PTRACE_SEIZE)
		return plain(thread);
	result = process_is_traced(thread, (uint32_t)thread->regs.gpr[6], request == PTRACE_SEIZE);
	if (!result)
		result = plain(thread);
	syscall_broken_off(thread);
	return result;
}

static long outward(struct thread *thread)
{
	return signal_other_call(thread, plain);
}

/* Children may be of another namespace of pids from now on. */
static long apart(const struct thread *thread)
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t kinds = gpr[0] == SYS_setns ? gpr[6] : gpr[7];

	if (kinds & CLONE_NEWPID || (gpr[0] == SYS_setns && !(uint32_t)kinds))
		process_is_apart();
	return plain(thread);
}

/* Most calls. */
static long ordinary(struct thread *thread)
{
	switch (thread->regs.gpr[0]) {
	case SYS_read:
	case SYS_pread64:
	case SYS_write:
	case SYS_pwrite64:
		return code_memory(thread, outward);
	default:
		return outward(thread);
	}
}

/*
 * Where the engine is, nothing is mapped to the program: as the kernel takes it, which passes holes
 * over or stops at the first.
 */
static long around(struct thread *thread)
{
	uint64_t *gpr = thread->regs.gpr, start = gpr[7], bytes = gpr[6], at = start;
	uint64_t end = at + ((bytes + 4095) & ~UINT64_C(4095));
	struct engine_mapping ours = { 0 };
	long result = 0;

	if (at & 4095 || end <= at || !places_first(at, end - at, &ours))
		return code_call(thread, whole);
	if (gpr[0] == SYS_mremap)
		return -EFAULT;
	while (at < end && (!result || (result == -ENOMEM && gpr[0] == SYS_madvise))) {
		int is_more = places_first(at, end - at, &ours);
		uint64_t up_to = is_more ? ours.start : end;

		gpr[7] = at;
		gpr[6] = up_to - at;
		if (up_to > at)
			result = code_call(thread, whole);
		if (gpr[0] == SYS_mprotect || gpr[0] == SYS_pkey_mprotect)
			break;
		at = is_more ? (ours.start + ours.bytes + 4095) & ~UINT64_C(4095) : end;
	}
	gpr[7] = start;
	gpr[6] = bytes;
	return result || gpr[0] == SYS_munmap ? result : -ENOMEM;
}

/*
 * The kernel writes where its entries say, at any time from now on. Before the call: a signal that
 * comes in it does not return here.
 */
static long ring(struct thread *thread)
{
	long result;

	code_share(1);
	result = ordinary(thread);
	if (sys_failed(result))
		code_share(-1);
	return result;
}

static int is_limited(int resource)
{
	struct rlimit limit;

	return !sys_call(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0) &&
	       limit.rlim_cur != RLIM_INFINITY;
}

/*
 * The kernel has no memory for the program. A limit that another process set, or that was large
 * enough for the engine at first, counts the engine's: the call is made again without it.
 */
static void refused(struct thread *thread, uint64_t next)
{
	if (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))
		withdraw_wholly(thread, next - 2, ENGINE_NATIVE_LIMIT);
}

/*
 * The engine's memory would count, too. A limit that never binds may be set. A thread that is
 * stuck, as in vfork(2), delays the call by some seconds at most: then the call is made natively
 * all the same, since no program may see it fail. The program gets no memory then until that thread
 * has left.
 */
static long limit(struct thread *thread, uint64_t next)
{
	const uint64_t *gpr = thread->regs.gpr;
	int is_any = gpr[0] == SYS_prlimit64, pid = is_any ? (int)gpr[7] : 0;
	int resource = (int)(is_any ? gpr[6] : gpr[7]);
	const void *asked = (const void *)(is_any ? gpr[2] : gpr[6]);
	struct rlimit to;

	if ((resource != RLIMIT_AS && resource != RLIMIT_DATA) ||
	    (pid && pid != sys_call3(SYS_getpid, 0, 0, 0) && pid != (int)thread->tid) || !asked ||
	    gate_copy(&to, asked, sizeof(to)) || to.rlim_cur == RLIM_INFINITY ||
	    to.rlim_cur > to.rlim_max)
		return plain(thread);
	withdraw(thread, next - 2, ENGINE_NATIVE_LIMIT);
}

/*
 * The engine's memory is large, mostly never touched, and would be locked, too. Where a thread is
 * stuck, pages are locked as they are touched: all at once would be gigabytes.
 */
static long lock(struct thread *thread, uint64_t next)
{
	uint64_t flags = thread->regs.gpr[7];

	if (!(flags & (MCL_CURRENT | MCL_FUTURE)))
		return plain(thread);
	withdraw_wholly(thread, next - 2, ENGINE_NATIVE_LOCKED);
	return sys_call3(SYS_mlockall, (long)flags | MCL_ONFAULT, 0, 0);
}

static long call(struct thread *thread, uint64_t next)
{
	const uint64_t *gpr = thread->regs.gpr;
	long result;

	thread->call_next = next;
	kernel_writes_open(thread);
	switch (thread->regs.gpr[0]) {
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
		return thread_clone_call(thread, next);
	case SYS_exit:
	case SYS_exit_group:
		if (!signal_end(thread))
			return GATE_CALL_LATER;
		thread_exit_call(thread);
	case SYS_rt_sigaction:
		return action_call((uint32_t)gpr[7], gpr[6], gpr[2], gpr[10]);
	case SYS_rt_sigprocmask:
		return signal_mask_call(thread);
	case SYS_sigaltstack:
		return signal_stack_call(thread);
	case SYS_rt_sigpending:
		return signal_pending_call(thread, plain);
	case SYS_rt_sigtimedwait:
		return signal_wait_call(thread);
	case SYS_signalfd:
	case SYS_signalfd4:
		signal_descriptors_expect();
		return plain(thread);
	case SYS_execve:
	case SYS_execveat:
		return execute(thread);
	case SYS_setrlimit:
	case SYS_prlimit64:
		return limit(thread, next);
	case SYS_mlockall:
		return lock(thread, next);
	case SYS_prctl:
	case SYS_seccomp:
		return filter(thread, next);
	case SYS_arch_prctl:
		return prctl_arch(thread, next);
	case SYS_ptrace:
		return trace(thread, next);
	case SYS_unshare:
	case SYS_setns:
		return apart(thread);
	case SYS_io_setup:
	case SYS_io_uring_setup:
		return ring(thread);
	case SYS_rseq:
		return rseq_call(thread);
	case SYS_brk:
		if (withdraw_from_memory(thread, next - 2))
			return sys_call3(SYS_brk, 0, 0, 0);
		result = code_call(thread, whole);
		if ((uint64_t)result < thread->regs.gpr[7])
			refused(thread, next);
		return result;
	case SYS_mmap:
	case SYS_shmat:
		result = withdraw_from_memory(thread, next - 2);
		if (!result)
			result = code_call(thread, whole);
		if (result == -ENOMEM)
			refused(thread, next);
		return result;
	case SYS_mremap:
		result = withdraw_from_memory(thread, next - 2);
		if (!result)
			result = around(thread);
		if (result == -ENOMEM)
			refused(thread, next);
		return result;
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_madvise:
		return around(thread);
	case SYS_shmdt:
		return code_call(thread, whole);
	case SYS_wait4:
	case SYS_waitid:
		process_meet();
		return ordinary(thread);
	default:
		return ordinary(thread);
	}
}

void syscall_make(struct thread *thread, uint64_t next)
{
	struct engine_regs *regs = &thread->regs;
	long result;

	if (channel_is_over())
		leave_ask();
	if (regs->gpr[0] == SYS_rt_sigreturn) {
		signal_return_call(thread, next);
		return;
	}
	regs->rip = next;
	result = call(thread, next);
	if (result == GATE_CALL_LATER) {
		regs->rip = next - 2;
		return;
	}
	/*
	 * leave_ask() does not signal a thread that is in a call. The thread checks after the call.
	 */
	__atomic_exchange_n(&thread->call_next, 0, __ATOMIC_SEQ_CST);
	syscall_over(thread, next, result);
	regs->gpr[0] = (uint64_t)result;
	regs->gpr[1] = next;
	regs->gpr[11] = regs->rflags;
}
