/* SPDX-License-Identifier: MIT */
/* The owners of claims: processes, identified by pid and start time, as pids are reused. */
#ifndef TARGET_CLAIM_CLAIMANT_H
#define TARGET_CLAIM_CLAIMANT_H

#include "target/claim/ledger.h"

/* Our own process, in all its members. */
void claim_owner_self(struct claim_owner *owner);

/* The inode of our PID namespace; 0: unknown. */
uint64_t claimant_namespace(void);

/*
 * Look whether a process with that number and that start lives: 1, and its uid and name as the
 * kernel has them, not as the ledger; 0 where it has ended. 1 also where we may not look; then they
 * stay as they are.
 */
int claimant_lives(struct claim_owner *owner);

/*
 * When a process or thread began, CLOCK_BOOTTIME, rounded down to the kernel's ticks; 0: gone or
 * unknown.
 */
uint64_t claimant_start_ns(pid_t tid);

#endif
