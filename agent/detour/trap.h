/* SPDX-License-Identifier: MIT */
/*
 * Breakpoints: places where an int3 stands instead of a jump. The signal's handler sends the thread to
 * the place's trampoline and returns, so the event happens outside of any handler, as at a jump.
 *
 * Watches are told by SIGTRAP, too (agent/watch/take.h): of each that comes, those who may take it are asked in turn.
 *
 * SIGTRAP is the program's too. Its own action is kept here as the program set it, and is done for every
 * SIGTRAP that is none of ours, as the kernel would have done it: its mask, its stack, its flags; or the
 * default, in which the process dies at the same instruction with the same status. Where the program wants
 * SIGTRAP blocked, which would have the kernel kill it at our next breakpoint (kernel/signal.c,
 * force_sig_info_to_task()), it is not, but counts so: one that is sent meanwhile is kept back.
 *
 * A place is live from before its breakpoint is stored until after it is gone. It stays in the table for
 * ever: a thread may have met the breakpoint just before it went, and come to the handler after that.
 */
#ifndef AGENT_DETOUR_TRAP_H
#define AGENT_DETOUR_TRAP_H

#include "arch/trap.h"

#include <stdint.h>

#define TRAP_PLACES_MAX 6144u /* that ever bear a breakpoint */
#define TRAP_SIGNAL_BIT (UINT64_C(1) << (SIGTRAP - 1))

/* The kernel's struct sigaction. */
struct trap_action {
	uintptr_t handler;
	uint64_t flags;
	uintptr_t restorer;
	uint64_t mask;
};

/* What the program would have. Under the lock below, but for is_guarded and pid. */
struct trap_program {
	uint32_t lock;
	uint32_t is_guarded; /* guards see to it that no thread blocks SIGTRAP */
	uint32_t is_installed;
	int32_t pid;		   /* whose; another's is a child of vfork(2) on our memory */
	struct trap_action action; /* while ours is installed: the program's own for SIGTRAP */
	uint64_t masked; /* signals whose handlers are to have SIGTRAP blocked, and have not */
};

extern struct trap_program trap_program;

/* What a thread would have. */
struct trap_thread {
	uint8_t is_blocked; /* SIGTRAP */
	uint8_t is_pending; /* one came meanwhile: */
	siginfo_t info;
};

extern __thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));

/*
 * All signals are blocked while it is held, by the caller, and nothing waits: whoever finds it held for too
 * long takes it, for its holder was lost in a fork.
 */
void trap_lock(void);
void trap_unlock(void);

/* rt_sigaction(2): 0 or -errno. */
int trap_sigaction(int number, const struct trap_action *action, struct trap_action *old);

/* Ours for SIGTRAP, while that is the program's: system calls are begun anew where it would have them so. */
void trap_action_make(struct trap_action *action, const struct trap_action *program);
int trap_is_ours(const struct trap_action *action);

/* Have the signal that was kept back come now, for SIGTRAP is not blocked any more. */
void trap_send_pending(void);

/* ---- the table; control side, one writer ---- */

/* `code` stands for the instruction of that many bytes there. Not live yet. 0, -WM_E_DETOUR_MEMORY. */
int trap_place(uintptr_t address, uintptr_t code, unsigned int bytes);

/* A breakpoint is about to be stored there, or is gone. */
void trap_set_live(uintptr_t address, int is_live);

/* Its memory is gone. */
void trap_forget(uintptr_t address);

#endif
