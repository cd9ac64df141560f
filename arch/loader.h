/* SPDX-License-Identifier: MIT */
/*
 * The code that brings the agent into a process; target/process/inject.c puts it there and
 * describes the protocol.
 *
 *	loader_code     start: the borrowed thread's code (arch/remote_syscall.h) goes before it
 *	loader_clone    the borrowed thread's clone(2); the parent continues at `restore` of that
 *	                code (found by its distance), the child to loader_code's raw thread
 *	raw thread      makes a proper thread by pthread_create() and exits
 *	proper thread   waits until the raw one is gone, takes its malloc state over, loads the
 *	                agent, calls what starts it, and ends
 *
 * Included by assembly too. All is position independent.
 */
#ifndef ARCH_LOADER_H
#define ARCH_LOADER_H

/* struct loader_data, by offset; the assembly's view. */
#define LOADER_STATUS 0
#define LOADER_ERROR 4
#define LOADER_TID 8
#define LOADER_ABANDONED 12
#define LOADER_TCB 16
#define LOADER_TID_AT 24
#define LOADER_MASK 32
#define LOADER_STACK_BYTES 40
#define LOADER_TLS_INIT 48
#define LOADER_ATTR_INIT 56
#define LOADER_ATTR_DETACH 64
#define LOADER_ATTR_STACK 72
#define LOADER_CREATE 80
#define LOADER_DLOPEN 88
#define LOADER_DLSYM 96
#define LOADER_DLERROR 104
#define LOADER_ERRNO_AT 112
#define LOADER_ERRNO_OFFSET 120
#define LOADER_TLS_WORDS 128
#define LOADER_THREAD 136
#define LOADER_ATTR 144
#define LOADER_SYMBOL 208
#define LOADER_TEXT 240
#define LOADER_SOCKET_DIR 496
#define LOADER_AGENT_PATH 752

#define LOADER_TEXT_BYTES 256

/* status: 0 -> RAW -> CREATED -> OPENED -> STARTED; CREATE_FAILED, FAILED end it early */
#define LOADER_RAW 1
#define LOADER_CREATED 2
#define LOADER_CREATE_FAILED 3
#define LOADER_OPENED 4
#define LOADER_FAILED 5
#define LOADER_STARTED 6

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

struct loader_data {
	uint32_t status;
	int32_t error;	    /* what pthread_create() returned, or (STARTED) the agent */
	uint32_t tid;	    /* of the proper thread, in the process's own pid namespace */
	uint32_t abandoned; /* the tool gave up: load, but don't start the agent */
	uint64_t tcb;	    /* of the raw thread */
	uint64_t tid_at;    /* in it; the kernel clears it when the raw thread is gone */
	uint64_t mask;	    /* the proper thread's: all but the two that glibc keeps for itself */
	uint64_t stack_bytes;
	uint64_t tls_init; /* _dl_allocate_tls_init(), or 0 */
	uint64_t attr_init, attr_detach, attr_stack, create;
	uint64_t dlopen, dlsym, dlerror;
	/* __errno_location(); the offset of errno in libc's TLS block */
	uint64_t errno_at, errno_offset;
	uint64_t tls_words; /* of libc's TLS block */
	uint64_t thread;
	uint64_t attr[8];
	char symbol[32]; /* what starts the agent */
	char text[LOADER_TEXT_BYTES];
	char socket_dir[256];
	char agent_path[4096];
};

_Static_assert(offsetof(struct loader_data, tcb) == LOADER_TCB, "as assembly has it");
_Static_assert(offsetof(struct loader_data, tls_init) == LOADER_TLS_INIT, "as assembly has it");
_Static_assert(offsetof(struct loader_data, dlerror) == LOADER_DLERROR, "as assembly has it");
_Static_assert(offsetof(struct loader_data, tls_words) == LOADER_TLS_WORDS, "as assembly has it");
_Static_assert(offsetof(struct loader_data, attr) == LOADER_ATTR, "as assembly has it");
_Static_assert(offsetof(struct loader_data, text) == LOADER_TEXT, "as assembly has it");
_Static_assert(offsetof(struct loader_data, agent_path) == LOADER_AGENT_PATH, "as assembly has it");

/* Where a thread control block keeps what every glibc thread of a process has alike. */
extern const struct loader_tcb {
	uint16_t self[2]; /* two pointers to the block itself */
	uint16_t dtv;
	uint16_t multiple_threads;
	uint16_t alike[3][2]; /* offset and bytes: stack guard, pointer guard, processor features */
	uint16_t tid_first, tid_last; /* where to look for the thread's number */
} loader_tcb;

extern const char loader_code[], loader_code_end[];
extern const char loader_clone[];	 /* in it: the system call instruction */
extern const char loader_restore_jump[]; /* in it: int32, to be set to restore - (itself + 4) */

size_t remote_restore_offset(void);
#endif

#endif
