/* SPDX-License-Identifier: MIT */
/*
 * Claims on what the kernel reserves for no one, as counters and locked memory: the ledger alone
 * keeps them. So these refuse a claim for which the claims of others leave no room.
 */
#ifndef TARGET_CLAIM_UNITS_H
#define TARGET_CLAIM_UNITS_H

#include "target/claim/limits.h"

struct units {
	uint64_t most; /* units in all */
	pid_t tid;     /* whose units these are: as of struct claim_wanted */
	int cpu;
	const char *words; /* "counters of the processor" */
	int error;	   /* if there is no room */
};

/*
 * limits_claim() if, with what others have that weighs on claims[0], all claims have room.
 * Otherwise units->error with figures and holders, and nothing is written.
 */
int units_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		const struct units *units, struct detail detail);

/* Sleep for a random time, longer after each try, so that those who met do not meet again. */
void units_back_off(unsigned int tries);

#define UNITS_TRIES 8 /* some 0.5 s in all */

#endif
