/* SPDX-License-Identifier: MIT */
/*
 * Finds who may hold what the kernel just refused: the sessions of Waymark that have it, from the
 * ledger, with their purpose; the process that traces the thread; and other processes that have
 * perf events. Those can be named but not described, as the kernel reveals only that an event
 * exists.
 */
#ifndef TARGET_CLAIM_HOLDER_H
#define TARGET_CLAIM_HOLDER_H

#include "target/claim/ledger.h"

/*
 * The refused request. Our own process's claims that are only wanted are left out: they belong to
 * this request, which must be written first (ledger.h).
 */
struct claim_wanted {
	enum claim_resource resource;
	pid_t tid; /* 0: a CPU's, or the machine's */
	int cpu;   /* -1: any */
};

/* A process that has perf events open. */
struct claim_perf {
	pid_t pid;
	unsigned int descriptors;
	char comm[16];
};

struct claim_holders {
	struct claim_list ours; /* those rows that weigh */
	pid_t tracer_pid;	/* 0: none */
	char tracer_comm[16];
	struct claim_perf *perf; /* but owners in `ours`, and ourselves */
	size_t perf_count, perf_room;
	size_t unreadable; /* processes whose descriptors we may not see */
	/*
	 * Debug registers of a thread that neither a row of the ledger nor a tracer accounts for. A
	 * register that a debugger set by ptrace(2) stays the thread's when the debugger has left
	 * (seen on Linux 6.18): it is switched off, and taken until the thread ends or executes.
	 */
	uint64_t left;
};

/*
 * Find them. The processes are searched in any case: the ledger may know some holders and not
 * others. 0 or -ENOMEM; what can't be read is left out. Takes a system call for each descriptor of
 * each process: it is for who has been refused.
 */
int claim_holders_find(struct claim_holders *holders, const struct claim_wanted *wanted);

/*
 * In words, one clause each, in text[bytes], whole or cut at the end: "waymark 812 holds 2
 * (watch:counter, watch:total), gdb 17 traces it, perf 99 has 4 perf events open; 12 processes of
 * others can't be looked into". "" if no holder was found. Returns the length that it would have
 * whole.
 */
size_t claim_holders_words(const struct claim_holders *holders, char *text, size_t bytes);

/* Both, in one. */
size_t claim_holder_text(const struct claim_wanted *wanted, char *text, size_t bytes);

/* The same for debug registers of a thread; `taken` is how many were found taken. */
size_t claim_holder_text_of(const struct claim_wanted *wanted, uint64_t taken, char *text,
			    size_t bytes);

void claim_holders_release(struct claim_holders *holders);

#endif
