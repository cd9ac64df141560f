/* SPDX-License-Identifier: MIT */
/*
 * What specs of places in code would record in a file or in a process, judged from outside: nothing
 * runs in the process, and nothing in it changes. What the command lists, and waymark/list.h.
 */
#ifndef SESSION_LISTING_H
#define SESSION_LISTING_H

#include "session/forms.h"
#include "session/names.h"
#include "session/spec.h"

#include <stdint.h>
#include <sys/types.h>

struct code_place;

/* One place. Valid during the callback. */
struct listing_place {
	const struct code_place *place;
	const char *module; /* path */
	pid_t pid;	    /* 0: a file */
	uint64_t base;	    /* of the module; 0: a file */
	uint64_t address;   /* in the process, or as linked; 0: unknown */
	int error;	    /* why it can't be recorded; 0: it can */
	const char *detail; /* of that; may be "" */
	/* the choices of its jump, one behind the other, and in which forms each can be written */
	const struct control_detour *choices;
	unsigned int choice_count;
	unsigned int forms[DETOUR_CHOICES_MAX];
	unsigned int best_choice; /* the one that the agent would take */
	enum detour_form best;	  /* 0: none */
};

/* Zeroed but for the owner's part. Release the names. */
struct listing {
	/* the owner's */
	struct spec_list *specs; /* what comes of each is put down in them */
	void (*place)(const struct listing_place *place, void *data);
	/* A module's places follow; there may be none. */
	void (*module)(const char *module, void *data);
	/* A module that can't be read is left out. */
	void (*fault)(const char *module, int error, void *data);
	/* Whether to end after this module. NULL: never. */
	int (*is_over)(void *data);
	void *data;

	struct name_list names; /* near to those that the specs ask for in vain */

	/* the listing's own */
	const char *path;
	pid_t pid;
	uint64_t base;		 /* of the module */
	struct forms_room *room; /* of the process; NULL: a file */
	int is_unstoppable;	 /* neither the process nor we may stop its threads */
	char shut[256];		 /* why the agent can't come into it; "": it can */
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
