/* SPDX-License-Identifier: MIT */
/* What gate.S has: the ways between translated code and the engine. */
#ifndef INSIDE_ENGINE_GATE_H
#define INSIDE_ENGINE_GATE_H

#include "inside/engine/engine_thread.h"

void gate_exit(void);
void gate_miss(void);
void gate_syscall(void);
void gate_refused(void);
void gate_changed(void);

void gate_sigreturn(void);

/* Continue in translated code. Until the end, the program's state is in thread->regs. */
extern const uint8_t gate_leave[], gate_leave_end[];

/*
 * Make a system call of the program, restarted or interrupted as the program would see it.
 * thread->call_next is behind it. No lock is held. GATE_CALL_LATER: not made, signals are deferred.
 */
long gate_call(long number, long a, long b, long c, long d, long e, long f);
extern const uint8_t gate_call_check[], gate_call_at[], gate_call_done[];
#define GATE_CALL_LATER (-513)

/* Set the signal mask; nothing is done while signals are deferred. */
void gate_mask(const uint64_t *mask);
extern const uint8_t gate_mask_check[], gate_mask_at[], gate_mask_done[];

/*
 * The program is at thread->regs. The engine raises a signal: pending signals are delivered, and
 * the program continues. If no code can run there, it continues natively until that faults.
 */
void gate_signal(void) __attribute__((noreturn));

/* The handler of all signals that the engine takes; it calls signal_handle(). */
void gate_handler(int number, void *about, void *data);
void signal_handle(int number, void *about, void *data);

/*
 * An engine handler returns to here, on the engine's stack. It goes to leave(), with the program's
 * state in thread->regs.
 */
void gate_quit(void);

/* The same, to dispatch_to(). */
void gate_resume(void);

/* End an engine handler and enter the program's in its place, as if the kernel had called it. */
void gate_chain(void *context, int number, const siginfo_t *info, uint64_t handler)
	__attribute__((noreturn));

/* Copy from or to memory of the program's. 0, or 1: it can't be read or written. */
int gate_copy(void *to, const void *from, uint64_t bytes);
extern const uint8_t gate_copy_done[], gate_copy_failed[];

/*
 * The same from code of the program's, while it is at thread->regs: it may wait there for a page. A
 * signal that comes is delivered at once, and then this does not return.
 */
int gate_read(void *to, const void *from, uint64_t bytes);
extern const uint8_t gate_read_done[], gate_read_failed[];

/* rt_sigreturn(2) from the frame at this address. */
void gate_return(const void *frame) __attribute__((noreturn));

/*
 * clone(2) and the like, its arguments in the order of their registers. The child goes to `begin`
 * on its own stack of the engine's, and from there to translated code. Returns in the parent.
 */
long gate_clone(long number, const uint64_t args[6], struct thread *child,
		void (*begin)(struct thread *));

/* Unmap the calling thread's own memory, and end it. */
void gate_end(void *thread, uint64_t bytes, long status) __attribute__((noreturn));

/* Called by gate.S with the program's registers in thread->regs; it fills in thread->next. */
void engine_enter(struct thread *thread, enum gate why);

struct engine_channel;
struct engine_boot;
void engine_start(struct engine_channel *head, uint64_t base, const void *dynamic,
		  struct engine_boot *boot);

#endif
