/* SPDX-License-Identifier: MIT */
/*
 * Who called, by a thread's registers, a copy of its stack, and the unwind tables (.eh_frame) of
 * its process's files. One thread at a time uses an object; it holds descriptors of the files.
 */
#ifndef TARGET_CODE_CALLSTACK_H
#define TARGET_CODE_CALLSTACK_H

#include <stddef.h>
#include <stdint.h>

struct callstack;

/* As DWARF numbers those of x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip. */
#define CALLSTACK_REGISTERS 17
#define CALLSTACK_RBP 6
#define CALLSTACK_RSP 7
#define CALLSTACK_RIP 16

/* NULL: no memory. Free allows NULL. */
struct callstack *callstack_new(void);
void callstack_free(struct callstack *stack);

/*
 * A file of the process, and what is added to its addresses as linked. 0; -ENOENT: it can't be
 * read, and frames end there.
 */
int callstack_module_add(struct callstack *stack, const char *path, uint64_t base);

/* A thread, as it was recorded. */
struct callstack_thread {
	uint64_t registers[CALLSTACK_REGISTERS];
	const void *stack; /* what is at rsp */
	size_t stack_bytes;
};

/*
 * Fill frames[] with where the thread is, then the places that its functions return to, `most` of
 * them. *is_cut: the copy of the stack, frames[] or what the files say ended before the outermost.
 * Returns how many, at least one.
 */
size_t callstack_frames(struct callstack *stack, const struct callstack_thread *thread,
			uint64_t *frames, size_t most, int *is_cut);

#endif
