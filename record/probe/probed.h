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
		uint64_t set; /* the set in which its places were sent */
		int is_done;
	} * modules;
	size_t count, room;
	/* reported by MODULE, without an answer to SEEN; a thread may wait for it */
	struct probed_loading {
		uint64_t base;
		int is_wanted; /* a spec wants places there */
	} * loading;
	size_t loading_count, loading_room;
	uint64_t pending;     /* places sent, neither armed nor refused yet */
	uint64_t answered;    /* of these, those that the agent has prepared or refused */
	unsigned int commits; /* without an answer yet */
	uint64_t planning;    /* base of the module that is being planned; 0: none */
	uint64_t steps;	      /* counts progress: places planned, requests answered */
	uint64_t set;	      /* the last number sent with COMMIT (abi/control.h) */
	uint64_t since;	      /* the set that replaced all before it; 0: none did */
	int adopts;	      /* it was asked to adopt its parent's places, and has not answered */
	int has_inherited;    /* adopt_declare() has declared its parent's events */
	int is_on;	      /* COMMIT was sent, and no QUIET since */
	int refusal;	      /* why COMMIT armed nothing: no thread could be stopped; 0 */
	int is_followed;      /* the first COMMIT was answered */
};

/* The number of the process whose places are in a set; unique in the session. */
#define PROBE_SET_NUMBER(set) ((uint32_t)((set) >> 32))

/*
 * The loader maps a library before it adds it to its list. A spec may match the name in that list.
 * So probed_has() wants another look at a library that was not listed yet.
 */
int probed_has(const struct probed *probed, const struct loaded *loaded);

/*
 * Note a module. `is_done`: its places are sent, or no spec applies to any of its names. 0 or
 * -ENOMEM.
 */
int probed_note(struct probed *probed, const struct loaded *loaded, int is_done);

/* Whether a module is noted at that base; forget it, as it was unloaded. */
int probed_has_base(const struct probed *probed, uint64_t base);
void probed_forget(struct probed *probed, uint64_t base);

/*
 * A module was reported by MODULE; the one reported first was answered by SEEN. The first returns 0
 * or -ENOMEM.
 */
int probed_loading_begin(struct probed *probed, uint64_t base, int is_wanted);
void probed_loading_end(struct probed *probed);

void probed_release(struct probed *probed);

#endif
