/* SPDX-License-Identifier: MIT */
/*
 * The engine's state of a thread. The gs base of a thread under the engine is the address of its
 * struct thread, so translated code and gate.S reach it without a register. The tool refuses a
 * program that uses gs itself.
 *
 * While translated code runs, the low half of xmm15 holds the address of the thread's next word.
 * The high half counts the blocks that the thread has written. The program's value of that register
 * is in `vector15`. All other registers hold the program's values.
 */
#ifndef INSIDE_ENGINE_ENGINE_THREAD_H
#define INSIDE_ENGINE_ENGINE_THREAD_H

/* For translated code and gate.S; checked below. */
#define THREAD_SCRATCH 0x08
#define THREAD_TARGET 0x10
#define THREAD_NEXT 0x18
#define THREAD_POINTER 0x20
#define THREAD_STACK 0x30
#define THREAD_DEFERRED 0x38
#define THREAD_REGS 0x40
#define THREAD_RIP (THREAD_REGS + 0x80)
#define THREAD_FLAGS (THREAD_REGS + 0x88)
#define THREAD_SPILL (THREAD_REGS + 0x90)
#define THREAD_VECTOR15 0x100

#ifndef __ASSEMBLER__

#include "abi/engine.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define THREAD_STACK_BYTES 65536u
#define THREAD_SIGNAL_BYTES 65536u

#define THREAD_HELD 5
#define THREAD_CHECKED 256u
#define THREAD_WRITES_MAX 12u

struct engine_slot;
struct trace;

struct thread {
	struct thread *self;
	uint64_t scratch;     /* a register's value, where translated code needs one */
	uint64_t target;      /* of an indirect branch through memory */
	uint64_t next;	      /* where gate.S continues in translated code */
	uint64_t pointer;     /* what is in xmm15, while that is the program's or the engine runs */
	uint64_t blocks;      /* the same of its high half: blocks ever in the thread's slot */
	uint64_t stack;	      /* the top of the engine's */
	uint32_t is_deferred; /* signals wait, all blocked, until the engine is done */
	uint32_t reserved;
	struct engine_regs regs; /* the program's, while the engine runs */
	uint64_t spill;		 /* another, on the way through the map */
	uint8_t unused[0x100 - THREAD_REGS - sizeof(struct engine_regs) - 8];
	uint8_t vector15[64]; /* the program's zmm15, as far as this processor has it */

	/* Of the engine alone. */
	uint64_t generation; /* of the traces that it may be in: trace.h; 0: in none */
	uint32_t tid;
	uint32_t slot_number;
	struct engine_slot *slot; /* NULL: unrecorded */
	uint32_t segment;	  /* of the slot's, being filled */
	uint64_t segment_number;
	uint32_t *words, *words_end; /* of that segment */
	uint32_t is_leaving;	     /* leave.h is in progress */
	uint32_t is_native;	     /* it has left */
	uint32_t is_trying;	     /* it runs its own code for the fault that this is */
	uint32_t try_left;	     /* instructions of the last block that have not run then */
	uint64_t try_at;	     /* a branch that is to fault so, or try_id's; 0: none */
	uint64_t try_from;	     /* where is_trying began */
	uint32_t try_id;	     /* the path that has run when that instruction has; 0: none */
	uint32_t is_process;	     /* PROCESS_*: it leaves, and the engine with it */
	uint32_t is_copy;	     /* a forked child, to begin with */
	uint32_t has_stack;	     /* a child: not its maker's */
	/* of a child that is a process, and recorded; NULL: it is not. In its parent's channel */
	struct engine_child *entry;
	uint64_t born;		    /* what that has for it until its pid is known */
	uint32_t is_executing;	    /* in execve(2), with TRAIL_EXEC as the last of its trail */
	uint32_t is_tracing;	    /* in ptrace(2): the tool was asked */
	uint32_t is_taken;	    /* it, or the thread that made it, ran before us */
	uint32_t is_guest;	    /* of another process, and shares all but that: unrecorded */
	struct thread *next_thread; /* leave.c's */
	/* signals wait until the next instruction of the program's; is_deferred, too */
	uint32_t is_stepping;
	uint64_t step_trap; /* the trap flag as the program had it before */
	uint32_t waiter;    /* pending_signals.c's */
	uint64_t traced; /* where in the cache the program's trap flag was met last; 0: it is off */
	/* the program's signal mask; the kernel's has less (action_own), or all */
	uint64_t blocked;
	uint64_t call_next; /* behind the system call that is being made; 0: none */
	/* where the kernel may write for it, or for the last: kernel_writes.h */
	struct thread_writes {
		uint32_t found;
		struct thread_range {
			uint64_t start, end;
		} ranges[THREAD_WRITES_MAX];
	} writes;
	struct {
		uint64_t at, bytes;
		uint32_t flags;
	} stack_asked; /* sigaltstack(2) as the program has it */
	struct {
		uint64_t error, number, address;
	} trap; /* the program's last; all later frames report it */
	struct {
		uint64_t at;
		uint32_t bytes, signature;
	} rseq; /* rseq(2) as the program has it, where it had it before us; the kernel has none */
	/* dispatch.c's: traces that are checked at each entry, by where they begin */
	struct thread_checked {
		uint64_t pc, generation;
		const struct trace *trace;
		uint64_t left; /* until the page is asked for again */
	} checked[THREAD_CHECKED];
	/* signals that wait; the last for all that the kernel can block */
	siginfo_t held[THREAD_HELD];
	/* where the kernel enters our handlers: THREAD_SIGNAL_BYTES from here */
	uint64_t signal_stack;
};

_Static_assert(offsetof(struct thread, scratch) == THREAD_SCRATCH &&
		       offsetof(struct thread, target) == THREAD_TARGET &&
		       offsetof(struct thread, next) == THREAD_NEXT &&
		       offsetof(struct thread, pointer) == THREAD_POINTER &&
		       offsetof(struct thread, blocks) == THREAD_POINTER + 8 &&
		       offsetof(struct thread, stack) == THREAD_STACK &&
		       offsetof(struct thread, is_deferred) == THREAD_DEFERRED &&
		       offsetof(struct thread, regs) == THREAD_REGS &&
		       offsetof(struct thread, regs.rip) == THREAD_RIP &&
		       offsetof(struct thread, regs.rflags) == THREAD_FLAGS &&
		       offsetof(struct thread, spill) == THREAD_SPILL &&
		       offsetof(struct thread, vector15) == THREAD_VECTOR15,
	       "gate.S has them as numbers");
_Static_assert(offsetof(struct thread, self) == ENGINE_THREAD_SELF &&
		       offsetof(struct thread, stack) == ENGINE_THREAD_STACK &&
		       offsetof(struct thread, spill) == ENGINE_THREAD_SPILL &&
		       offsetof(struct thread, regs) == ENGINE_THREAD_REGS,
	       "the tool has them as numbers");

#define PROCESS_ALONE 1u   /* with the handlers that the program has */
#define PROCESS_CLEARED 2u /* with CLONE_CLEAR_SIGHAND */

/* Why translated code came to the engine: gate.S. */
enum gate {
	GATE_EXIT = 0,	  /* through an exit that leads nowhere yet: ring_last() */
	GATE_MISS = 1,	  /* an indirect branch to where no trace is known to be */
	GATE_SYSCALL = 2, /* a system call: ring_last() */
	GATE_REFUSED = 3, /* to an instruction that can't be translated: ring_last() */
	GATE_CHANGED = 4, /* the code is no more what a trace was made of */
};

#endif
#endif
