/* SPDX-License-Identifier: MIT */
/*
 * Failures of a machine that a healthy machine plays, so that a test sees each one detected. They
 * act below the table of trials: the code that detects a failure does not know that it is
 * simulated.
 *
 * WAYMARK_SIMULATE names them, separated by commas. A process with AT_SECURE ignores the variable,
 * because another user chose its environment. A simulated result never enters the cache.
 */
#ifndef TARGET_TRIAL_SIMULATE_H
#define TARGET_TRIAL_SIMULATE_H

#include <stddef.h>

enum simulate_is_on {
	SIMULATED_DEBUG_REGISTERS, /* debug-registers: accepted, and never fire */
	/* debug-registers-later: the same from the second trial on */
	SIMULATED_DEBUG_REGISTERS_LATER,
	SIMULATED_INT80, /* int80: int $0x80 raises SIGSEGV */
	SIMULATED_TSC,	 /* tsc: the kernel does not trust it, and two CPUs disagree */
	SIMULATED_HANG,	 /* hang: no trial answers */
	SIMULATED_COUNT,
};

/* Whether WAYMARK_SIMULATE names the failure. Any thread may ask; a signal handler may not. */
int simulate_is_on(enum simulate_is_on failure);

/* The first word of WAYMARK_SIMULATE that names no failure, with its length; NULL: all do. */
const char *simulate_unknown(size_t *bytes);

/* Whether it names any. */
int simulate_any(void);

#endif
