/* SPDX-License-Identifier: MIT */
/* Who has claims: processes, told apart by their start, as numbers are used again. */
#ifndef CLAIM_CLAIMANT_H
#define CLAIM_CLAIMANT_H

#include "claim/ledger.h"

/* Our own process, in all its members. */
void claim_owner_self(struct claim_owner *owner);

/* The inode of our PID namespace; 0: not told. */
uint64_t claimant_namespace(void);

/*
 * Look whether a process with that number and that start lives: 1, and its uid and name as the kernel has them, not as the
 * ledger; 0 where it has ended. 1 also where we may not look; then they stay as they are.
 */
int claimant_lives(struct claim_owner *owner);

/* When a process or thread began, CLOCK_BOOTTIME, rounded down to the kernel's ticks; 0: it is gone, or that is not told. */
uint64_t claimant_start_ns(pid_t tid);

#endif
