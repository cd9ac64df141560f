/* SPDX-License-Identifier: MIT */
/* How many of the processor's registers for breakpoints a thread can still be given: that many are opened, disabled, and closed again. */
#ifndef SESSION_DOCTOR_BREAKPOINTS_H
#define SESSION_DOCTOR_BREAKPOINTS_H

#include "session/doctor/machine.h"

#define BREAKPOINTS 4 /* the processor's: DR0 to DR3 */

/* Which kind. */
enum {
	BREAKPOINT_SIGTRAP = 1, /* the thread that hits is told by SIGTRAP */
	BREAKPOINT_EXECUTE = 2, /* of code */
	BREAKPOINT_KERNEL = 4,	/* the kernel's stores too */
};

/* At `address`, which need not be mapped, for a thread (0: this one; -1: all of processor `cpu`). *count of them; 0 or why there were no more. */
int breakpoints_free(const struct machine *machine, pid_t tid, int cpu, unsigned int kind,
		     int *count);

#endif
