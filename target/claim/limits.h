/* SPDX-License-Identifier: MIT */
/*
 * The administrator's limits for all users of a machine: /etc/waymark/limits, of lines KEY = VALUE;
 * waymark-claims(1) lists the keys. The file belongs to root, no one else may write to it, and no
 * variable or option names another. A missing file limits nothing. A file that is not as it should
 * be allows nothing.
 *
 * The ledger (ledger.h) has what users hold. So a ledger that can't be written makes a limit
 * unverifiable, and then nothing is allowed that it limits. Users who remove their own ledger's
 * files deceive only this check; the kernel knows no such limits.
 */
#ifndef TARGET_CLAIM_LIMITS_H
#define TARGET_CLAIM_LIMITS_H

#include "target/claim/ledger.h"
#include "target/process/target.h"

#define LIMITS_FILE "/etc/waymark/limits"

enum limit {
	LIMIT_DEBUG_REGISTERS, /* of a user: of each thread, process or CPU, added up */
	LIMIT_COUNTERS,	       /* of a user */
	LIMIT_LOCKED_BYTES,    /* of a user */
	LIMIT_BUFFER_BYTES,    /* of each process that a session records */
	LIMIT_END
};

struct limits {
	uint64_t most[LIMIT_END]; /* UINT64_MAX: no limit */
	unsigned int lines[LIMIT_END];
};

/*
 * Read a file of limits, which `owner` must own. 0; -WM_E_LIMIT with the file, and the line where
 * there is one, in detail. A missing file is 0, without limits.
 */
int limits_read(struct limits *limits, const char *path, uid_t owner, struct detail detail);

/* For unit tests alone: the file, and its owner. */
extern const char *limits_path;
extern uid_t limits_owner;

/*
 * ledger_claim() as far as the limits allow: what is claimed is written, then what this user holds
 * is counted, so that of several at once none exceeds a limit. Where the others only want theirs,
 * it withdraws, and tries again for some 0.5 s.
 *
 * `credit` is how many of the resource of claims[0] are in the ledger twice during the call, as
 * they are about to be handed over. Returns what ledger_claim() returns, or -WM_E_LIMIT with the
 * figures, the limit, its place in the file and the holders in detail, and nothing written.
 */
int limits_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		 uint64_t credit, struct detail detail);

/*
 * Claim locked memory of our user, before it is locked: `what` is its purpose, as in struct claim.
 * *id is for ledger_confirm(), ledger_change() and ledger_remove(). Returns as limits_claim().
 */
int claim_locked_bytes(struct ledger *ledger, uint64_t bytes, const char *what, uint64_t *id,
		       struct detail detail);

/*
 * Whether the limits allow what is claimed by now; for claims that became larger. 0 or -WM_E_LIMIT
 * with words.
 */
int limits_check(enum claim_resource resource, struct detail detail);

/*
 * Claims on what the kernel reserves for no one, as counters and locked memory: the ledger alone
 * keeps them. So these refuse a claim for which the claims of others leave no room.
 */
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
int claim_units(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		const struct units *units, struct detail detail);

/* Whether a session may have such a buffer for each process. 0 or -WM_E_LIMIT with words. */
int limits_check_buffer(uint64_t bytes, struct detail detail);

#endif
