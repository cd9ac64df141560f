/* SPDX-License-Identifier: MIT */
/* The scarce resources, and whose they are. */
#ifndef TARGET_CLAIM_RESOURCE_H
#define TARGET_CLAIM_RESOURCE_H

/* The ledger's file stores these numbers: add new ones at the end. */
enum claim_resource {
	CLAIM_DEBUG_REGISTER = 1, /* of a thread, or of a CPU */
	CLAIM_BRANCH_UNIT,	  /* Intel PT, BTS or LBR: of the whole machine */
	CLAIM_LOCKED_MEMORY,	  /* bytes, of a user */
	CLAIM_DESCRIPTORS,	  /* of a process, under RLIMIT_NOFILE */
	CLAIM_SIGTRAP,		  /* who handles a process's SIGTRAP */
	CLAIM_COUNTER,		  /* one for each event counted, of a thread, process or CPU */
	CLAIM_RESOURCE_END
};

/* Whose: the scope of a claim, and what claim.target is. */
enum claim_scope {
	CLAIM_OF_THREAD = 1, /* tid */
	CLAIM_OF_PROCESS,    /* pid: each of its threads, now and later, has that many */
	CLAIM_OF_CPU,	     /* number */
	CLAIM_OF_USER,	     /* uid */
	CLAIM_OF_SYSTEM,     /* 0: whatever runs */
	CLAIM_SCOPE_END
};

/* "debug-register" and so on; "?" for an invalid one. */
const char *claim_resource_name(enum claim_resource resource);

/* "thread", "process", "cpu", "user", "system"; "?" for an invalid one. */
const char *claim_scope_name(enum claim_scope scope);

#endif
