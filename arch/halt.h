/* SPDX-License-Identifier: MIT */
/*
 * Stopped threads, of our own process (inside/detour/janitor.c) or of another: their registers, and
 * the frames that signals left on their stacks. No libc: raw system calls only.
 */
#ifndef ARCH_HALT_H
#define ARCH_HALT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

struct halt_regs {
	struct user_regs_struct regs;
};

/* Read or write the registers of a stopped tracee. 0; -ENOTSUP of 32-bit code; -errno. */
int halt_regs_get(int tid, struct halt_regs *regs);
int halt_regs_set(int tid, const struct halt_regs *regs);

uintptr_t halt_pc(const struct halt_regs *regs);
uintptr_t halt_stack(const struct halt_regs *regs);
uintptr_t halt_thread_pointer(const struct halt_regs *regs);

/*
 * Whether the kernel would have it resume its call by restart_syscall(2), which a filter may kill
 * for.
 */
int halt_is_resuming(const struct halt_regs *regs);

/*
 * Some system calls return EINTR for a mere stop where others restart: epoll_wait(2), semop(2) and
 * more, signal(7). Make the kernel restart them too, unless a handler runs, with the whole timeout;
 * with `is_full` also one that would resume. Returns 1 if that changed regs.
 */
int halt_restart(struct halt_regs *regs, int is_full);

/*
 * Whether words[at] is where a signal frame keeps the interrupted PC; HALT_FRAME_WORDS_BEHIND more
 * words must be there, and one before. Its stack pointer is words[at - 1].
 */
#define HALT_FRAME_WORDS_BEHIND 2
int halt_is_frame(const uint64_t *words, size_t at);

/*
 * A process that shares our memory, descriptors and folder but is not one of our threads: calls
 * fn(arg) on that stack and ends. Its parent gets no signal; wait for it with __WALL. Its number or
 * -errno.
 */
long halt_spawn(void *stack_end, void (*fn)(void *), void *arg);

/* Code behind this call sees all code as it was written before. */
void halt_serialize(void);

#endif
