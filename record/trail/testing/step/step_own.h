/* SPDX-License-Identifier: MIT */
/*
 * A step's own: its threads, and what is written of them. For step.c, step_blocks.c, hidden.c,
 * hold.c, blocked_traps.c, ignored.c, conceal.c, children.c and rights.c alone.
 *
 * A process that is followed is a step as well, in the list of the first one, its root.
 */
#ifndef RECORD_TRAIL_TESTING_STEP_STEP_OWN_H
#define RECORD_TRAIL_TESTING_STEP_STEP_OWN_H

#include "record/trail/modules.h"
#include "record/trail/testing/step/step.h"
#include "target/code/block.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#define STEP_OPTIONS                                                                               \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)
#define STEP_OPTIONS_FOLLOW (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK)
#define CALL_STOP (SIGTRAP | 0x80) /* with PTRACE_O_TRACESYSGOOD, before and after a system call */
#define STEP_POLL_NS 50000
#define SYSCALL_BYTES 2
#define STEP_CODE_MAX 15			  /* bytes of an instruction */
#define STEP_HIDES (INSN_EMULATED | INSN_SHADOWS) /* no trap may come behind it */
#define TRAP_FLAG 0x100u
/* In the kernel's struct ucontext, where rdx points at a handler's first instruction. */
#define CONTEXT_RAX 144
#define CONTEXT_RIP 168
#define CONTEXT_EFLAGS 176

struct step_thread {
	struct step_thread *next;
	pid_t tid;
	uint64_t gone_ns; /* not 0: when it was missed */
	int is_stopped, is_begun;
	/* no thread of the process, or no longer stepped: to be let go as soon as it stops */
	int is_stranger;
	int ignores_trap; /* a stranger: who made it ignores SIGTRAP */
	/* the instruction that the thread was let go for; no bytes: it could not be read */
	uint64_t at, rax, rsp;
	uint8_t code[STEP_CODE_MAX];
	struct block_insn insn;
	uint64_t dropped_at; /* ORACLE_DROPS_TRAPS: the last trap was dropped here */
	int signal;	     /* that it was let go with */
	int about_to_get;    /* the signal before which it is stopped, to be let go permanently */
	int is_unmoved;	     /* nothing but its instructions moves it (hidden.c) */
	int is_unseen;	     /* insn ran before the tracer could act, so a gap follows (hidden.c) */
	int is_over;	     /* that instruction has run, and is written down */
	int is_broken_off;   /* a system call: written down but for its end, which is still open */
	long long broken_result;
	int is_in_call;	      /* between its two stops */
	int is_native;	      /* what runs can't be decoded, so there will be a gap */
	int has_own_flag;     /* the trap flag is the program's own */
	int is_trap_blocked;  /* the program blocks SIGTRAP */
	int is_mask_shown;    /* and so does its thread, at the moment */
	int has_trap_pending; /* it was sent one meanwhile */
	siginfo_t held;	      /* that one, or the one before; no signal: none yet */
	int is_dying;	      /* of one that it has raised while it blocks it */
	pid_t child;	      /* that its system call has made */
	struct block_cut cut;
	struct sink_thread *trail;
};

struct step {
	struct step *root;     /* itself, of the first */
	struct step *next;     /* among the root's children */
	struct step *children; /* the root's: all that are followed, the newest first */
	uint32_t followed;     /* of these, how many */
	int is_let_go;	       /* before its end, all of it */
	int is_told;	       /* that it has ended */
	int has_status;	       /* it has, and result.status is known */
	pid_t pid;
	int is_single;	     /* of one thread alone */
	int is_trap_ignored; /* the program ignores SIGTRAP */
	int is_put_back;     /* and does so again, as all its threads are stopped */
	struct trail_sink *sink;
	enum block_maker maker; /* of the processor: cpuid traps in a guest, so it is asked once */
	int is_trap_dropped;	/* the root's: the machine has dropped a trap, in any process */
	int simulates_drop;	/* the root's: ORACLE_DROPS_TRAPS */
	struct modules modules;
	struct step_thread *threads;
	struct tracing_result result;
	int error; /* the root's, of all */
};

/* Keep the first error. */
void step_failed(struct step *step, int err);

/* ---- step_blocks.c ---- */

/* Read and decode the instruction at an address of the thread's. 0, or -EILSEQ. */
int step_decode(const struct step *step, pid_t tid, uint64_t at, uint8_t code[STEP_CODE_MAX],
		struct block_insn *insn);

/* The instruction at an address is the one that the thread will be let go for. */
void step_load(const struct step *step, struct step_thread *thread, uint64_t at);

/* The instruction that the thread was let go for has run; its next one is at `rip`. */
void step_ran(struct step *step, struct step_thread *thread, uint64_t rip);

/*
 * Write an event; it ends an incomplete block, and what else is open. `at`: where the thread
 * continues.
 */
void step_event(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
		uint64_t first, uint64_t second);

/* The same, and what is open stays so. */
void step_put(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
	      uint64_t first, uint64_t second);

/* The end of a system call that was broken off, if one is open. */
void step_settle(struct step *step, struct step_thread *thread, uint64_t at, long long result);

/* The block in the making ends here. */
void step_block_end(struct step *step, struct step_thread *thread);

/* ---- hidden.c; thread is stopped ---- */

/* Before the tracer lets it go for thread->insn. */
void step_hidden_begin(struct step_thread *thread, const struct user_regs_struct *regs);

/*
 * At each stop, first: if more than thread->insn ran, record all but the last, which replaces
 * thread->insn.
 */
void step_catch_up(struct step *step, struct step_thread *thread,
		   const struct user_regs_struct *regs);

/* ORACLE_DROPS_TRAPS: whether to drop this stop, the trap behind cpuid or pause. */
int step_simulate_drop(struct step_thread *thread, int status);

/* ---- step.c ---- */

/* Whether it has stopped at a handler's first instruction; if so, write the signal. */
int step_entered(struct step *step, struct step_thread *thread, struct user_regs_struct *regs);

/* ---- trap_cause.c; thread is stopped ---- */

/*
 * The signal of a stop that is the program's own, where it has stopped for SIGTRAP; or 0.
 */
int step_own_trap(const struct step *step, const struct step_thread *thread);

/*
 * Whether it is the step's behind an instruction with another tool's uprobe: the kernel sends that,
 * in the program's name.
 */
int step_is_probed(const struct step *step, const struct step_thread *thread,
		   const siginfo_t *info);

/* Stopped for a hit that comes before the instruction, as of who runs it. */
int step_is_before(const struct step_thread *thread, const siginfo_t *info, uint64_t rip);

/* ---- conceal.c; thread is stopped ---- */

/*
 * After an instruction has run: take out the trap flag, if it has put it where the program sees it;
 * note whose it is.
 */
void step_hide_flag(struct step_thread *thread, struct user_regs_struct *regs);

/* Before it continues without a step: take it out of the flags themselves. */
void step_clear_flag(struct step_thread *thread, struct user_regs_struct *regs);

/* At a handler's first instruction: take it out of the signal's frame. */
void step_clear_frame(struct step_thread *thread, const struct user_regs_struct *regs);

/* Unblock SIGTRAP for us, and block it again as the program has it. */
void step_hide_mask(struct step_thread *thread);
void step_show_mask(struct step_thread *thread);

/*
 * Before the first step: whether the program ignores SIGTRAP. Afterwards the kernel has forgotten
 * it.
 */
void step_note_ignored(struct step *step, pid_t tid);

/* After an rt_sigaction(2). */
void step_set_action(struct step *step, const struct step_thread *thread,
		     const struct user_regs_struct *regs);

/* Whether the process has a handler for it. */
int step_is_caught(const struct step_thread *thread, int signal);

/* ---- blocked_traps.c; thread is stopped ---- */

/* It is about to get a SIGTRAP that it blocks. */
void step_hold(struct step_thread *thread);

/*
 * Once the mask is shown: send it the SIGTRAP that it was sent meanwhile, and that it blocks or has
 * unblocked now.
 */
void step_give_pending(const struct step *step, struct step_thread *thread);

/* About to get one that it does not block any more: it says what the first one said. */
void step_report_pending(struct step_thread *thread);

/* The same after an rt_sigtimedwait(2). */
void step_waited(const struct step_thread *thread, const struct user_regs_struct *regs);

/*
 * Stopped for SIGTRAP, `signal` being the program's own: whether that ends the process; it was let
 * go for that then.
 */
int step_is_fatal(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		  int signal);

/* ---- ignored.c ---- */

/*
 * Let a stopped thread go, with that signal; where the program ignores SIGTRAP, once it does so
 * again. 0; -ETIMEDOUT where it can't be made to just now, and is still ours.
 */
int step_release(struct step *step, struct step_thread *thread, int signal);

/*
 * Before a system call: where the program ignores SIGTRAP, what it makes is seized, to be let go
 * so.
 */
void step_await_children(const struct step *step, const struct step_thread *thread);

/* ---- threads ---- */
struct step_thread *step_thread_find(struct step *step, pid_t tid);

/* Also of one that is there already. NULL: no memory, which step_failed() has. */
struct step_thread *step_thread_add(struct step *step, pid_t tid);

/* What clone(2) has made and the kernel has seized for us: a thread, or a process. */
void step_thread_made(struct step *step, pid_t tid);

/*
 * A process that it has made, seized, and that is not to be recorded: detach as soon as it stops.
 */
void step_stranger_add(struct step *maker, pid_t pid);

/* Its trail is over, permanently; we still trace it. */
void step_thread_end(struct step *step, struct step_thread *thread);
void step_thread_remove(struct step *step, struct step_thread *thread);

/* ---- hold.c ---- */

/* All threads of one process, for so long at most. How many are left. */
int step_process_let_go(struct step *step, unsigned int for_ms);

/* ---- rights.c; thread is stopped before a system call ---- */

/* Whether that call executes a program that gains rights, but not where we trace it. */
int step_gains_rights(const struct step_thread *thread, const struct user_regs_struct *regs);

/* So it continues by itself, from that call on. */
void step_let_gain(struct step *step);

/* ---- children.c ---- */

/* Whether what it makes is stepped through as well. */
int step_follows(const struct step *step);

/* Whether a system call of that number may make a process or a thread. */
int step_call_makes(uint64_t number);

/* A process that it has made, and that the kernel has seized for us, before its first stop. */
void step_child_made(struct step *step, pid_t pid);

/*
 * The thread ended in a system call that makes a process: take in the children that the kernel did
 * not report.
 */
void step_children_find(struct step *step, const struct step_thread *thread);

/* It has no threads any more: notify its sink; release a child. */
void step_over(struct step *step);

#endif
