/* SPDX-License-Identifier: MIT */
/* What the cases of kernel_writes.c share: a page of code with data beside it. */
#ifndef TESTS_TARGETS_ENGINE_KERNEL_WRITES_H
#define TESTS_TARGETS_ENGINE_KERNEL_WRITES_H

#include <stdint.h>
#include <sys/types.h>

#define RIGHT 1
#define WRONG 0
#define ABSENT (-1) /* not on this system, or not allowed */

#define AREA_BYTES 2048u
#define FILL 0x5a  /* of an area, before a case */
#define LIMIT_S 60 /* a call that finds nothing is broken off then */

/*
 * The kernel is to write to `at`, an area of AREA_BYTES, which may be in a page of code. The case
 * prepares what it must, calls code_run(), makes its system call, and looks at all its effects.
 */
struct kernel_case {
	const char *name;
	int (*run)(unsigned char *at);
};

extern const struct kernel_case cases_calls[]; /* one system call each */
extern const struct kernel_case cases_sockets[];
extern const struct kernel_case cases_late[]; /* what is written late, or beside other threads */

/* A read by io_uring, and what runs before there is something to read. */
int ringed(unsigned char *at);
extern void (*late_wait)(const unsigned char *at);

/* Run the code of the page that has `at`, if it has any. 1: it did what it should. */
int code_run(const unsigned char *at);

/* Make the eight bytes of `at` the operand of code; and what that code returns. */
void operand_make(unsigned char *at);
uint64_t operand_run(const unsigned char *at);

/* Whether a thread of this process sleeps in the kernel. */
int is_asleep(pid_t tid);

/* One more area like `at`, in a page of its own; in a page of code if that is in one. */
unsigned char *area_like(const unsigned char *at);

#endif
