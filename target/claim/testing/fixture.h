/* SPDX-License-Identifier: MIT */
/* A folder of a test's own for the ledger, and owners in processes of their own. */
#ifndef TARGET_CLAIM_TESTING_FIXTURE_H
#define TARGET_CLAIM_TESTING_FIXTURE_H

#include "target/claim/ledger.h"

#define BED_NOBODY 65534

extern char fixture_runtime[64], fixture_folder[96], fixture_file[128];

/* Begin: nothing is there but the runtime folder. */
void fixture_setup(void);
void fixture_teardown(void);

/* How many files the ledger has; fixture_file names one of them. */
size_t fixture_files(void);

/* The test can't run here. Criterion calls no .fini then. */
#define fixture_skip(why)                                                                          \
	do {                                                                                       \
		fixture_teardown();                                                                \
		cr_skip_test(why);                                                                 \
	} while (0)

/* A claim on debug registers of that process, by this address. */
struct claim fixture_claim(pid_t pid, uint64_t count, uint64_t address, const char *what);

/*
 * The rows that an owner wrote, read again; 0: all in the fixture's file. The caller releases them.
 */
struct claim_list fixture_rows_of(pid_t owner);

/* How many those are. */
size_t fixture_count_of(pid_t owner);

/*
 * A child that runs act(ledger), reports it, and waits to be killed. Returns its pid. It ends with
 * status 1 if ledger_trouble() reports trouble.
 */
pid_t fixture_owner(void (*act)(struct ledger *ledger));

/* Kill it and wait for its end. */
void fixture_kill(pid_t pid);

#endif
