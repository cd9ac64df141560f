/* SPDX-License-Identifier: MIT */
/* The scarce resources, and how much of each there is. */
#ifndef CLAIM_RESOURCE_H
#define CLAIM_RESOURCE_H

#include <stdint.h>
#include <sys/types.h>

/* The ledger's file stores these numbers: add new ones at the end. */
enum claim_resource {
	CLAIM_DEBUG_REGISTER = 1, /* of a thread, or of a CPU */
	CLAIM_COUNTER,		  /* of a CPU's performance unit; of a thread wherever it runs */
	CLAIM_BRANCH_UNIT,	  /* Intel PT, BTS or LBR: of the whole machine, see claim_unit */
	CLAIM_LOCKED_MEMORY,	  /* bytes, of a user */
	CLAIM_DESCRIPTORS,	  /* of a process, under RLIMIT_NOFILE */
	CLAIM_SIGTRAP,		  /* who handles a process's SIGTRAP */
	CLAIM_RESOURCE_END
};

/*
 * Which branch unit: claim.flags of CLAIM_BRANCH_UNIT. The kernel lets events of one kind be at a
 * time, on the whole machine; of PT beside the others on newer processors (arch/x86/events/core.c,
 * x86_add_exclusive).
 */
enum claim_unit { CLAIM_UNIT_PT = 1, CLAIM_UNIT_BTS, CLAIM_UNIT_LBR };

/* Whose: the scope of a claim, and what claim.target is. */
enum claim_scope {
	CLAIM_OF_THREAD = 1, /* tid */
	CLAIM_OF_PROCESS,    /* pid: each of its threads, now and later, has that many */
	CLAIM_OF_CPU,	     /* number */
	CLAIM_OF_USER,	     /* uid */
	CLAIM_OF_MACHINE,    /* 0 */
	CLAIM_SCOPE_END
};

/* "debug register", "counter" and so on; "?" for an invalid one. In JSON: "debug-register". */
const char *claim_resource_words(enum claim_resource resource);
const char *claim_resource_name(enum claim_resource resource);

/* "thread", "process", "cpu", "user", "machine"; "?" for an invalid one. */
const char *claim_scope_name(enum claim_scope scope);

/*
 * How many there are for one thread, CPU, user, process or machine: what the kernel lends at most,
 * less what it keeps itself (the NMI watchdog's counter). UINT64_MAX: no limit. -ENODEV where this
 * machine has none, -ENOTSUP where the number is unknown; else 0 and *count. `pid` is whose limit
 * is meant, for descriptors and locked memory; 0: ours.
 */
int claim_resource_count(enum claim_resource resource, pid_t pid, uint64_t *count);

/*
 * How many counters of each CPU the kernel's NMI watchdog has, where there are counters at all: 0
 * or 1.
 */
unsigned int claim_watchdog_counters(void);

#endif
