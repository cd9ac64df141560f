/* SPDX-License-Identifier: MIT */
/*
 * Trials: whether a mechanism that depends on the processor, the hypervisor or the kernel works on
 * this machine. Some machines accept a breakpoint that never fires; nothing but a hit shows it.
 *
 * A child process tries a mechanism before its first use. Trials run in groups, a child each, in
 * parallel, TRIAL_LIMIT_MS at most. Results that the machine alone decides are kept in a cache file
 * (result_cache.h), so later commands try nothing. A missing permission or a simulated failure
 * (simulate.h) is never kept.
 *
 * Any thread may call these functions; a signal handler may not. They fork, and leave no child.
 */
#ifndef TARGET_TRIAL_TRIAL_H
#define TARGET_TRIAL_TRIAL_H

#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>

#define TRIAL_LIMIT_MS 2000
#define TRIAL_WORDS_BYTES 96

enum trial {
#define X(id, name, group, kept, lack, area, needs, works, fails, instead) TRIAL_##id,
#include "target/trial/trial.def"
#undef X
	TRIAL_COUNT,
};

enum trial_state {
	TRIAL_UNKNOWN, /* it could not be tried: `error` says why */
	TRIAL_FAILS,
	TRIAL_WORKS,
};

struct trial_answer {
	uint8_t state; /* enum trial_state */
	/*
	 * TRIAL_UNKNOWN: -errno; -ETIMEDOUT: no answer; -ECANCELED: killed. TRIAL_FAILS: -errno of
	 * a refused call, else 0
	 */
	int32_t error;
	char words[TRIAL_WORDS_BYTES]; /* what was seen, as "4 bytes: 0 of 1 hits"; may be "" */
};

/* What the table says of a trial. Static. */
struct trial_row {
	const char *name, *area, *works, *fails, *instead;
	enum trial needs;
	uint8_t is_kept;
	uint8_t is_limit; /* Waymark works around a failure */
	uint8_t is_basic; /* Waymark is of little use without it */
};

const struct trial_row *trial_row(enum trial trial);

/* The trial of that name; -ENOENT. */
int trial_find(const char *name);

/* What a trial says: from the cache, or tried now. */
void trial_ask(enum trial trial, struct trial_answer *answer);

/* The same, tried now in any case: the machine may have changed since, as by a live migration. */
void trial_ask_again(enum trial trial, struct trial_answer *answer);

/*
 * All of them, side by side. Returns how many microseconds trying took, 0 when all came from the
 * cache.
 */
uint64_t trial_ask_all(struct trial_answer answers[TRIAL_COUNT]);

/*
 * 0 unless the trial fails; then `error`, and the detail is "NAME: WORDS", or "NAME, simulated:
 * WORDS". A trial that could not be tried is no failure: the use itself says what is in its way.
 */
int trial_need(enum trial trial, int error, struct detail detail);

/*
 * Why a mechanism is not to be had, for people: "breakpoint-write: the machine accepts ... (4
 * bytes: 0 of 1 hits)".
 */
void trial_reason(enum trial trial, const struct trial_answer *answer, char *text, size_t bytes);

#endif
