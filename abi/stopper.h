/* SPDX-License-Identifier: MIT */
/*
 * The stopper: a process of the tool's that stops the target's threads and changes code, where the
 * kernel does not let the target's agent do so. A process that changed its user is not dumpable, so
 * ptrace(2) is refused to its agent, but not to root's tool.
 *
 * The agent makes a pair of AF_UNIX SOCK_SEQPACKET sockets and sends one end to a tool with
 * CONTROL_STOPPER (abi/control.h). The tool starts a stopper that has this end. Then:
 *
 *	stopper to agent   a packet of one byte, once; the end of the socket instead: no stopper
 *	agent to stopper   struct stopper_request, then `count` struct stopper_change
 *	stopper to agent   struct stopper_answer, when all threads run again
 *
 * The stopper outlives the tool: the agent takes its jumps away when the tool was killed, too. It
 * ends when the agent closes its end of the socket.
 *
 * Each change is whole or not done, whenever the stopper is killed: the kernel copies the bytes
 * of one page without looking for signals. So the bytes of one change must be in one page. A
 * killed stopper's threads run again, since the kernel detaches a tracer that ends.
 *
 * The stopper trusts nothing that it is sent. It writes to the memory that the process had when
 * the agent asked for the stopper, and to no other. A program may change its own code at any
 * time, so the agent gains nothing by this that it could not do itself. There is no stopper where
 * execve(2) gave the program rights (AT_SECURE), or its user is not the socket's maker: the socket
 * may be another's by then.
 */
#ifndef ABI_STOPPER_H
#define ABI_STOPPER_H

#include "abi/detour.h"

#include <stdint.h>

#define STOPPER_BYTES 24u /* of code, for one change */
#define STOPPER_CHANGES_MAX 512u
#define STOPPER_PAGE_BYTES 4096u
#define STOPPER_STOP_MAX_MS 1000u /* a stop takes no longer; then its process is killed */

struct stopper_request {
	uint32_t count;
	uint32_t patience_ms; /* for threads that sleep uninterruptibly */
	uint32_t filters;     /* seccomp's, that the agent's own thread is under */
	uint32_t reserved;
};

/* Replace `count` bytes from `address` + `at` on, if `bytes` bytes at `address` are as expected. */
struct stopper_change {
	uint64_t address;
	uint8_t bytes;
	uint8_t at, count;
	uint8_t reserved[5];
	uint8_t expected[STOPPER_BYTES];
	uint8_t stored[STOPPER_BYTES]; /* the first `count` of them */
};

struct stopper_answer {
	int32_t error; /* 0, or nothing was changed: -errno or -WM_E_* */
	uint32_t threads;
	uint64_t stopped_ns; /* from the first thread's stop to the last one's release */
	uint8_t is_done[STOPPER_CHANGES_MAX];
};

_Static_assert(DETOUR_INSN_MAX + DETOUR_KEPT_MAX <= STOPPER_BYTES, "all that a detour owns");
_Static_assert(sizeof(struct stopper_request) == 16, "fixed");
_Static_assert(sizeof(struct stopper_change) == 64, "fixed");

#endif
