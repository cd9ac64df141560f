/* SPDX-License-Identifier: MIT */
/*
 * One process's part of the session's probes (record/probe/probes.h): its modules that were
 * handled.
 */
#ifndef RECORD_PROBE_PROBED_H
#define RECORD_PROBE_PROBED_H

#include "target/process/loaded.h"

#include <stddef.h>
#include <stdint.h>

/* The modules of a process that were handled; zeroed is empty. */
struct probed {
	struct probed_module {
		struct loaded_id id;
		uint64_t base;
		uint64_t set;	     /* the set in which its places were sent */
		uint64_t came_ns;    /* as in its MODULE, if it was late; 0: it was not */
		uint64_t places;     /* sent for it */
		int is_done, is_due; /* due: it was noted for other specs */
	} * modules;
	size_t count, room;
	/* late modules whose places are not armed yet */
	struct probed_gap {
		char *path;
		uint64_t base, begin_ns; /* CLOCK_MONOTONIC */
		unsigned int commits;	 /* whose answers are due until they are armed */
	} * gaps;
	size_t gap_count, gap_room;
	uint64_t pending;     /* places sent, neither armed nor refused yet */
	uint64_t answered;    /* of these, those that the agent has prepared or refused */
	unsigned int commits; /* without an answer yet */
	uint64_t set;	      /* the last number sent with COMMIT (abi/control.h) */
	uint64_t since;	      /* the set that replaced all before it; 0: none did */
	int adopts;	      /* it was asked to adopt its parent's places, and has not answered */
	int has_inherited;    /* adopt_declare() has declared its parent's events */
	int is_on;	      /* COMMIT was sent, and no QUIET since */
	int refusal;	      /* why COMMIT armed nothing: no thread could be stopped; 0 */
	int is_followed;      /* the first COMMIT or ADOPT was answered: each MODULE is late */
};

/* The number of the process whose places are in a set; unique in the session. */
#define PROBE_SET_NUMBER(set) ((uint32_t)((set) >> 32))

void probed_release(struct probed *probed);

#endif
