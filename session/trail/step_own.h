/* SPDX-License-Identifier: MIT */
/* A step's own: its threads, and what is written of them. For step.c and hold.c alone. */
#ifndef SESSION_TRAIL_STEP_OWN_H
#define SESSION_TRAIL_STEP_OWN_H

#include "code/block.h"
#include "session/trail/modules.h"
#include "session/trail/step.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#define STEP_OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)
#define STEP_NAP_NS 50000
#define STEP_CODE_MAX 15 /* bytes of an instruction */

struct step_thread {
	struct step_thread *next;
	pid_t tid;
	int is_stopped, is_begun;
	int is_stranger; /* no thread of the process: to be let go as soon as it stops */
	/* the instruction that the thread was let go for; no bytes: it could not be read */
	uint64_t at, rax;
	uint8_t code[STEP_CODE_MAX];
	struct block_insn insn;
	int signal;	   /* that it was let go with */
	int is_over;	   /* that instruction has run, and is written down */
	int is_broken_off; /* a system call, which is made again */
	pid_t child;	   /* that its system call has made */
	struct block_cut cut;
	struct sink_thread *trail;
};

struct step {
	pid_t pid;
	struct trail_sink *sink;
	struct modules modules;
	struct step_thread *threads;
	struct step_result result;
	int error;
};

/* Keep the first error. */
void step_failed(struct step *step, int err);

/* The instruction that the thread was let go for has run; it stands at `rip` now. */
void step_ran(struct step *step, struct step_thread *thread, uint64_t rip);

/* Write an event; a block that is not complete ends with it. `at`: where it goes on. */
void step_event(struct step *step, struct step_thread *thread, enum trail_event kind, uint64_t at,
		uint64_t first, uint64_t second);

/* pushf and syscall show the program the trap flag, which is ours: take it out, after one has run. */
void step_hide_flag(struct step_thread *thread, struct user_regs_struct *regs);

/* Whether a thread is one of the agent's, by the name that these give themselves (agent/control/thread.c). */
int step_is_agents(pid_t pid, pid_t tid);

struct step_thread *step_thread_find(struct step *step, pid_t tid);

/* Also of one that is there already. NULL: no memory, which step_failed() has. */
struct step_thread *step_thread_add(struct step *step, pid_t tid);

/* What clone(2) has made and the kernel has seized for us: a thread, or a process with an exit signal of its own. */
void step_thread_made(struct step *step, pid_t tid);

/* Its trail is over, for good; it is still ours. */
void step_thread_end(struct step *step, struct step_thread *thread);
void step_thread_remove(struct step *step, struct step_thread *thread);

#endif
