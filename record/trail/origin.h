/* SPDX-License-Identifier: MIT */
/*
 * Which origins of a trail this machine and its permissions give, and why not the others. `auto`
 * takes the best of them.
 *
 * Told from sysfs, procfs, and by opening each event for a moment. Any thread.
 */
#ifndef RECORD_TRAIL_ORIGIN_H
#define RECORD_TRAIL_ORIGIN_H

#include "abi/trail.h"
#include "record/trail/hardware/perf.h"

/* The best first. */
enum origin {
	ORIGIN_PT,   /* Intel Processor Trace */
	ORIGIN_BTS,  /* Branch Trace Store, by the kernel's intel_bts */
	ORIGIN_SOFT, /* a translator inside of the process */
	ORIGINS,
	ORIGIN_ORACLE = ORIGINS, /* single steps, in programs that have tracing_oracle: tests */
};

struct origin_state {
	int error;	  /* 0: it can be had; else why not */
	char detail[200]; /* what is to be said beside the error's text; "": nothing */
};

/* The machine to look at. Zeroed: this machine. */
struct origin_machine {
	const char *root;	       /* before /sys and /proc; NULL: none */
	const struct perf_calls *perf; /* NULL: the kernel's */
	uint64_t held_bytes; /* of Intel PT, of a thread, before they are decoded; 0: many */
	const char *engine;  /* the engine's file, for `soft`; NULL: the one that is found */
};

/* Look, and fill in all. */
void origins_look(struct origin_state states[ORIGINS], const struct origin_machine *machine);

/*
 * Of those that can be had, leave what records the kernel's branches too, and may; the others have
 * an error then.
 */
void origins_need_kernel(struct origin_state states[ORIGINS], const struct origin_machine *machine);

/* The best of them; -1: none. */
int origin_best(const struct origin_state states[ORIGINS]);

/* What a user calls it: "pt", "bts", "soft". Static. */
const char *origin_name(enum origin origin);

/* The origin's number in a trace. */
enum trail_origin origin_kind(enum origin origin);

/*
 * Fill in what perf_event_open(2) is asked for: of user code alone, disabled, nothing inherited. 0,
 * or a negative error where the machine has no such event; detail[bytes] then says more, or is "".
 */
int origin_attr(struct perf_event_attr *attr, enum origin origin,
		const struct origin_machine *machine, char *detail, size_t bytes);

#endif
