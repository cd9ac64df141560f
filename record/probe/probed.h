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

/*
 * The loader maps a library before it adds it to its list. A spec may match the name in that list.
 * So probed_has() wants another look at a library that was not listed yet.
 */
int probed_has(const struct probed *probed, const struct loaded *loaded);

/*
 * Note a module. `is_done`: its places are sent, or no spec applies to any of its names. Returns
 * it, valid until the next one is noted; NULL: no memory.
 */
struct probed_module *probed_note(struct probed *probed, const struct loaded *loaded, int is_done);

/* The module that is noted at that base, NULL: none; forget it, as it was unloaded. */
struct probed_module *probed_at(const struct probed *probed, uint64_t base);
void probed_forget(struct probed *probed, uint64_t base);

/* Add a gap, which copies the path; remove one. The first returns 0 or -ENOMEM. */
int probed_gap_add(struct probed *probed, const struct probed_gap *gap);
void probed_gap_remove(struct probed *probed, size_t index);

void probed_release(struct probed *probed);

#endif
