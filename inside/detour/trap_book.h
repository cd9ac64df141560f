/* SPDX-License-Identifier: MIT */
/*
 * What a thread of the target would have of SIGTRAP, were the signal not ours
 * (inside/watch/trap.h). The thread itself keeps its book; the janitor changes it while the thread
 * is stopped.
 */
#ifndef INSIDE_DETOUR_TRAP_BOOK_H
#define INSIDE_DETOUR_TRAP_BOOK_H

#include <signal.h>
#include <stdint.h>

#define TRAP_SIGNAL_BIT (UINT64_C(1) << (SIGTRAP - 1))

struct trap_thread {
	uint8_t is_blocked; /* SIGTRAP */
	uint8_t is_pending; /* one came meanwhile: */
	siginfo_t info;
	uintptr_t open_sp; /* of our handler while it lets SIGTRAP in; 0: it does not */
};

extern __thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));

#endif
