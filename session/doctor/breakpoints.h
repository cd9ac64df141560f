/* SPDX-License-Identifier: MIT */
/*
 * How many of the processor's registers for breakpoints a thread can still be given: that many are opened, disabled, and closed again.
 *
 * That is what the kernel's books say, which is what it refuses by. They can say too little is taken (measured, Linux 6.18): two tasks whose
 * events are inherited of one parent have their events' contexts swapped at a switch from one to the other, while the books go by the task
 * that an event was made for. When the other ends, its context goes, with the events that stand for us in the books; those that we have then are booked to
 * the dead. So who forks, or has threads that end, may be given four more beside what it has inherited, and some can't be put into registers then:
 * hits are missed, and not counted either (0 of 100), and time_running stays behind time_enabled, which alone tells of it.
 */
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
