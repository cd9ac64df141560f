/* SPDX-License-Identifier: MIT */
/*
 * Counters in the ledger of claims. The kernel refuses no counter: where more are wanted than the
 * processor has, it lets them take turns, and the counts become estimates. So who counts writes it
 * down, and who reserves is refused when others have all.
 */
#ifndef RECORD_PERF_COUNTER_CLAIMS_H
#define RECORD_PERF_COUNTER_CLAIMS_H

#include "record/perf/counts.h"
#include "target/claim/ledger.h"

struct counter_claims {
	struct ledger *ledger; /* NULL: none */
	uint64_t *ids;
	size_t count;
};

/*
 * Claim each event on each thread, process or CPU of the request; of what a cgroup runs, on the
 * system. `what` is its purpose, or NULL for the events' names. `is_reserving`: only if the others
 * leave the processor that many counters. Returns 0; -WM_E_PERF_TAKEN with the holders,
 * -WM_E_LIMIT, -ENOMEM.
 */
int counter_claims_take(struct counter_claims *claims, const struct counts_request *request,
			const char *what, int is_reserving, struct detail detail);

/* Nothing claimed is allowed. */
void counter_claims_give(struct counter_claims *claims);

#endif
