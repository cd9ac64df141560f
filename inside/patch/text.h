/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing the program's own memory, code included, without ever faulting: a module may
 * be unmapped by another thread at any moment. Everything goes through the kernel, which answers
 * EFAULT or EIO where there is nothing.
 *
 * The way that code can be written is found out once, by writing a byte of our own code with its
 * own value: through /proc/self/mem, whose writes the kernel lets pass a read-only mapping
 * (ptrace's FOLL_FORCE; Linux 6.12 and later can forbid it: proc_mem.force_override), else by
 * mprotect(2), which SELinux (execmod), PaX or PR_SET_MDWE may forbid.
 */
#ifndef INSIDE_PATCH_TEXT_H
#define INSIDE_PATCH_TEXT_H

#include "abi/control.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A thread's means: descriptors of its own table, so that of the control thread can't be closed by
 * the program.
 */
struct text {
	int fd;	    /* /proc/self/mem, or a scratch memfd; -1 when released */
	int is_mem; /* the former */
};

/*
 * Open the means; finds the way out at the first call. Program threads open for the moment only.
 * Returns 0 or -errno, with the descriptor close-on-exec. Under the agent's lock.
 */
int text_open(struct text *text);

/* Close; also a half-open or never opened one ({ .fd = -1 }). */
void text_release(struct text *text);

/* How code is written here; WAY_NONE before the first text_open(). */
enum control_way text_way(void);

/* For tests: pretend that nothing better than `way` works. */
void text_limit_way(enum control_way way);

/* Read memory; 0, or -EFAULT if not all of it is there. */
int text_read(const struct text *text, uintptr_t from, void *to, size_t bytes);

/*
 * Read a NUL-terminated string of `limit` bytes at most with its NUL. Its length, -EFAULT or
 * -E2BIG.
 */
long text_read_string(const struct text *text, uintptr_t from, char *to, size_t limit);

/* Write ordinary writable memory; 0 or -EFAULT. */
int text_write_data(const struct text *text, uintptr_t to, const void *from, size_t bytes);

/*
 * Write code. `prot` is what its pages have (PROT_*), restored by the mprotect way. Returns 0,
 * -WM_E_NO_TEXT_WRITE, -EFAULT or another -errno; then nothing or a part was written.
 */
int text_write_code(const struct text *text, uintptr_t to, const void *from, size_t bytes,
		    int prot);

#endif
