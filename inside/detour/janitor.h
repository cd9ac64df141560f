/* SPDX-License-Identifier: MIT */
/*
 * The stop: a child that shares our memory (clone(2), CLONE_VM) but is no thread of the program's
 * stops every thread by ptrace(2), the control thread's own among them, changes code, and lets all
 * go. Whoever kills it, the kernel lets all go; no jump is ever stored in part.
 */
#ifndef INSIDE_DETOUR_JANITOR_H
#define INSIDE_DETOUR_JANITOR_H

#include "inside/detour/detour.h"

/* One site of a batch. In order of address; none overlaps another. */
struct janitor_site {
	uintptr_t address; /* the detour's; first: inside/patch/sort.h */
	struct detour *detour;
	int is_done; /* the bytes are as they should be now */
	int error;   /* else: 0 not tried, -WM_E_DETOUR_BUSY, -WM_E_SITE_CHANGED, -EFAULT, ... */
	uint8_t found[DETOUR_FOUND_BYTES];
};

struct janitor_outcome {
	uint64_t stopped_ns; /* from the first thread's stop to the last one's release */
	uint64_t done_ns;    /* CLOCK_MONOTONIC when the last byte was stored; 0: none was */
	unsigned int threads;
};

/*
 * Arm or disarm what is not done yet. Where the kernel refuses us the stop, a stopper does it, if
 * there is one. Returns 0 (then see each site), or nothing was changed: -WM_E_TRACED,
 * -WM_E_NO_PTRACE, -WM_E_SECCOMP, -WM_E_STRICT when threads could not be stopped: one slept
 * uninterruptibly for longer than patience_ms, -EAGAIN, -ENOMEM, -errno. Control thread, under the
 * agent's lock.
 */
int janitor_run(const struct text *text, struct janitor_site *sites, size_t count, int arm,
		unsigned int patience_ms, struct janitor_outcome *outcome);

/*
 * A stopper's janitor_run(), which inside/control/stopper_client.h sets: -WM_E_NO_PTRACE if no tool
 * gives a stopper. NULL: no one could ask for it.
 */
extern int (*janitor_stopper)(const struct text *text, struct janitor_site *sites, size_t count,
			      int arm, unsigned int patience_ms, struct janitor_outcome *outcome);

/* Stop all to free return units that were left (return.h). 0 or an error as above. */
int janitor_sweep(const struct text *text);

/*
 * Stop all to see whether a thread has hit a watch and is still to receive its signal: -EAGAIN; 0
 * if none; or an error as above.
 */
int janitor_look(const struct text *text);

/* Stop all, and have none block SIGTRAP but by the guards' book. 0 or an error as above. */
int janitor_unblock(void);

#endif
