/* SPDX-License-Identifier: MIT */
/*
 * Find what specs of places in code would record in a file or a process, from outside: no code runs
 * in the process, and nothing in it changes. For the command `list` and waymark/list.h.
 */
#ifndef RECORD_PROBE_LISTING_H
#define RECORD_PROBE_LISTING_H

#include "record/probe/forms.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"

#include <stdint.h>
#include <sys/types.h>

struct code_place;

/* One place, valid during the callback. */
struct listing_place {
	const struct code_place *place;
	const char *module; /* path */
	pid_t pid;	    /* 0: in a file */
	uint64_t base;	    /* of the module; 0: in a file */
	uint64_t address;   /* in the process, or as linked; 0: unknown */
	int error;	    /* why it can't be recorded; 0: it can */
	const char *detail; /* about the error; may be "" */
	/*
	 * the records of its choices, one behind the other, and the forms in which each can be
	 * written
	 */
	const struct control_detour *choices;
	unsigned int choice_count;
	unsigned int forms[DETOUR_CHOICES_MAX];
	unsigned int best_choice; /* that the agent would use */
	enum detour_form best;	  /* 0: none */
};

/* The caller zeroes it, fills in the first part, and releases the names. */
struct listing {
	/* the caller's */
	struct spec_list *specs; /* also gets the results of each */
	void (*place)(const struct listing_place *place, void *data);
	/* a module that can't be read is skipped */
	void (*fault)(const char *module, int error, void *data);
	/* called before each module: whether to stop; NULL: never */
	int (*is_over)(void *data);
	void *data;

	struct name_list names; /* similar to those that specs name and no module has */

	/* the listing's own */
	const char *path;
	pid_t pid;
	uint64_t base;		 /* of the module */
	struct forms_room *room; /* memory map of the process; NULL: a file */
	int is_unstoppable;	 /* neither the process nor we may stop its threads */
	char refusal[256];	 /* why the agent can't enter the process; "": it can */
};

/* The next choice of a place. */
const struct control_detour *listing_choice_next(const struct control_detour *choice);

/* List a file's places. 0; what code_file_open() and plan_make() return. */
int listing_file(struct listing *listing, const char *path);

/*
 * List the places of all modules of a process that the specs take. 0; what loaded_read(),
 * forms_room_read() and plan_make() return; -WM_E_FOREIGN_ARCH.
 */
int listing_process(struct listing *listing, pid_t pid);

#endif
