/* SPDX-License-Identifier: MIT */
/*
 * What is placed in one file's code for the requests of a session: found, judged and composed once,
 * however many processes run the file. Addresses are as linked until a plan is written out for a process.
 */
#ifndef SESSION_PLAN_H
#define SESSION_PLAN_H

#include "abi/detour.h"
#include "code/resolve.h"
#include "session/enumerated.h"
#include "session/names.h"
#include "session/spec.h"

#include <stddef.h>
#include <stdint.h>

struct plan_refusal {
	uint64_t address; /* 0: unknown */
	char *name;	  /* SUBSYSTEM:EVENT */
	char *detail;	  /* may be "" */
	int error;
};

struct plan_place {
	struct control_detour *detour; /* its records, a choice each, for base 0 */
	size_t bytes;		       /* of all */
	unsigned int choice_count;
	uint64_t point;
};

struct plan {
	struct plan *next;
	uint64_t device, inode;
	int fd; /* as long as it is open the inode is nobody else's */
	char *path;
	char *name; /* that its events have */
	struct code_aliases aliases;
	struct plan_place *places;
	size_t place_count, place_room;
	uint64_t last; /* of their addresses */
	struct enumerated_list enumerated;
	size_t guard_count; /* of the places, guards of libc, which are no events */
	struct plan_refusal *refused;
	size_t refused_count, refused_room;
};

/*
 * Called with each place, also with a refused one. `detour` has the records of its choices, one behind the other;
 * NULL: the place is refused.
 */
struct plan_listener {
	void (*place)(const struct code_place *place, int err, const char *detail,
		      const struct control_detour *detour, unsigned int choice_count, void *data);
	void *data;
};

/*
 * Make the plan of a module for all requests of the list that take its path; what comes of each is put
 * down in the specs. `process` may be NULL: a file that doesn't run. `listener` may be NULL.
 *
 * Specs without a glob come before those with one. Where an earlier one has an event of the same name at a
 * place, a later one has that with it if it tells all that its own would, or if the later is a glob; else
 * the place bears both.
 *
 * Returns 0, also when there is nothing to place; -ENOMEM; what the file's pulse said. Free it also after an error.
 */
int plan_make(struct plan **plan, struct spec_list *specs, struct code_module *module,
	      const struct code_process *process, const struct plan_listener *listener);
void plan_free(struct plan *plan); /* NULL is allowed */

/* Add names that a module has to the list, near to those that its requests ask for in vain. 0, -ENOMEM. */
int plan_names(struct name_list *names, const struct spec_list *specs, struct code_module *module);

/*
 * Whether some request takes a module of this path and these aliases (NULL: none), or the path is libc's and a watch
 * wants it guarded (abi/detour.h).
 */
int plan_concerns(const struct spec_list *specs, const char *path,
		  const struct code_aliases *aliases);

/*
 * Whether a plan of a file serves a process that has these other names for it: events have the same name, and the same
 * specs take the file. So an argv[0] that a program changes needs no plan of its own.
 */
int plan_fits(const struct plan *plan, const struct spec_list *specs, const char *name,
	      const struct code_aliases *aliases);

/*
 * Write detours from number *from on as CONTROL_PLACE wants them, for a module at `base`, until the room
 * is full; *from moves on. Returns the bytes written; 0 when there are no more.
 */
size_t plan_write(const struct plan *plan, size_t *from, uint64_t base, unsigned char *buffer,
		  size_t room);

#endif
