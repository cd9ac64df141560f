/* SPDX-License-Identifier: MIT */
/*
 * The handler of SIGTRAP, by which the kernel reports a watch's hits (take.h), and the target's own
 * use of that signal.
 *
 * The target's action is kept here as the target set it, and runs for every SIGTRAP that is no hit,
 * as the kernel would have run it: its mask, its stack, its flags; or the default, in which the
 * process dies at the same instruction with the same status. Where the target wants SIGTRAP
 * blocked, it is not, but counts so: one that is sent meanwhile is kept back.
 */
#ifndef INSIDE_WATCH_TRAP_H
#define INSIDE_WATCH_TRAP_H

#include "arch/trap_frame.h"
#include "inside/detour/trap_book.h"

#include <stdint.h>

/* The kernel's struct sigaction. */
struct trap_action {
	uintptr_t handler;
	uint64_t flags;
	uintptr_t restorer;
	uint64_t mask;
};

/* The state that the program believes to have. Under the lock below, except is_guarded and pid. */
struct trap_program {
	uint32_t lock;
	uint32_t is_guarded; /* guards see to it that no thread blocks SIGTRAP */
	uint32_t is_installed;
	int32_t pid;		   /* whose; another's is a child of vfork(2) on our memory */
	struct trap_action action; /* while ours is installed: the program's own for SIGTRAP */
	uint64_t masked; /* signals whose handlers are to have SIGTRAP blocked, and have not */
};

extern struct trap_program trap_program;

/*
 * The caller blocks all signals while it holds the lock, and does not wait: a thread that finds it
 * held for too long takes it, as its holder was lost in a fork.
 */
void trap_lock(void);
void trap_unlock(void);

/* rt_sigaction(2): 0 or -errno. */
int trap_sigaction(int number, const struct trap_action *action, struct trap_action *old);

/*
 * The agent's action for SIGTRAP, in the place of the program's: system calls restart if they would
 * with the program's.
 */
void trap_action_make(struct trap_action *action, const struct trap_action *program);
int trap_is_ours(const struct trap_action *action);

/* Does a handler at stack pointer `sp` interrupt another one of this thread? */
int trap_is_nested(uintptr_t sp);

/* Have the signal that was kept back come now, for SIGTRAP is not blocked any more. */
void trap_send_pending(void);

/*
 * Give memory for stacks of our own, before the first watch; it is never freed. It is not part of
 * our library's memory: such a large library beside the C library took the space for the landings
 * of guards.
 */
#define TRAP_SPARE_BYTES (512u * 1024)
int trap_spare_is_there(void);
void trap_spare_provide(void *start);

/* In a forked child: the threads that had one of these stacks are not there. */
void trap_spare_forked(void);

#endif
