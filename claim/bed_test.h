/* SPDX-License-Identifier: MIT */
/* A folder of a test's own for the ledger, and owners in processes of their own. */
#ifndef CLAIM_BED_TEST_H
#define CLAIM_BED_TEST_H

#include "claim/ledger.h"

#define BED_NOBODY 65534

extern char bed_runtime[64], bed_folder[96], bed_file[128];

/* Begin: nothing is there but the runtime folder. */
void bed_setup(void);
void bed_teardown(void);

/* The test can't run here. Criterion calls no .fini then. */
#define bed_skip(why)                                                                              \
	do {                                                                                       \
		bed_teardown();                                                                    \
		cr_skip_test(why);                                                                 \
	} while (0)

/* A claim on debug registers of that process, by this cookie. */
struct claim bed_claim(pid_t pid, uint64_t count, uint64_t cookie, const char *what);

/* The rows that an owner wrote, read again; 0: all in the bed's file. The caller releases them. */
struct claim_list bed_rows_of(pid_t owner);

/* How many those are. */
size_t bed_count_of(pid_t owner);

/*
 * A child that runs act(ledger), reports it, and waits to be killed. Returns its pid. It ends with
 * status 1 if ledger_trouble() reports trouble.
 */
pid_t bed_owner(void (*act)(struct ledger *ledger));

/* Kill it and wait for its end. */
void bed_kill(pid_t pid);

#endif
