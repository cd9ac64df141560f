/* SPDX-License-Identifier: MIT */
/*
 * Instructions that run without a trap of their own: the thread stops only after a later one.
 *
 *   - A hypervisor or the kernel emulates an instruction (INSN_EMULATED) and drops its trap. The
 *     processor traps after the next instruction.
 *   - A mov to ss (INSN_SHADOWS) suppresses the trap.
 *
 * step_catch_up() decodes what follows such an instruction and finds the last one that ran. It
 * records those before the last, and makes the thread look as if the tracer had let it go for the
 * last one alone. The rest of the tracer then handles a stop like any other.
 *
 * A gap remains if
 *
 *   - the last instruction is a system call or a far branch: the tracer has to act before it runs;
 *   - two different runs end where the thread stopped, or none does;
 *   - the kernel may have moved the thread, because it was in a critical section of rseq(2).
 *
 * Until a trap is dropped, nothing shows that the machine drops traps. So a stop right behind the
 * first instruction then means that its trap came, although a branch to itself could end there too.
 */
#include "record/trail/testing/step/step_own.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>

#define RUN_MAX 16u /* instructions between two stops */
#define STACK_BYTES 8u
/* Linux 5.13, include/uapi/linux/ptrace.h and rseq.h. */
#define GET_RSEQ 0x420f
#define RSEQ_SECTION_AT 8u

/* Code that may have run since the thread was continued. */
struct run {
	struct passed {
		uint64_t at;
		struct block_insn insn;
		uint8_t code[STEP_CODE_MAX];
	} all[RUN_MAX]; /* each but the last hides its trap */
	unsigned int count;
	int is_emulated; /* one of these was emulated */
};

/* Instead of the number of the last instruction that ran. */
#define NO_WAY (-1)
#define TWO_WAYS (-2)

/* ---- before ---- */

/* Whether only its instructions move the thread. 0 if the kernel does not report rseq(2). */
static int is_unmoved(pid_t tid)
{
	struct {
		uint64_t at;
		uint32_t bytes, signature, flags, pad;
	} rseq = { 0 };
	uint64_t section = 0;
	struct iovec to = { &section, sizeof(section) }, from;

	if (ptrace(GET_RSEQ, tid, sizeof(rseq), &rseq) < 0)
		return 0;
	from = (struct iovec){ (void *)(uintptr_t)(rseq.at + RSEQ_SECTION_AT), sizeof(section) };
	return !rseq.at ||
	       (process_vm_readv(tid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(section) && !section);
}

void step_hidden_begin(struct step_thread *thread, const struct user_regs_struct *regs)
{
	thread->rsp = regs->rsp;
	thread->dropped_at = thread->at;
	thread->is_unseen = 0;
	thread->is_unmoved = thread->insn.traits & STEP_HIDES && is_unmoved(thread->tid);
}

/* ---- afterwards ---- */

static uint64_t behind(const struct passed *passed)
{
	return passed->at + passed->insn.bytes;
}

static void run_read(struct run *run, const struct step *step, const struct step_thread *thread)
{
	struct passed *last = run->all;

	last->at = thread->at;
	last->insn = thread->insn;
	memcpy(last->code, thread->code, sizeof(last->code));
	run->count = 1;
	run->is_emulated = 0;
	while (last->insn.traits & STEP_HIDES && run->count < RUN_MAX) {
		struct passed *next = last + 1;

		next->at = behind(last);
		if (step_decode(step, thread->tid, next->at, next->code, &next->insn))
			break;
		run->is_emulated |= !!(last->insn.traits & INSN_EMULATED);
		run->count++;
		last = next;
	}
}

/* The straight-line instruction that ends right before `rip`. */
static int straight_way(const struct run *run, uint64_t rip)
{
	for (unsigned int i = 0; i < run->count; i++)
		if (run->all[i].insn.kind == TRAIL_FALL && behind(&run->all[i]) == rip)
			return (int)i;
	return NO_WAY;
}

static int has_on_stack(pid_t tid, uint64_t rsp, uint64_t value)
{
	errno = 0;
	return (uint64_t)ptrace(PTRACE_PEEKDATA, tid, rsp, 0) == value && !errno;
}

/* Whether the last instruction is a branch that led to the stop. The stack shows calls, returns. */
static int is_branched(const struct run *run, const struct step_thread *thread,
		       const struct user_regs_struct *regs, const siginfo_t *info)
{
	const struct passed *last = &run->all[run->count - 1];
	int is_pushed = regs->rsp == thread->rsp - STACK_BYTES &&
			has_on_stack(thread->tid, regs->rsp, behind(last));

	switch (last->insn.kind) {
	case TRAIL_JUMP:
		return regs->rip == last->insn.target;
	case TRAIL_BRANCH:
		return regs->rip == last->insn.target || regs->rip == behind(last);
	case TRAIL_JUMP_INDIRECT:
		return regs->rsp == thread->rsp;
	case TRAIL_CALL:
		return is_pushed && regs->rip == last->insn.target;
	case TRAIL_CALL_INDIRECT:
		return is_pushed;
	case TRAIL_RETURN:
		return regs->rsp > thread->rsp && has_on_stack(thread->tid, thread->rsp, regs->rip);
	case TRAIL_STOP: /* int3 and int1 */
		return regs->rip == behind(last) &&
		       (info->si_code == SI_KERNEL || last->insn.traits & INSN_TRAPS);
	case TRAIL_SYSCALL:
		return regs->rip == behind(last);
	default:
		return 0;
	}
}

/* A system call or far branch at the end, which may lead anywhere. */
static int unseen_way(const struct run *run)
{
	uint8_t kind = run->all[run->count - 1].insn.kind;

	return kind == TRAIL_SYSCALL || kind == TRAIL_FAR ? (int)run->count - 1 : NO_WAY;
}

/* After a trap: the last instruction that ran. */
static int way_of(const struct run *run, const struct step *step, const struct step_thread *thread,
		  const struct user_regs_struct *regs, const siginfo_t *info)
{
	int straight = straight_way(run, regs->rip);
	/* this machine may raise all traps: the first instruction's came */
	int may_be_first = !(thread->insn.traits & INSN_SHADOWS) && !step->root->is_trap_dropped;

	if (!straight && may_be_first)
		return straight;
	/* no instruction that hides its trap moves the stack */
	if (is_branched(run, thread, regs, info))
		return straight >= 0 && regs->rsp == thread->rsp ? TWO_WAYS : (int)run->count - 1;
	return straight >= 0 ? straight : unseen_way(run);
}

/* After any other stop. An instruction that does not hide its trap would have raised it first. */
static int way_without_trap(const struct run *run, uint64_t rip)
{
	int straight = straight_way(run, rip);

	if (straight >= 0 && run->all[straight].insn.traits & STEP_HIDES)
		return straight;
	return unseen_way(run);
}

/* The run ended with number `way`: record all before it, and put it in the place of the first. */
static void run_record(const struct run *run, int way, struct step *step,
		       struct step_thread *thread, const struct user_regs_struct *regs)
{
	for (int i = 0; i <= way; i++) {
		if (i)
			step_ran(step, thread, run->all[i].at);
		thread->at = run->all[i].at;
		thread->insn = run->all[i].insn;
		memcpy(thread->code, run->all[i].code, sizeof(thread->code));
		thread->is_over = 0;
		if (i < way && thread->insn.traits & INSN_EMULATED)
			step->root->is_trap_dropped = 1;
	}
	if (thread->insn.kind == TRAIL_SYSCALL)
		thread->is_unseen = run->is_emulated || regs->rip != behind(&run->all[way]);
	if (thread->insn.kind == TRAIL_FAR)
		thread->is_unseen = run->is_emulated;
	if (!thread->is_unseen)
		return;
	thread->rax = regs->orig_rax;
	step_block_end(step, thread);
	thread->is_native = 1;
}

/* Nothing shows what ran up to `rip`. */
static void run_lose(struct step *step, struct step_thread *thread, uint64_t rip)
{
	step_block_end(step, thread);
	thread->is_native = 1;
	thread->at = rip;
	thread->insn = (struct block_insn){ 0 };
}

void step_catch_up(struct step *step, struct step_thread *thread,
		   const struct user_regs_struct *regs)
{
	siginfo_t info = { 0 };
	struct run run;
	int is_trap, way = NO_WAY;

	if (!thread->is_begun || thread->is_over || !(thread->insn.traits & STEP_HIDES) ||
	    ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info))
		return;
	if (info.si_signo == SIGTRAP && info.si_code == SIGTRAP)
		return; /* at a handler: nothing ran */
	is_trap = info.si_signo == SIGTRAP && info.si_code > 0 && info.si_code <= SI_KERNEL &&
		  !step_is_before(thread, &info, regs->rip);
	if (!is_trap && (regs->rip == thread->at || regs->rip == thread->at + thread->insn.bytes))
		return;
	if (thread->is_unmoved) {
		run_read(&run, step, thread);
		way = is_trap ? way_of(&run, step, thread, regs, &info)
			      : way_without_trap(&run, regs->rip);
	}
	if (way >= 0)
		run_record(&run, way, step, thread, regs);
	else if (way == TWO_WAYS || !is_trap)
		run_lose(step, thread, regs->rip);
}

/* ---- simulated ---- */

int step_simulate_drop(struct step_thread *thread, int status)
{
	static const uint8_t cpuid[] = { 0x0f, 0xa2 }, pause[] = { 0xf3, 0x90 };
	struct user_regs_struct regs;
	siginfo_t info;

	if (!thread->is_begun || status >> 8 != SIGTRAP ||
	    ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) || info.si_code != TRAP_TRACE ||
	    ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) || regs.rip <= thread->dropped_at ||
	    regs.rip - thread->at >= sizeof(thread->code))
		return 0;
	for (uint64_t i = 0; i < regs.rip - thread->at; i += sizeof(cpuid))
		if (memcmp(thread->code + i, cpuid, sizeof(cpuid)) &&
		    memcmp(thread->code + i, pause, sizeof(pause)))
			return 0;
	thread->dropped_at = regs.rip;
	return 1;
}
