/* SPDX-License-Identifier: MIT */
/*
 * The places in one file's code for the requests of a session: found, judged and composed once, for
 * all processes that run the file. Addresses are as linked until plan_write() adds a process's
 * base.
 */
#ifndef RECORD_PROBE_PROBE_PLAN_H
#define RECORD_PROBE_PROBE_PLAN_H

#include "abi/detour.h"
#include "record/marker/enumerated.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "target/code/resolve.h"
#include "target/process/loaded.h"

#include <stddef.h>
#include <stdint.h>

struct plan_refusal {
	uint64_t address; /* as linked; 0: unknown */
	char *name;	  /* SUBSYSTEM:EVENT */
	char *detail;	  /* may be "" */
	int error;
};

struct plan_place {
	struct control_detour *detour; /* its records, one for each choice, for base 0 */
	size_t bytes;		       /* of all records */
	unsigned int choice_count;
	uint64_t point;
};

struct plan {
	struct plan *next;
	struct loaded_id id; /* of a module that it was made for */
	int fd;		     /* while it is open, no other file gets the inode */
	struct code_version version;
	char *path;
	char *name; /* of the module in its events */
	struct code_aliases aliases;
	struct plan_place *places;
	size_t place_count, place_room;
	uint64_t last; /* the highest of their addresses */
	struct enumerated_list enumerated;
	size_t guard_count; /* of the places, guards in libc, which make no events */
	struct plan_refusal *refused;
	size_t refused_count, refused_room;
};

/*
 * Called with each place, also with refused ones. `detour` has the records of its choices, one
 * behind the other; NULL: it is refused.
 */
struct plan_listener {
	void (*place)(const struct code_place *place, int err, const char *detail,
		      const struct control_detour *detour, unsigned int choice_count, void *data);
	void *data;
};

/*
 * Make a module's plan for all requests of the list that apply to it. Stores the results of each in
 * its spec. `process` may be NULL, for a file that does not run. `listener` may be NULL.
 *
 * Specs without a glob come before those with one. If an earlier spec has an event of the same name
 * at a place, a later spec shares that event, if the event has all fields that the later spec
 * wants, or the later spec has a glob. Else the place gets both events.
 *
 * Returns 0, also if there are no places; -ENOMEM; or what the file's pulse returned. Free the plan
 * also after an error.
 */
int plan_make(struct plan **plan, struct spec_list *specs, struct code_module *module,
	      const struct code_process *process, const struct plan_listener *listener);
void plan_free(struct plan *plan); /* NULL is allowed */

/*
 * Add names of the module that are similar to those its requests found nothing for. 0 or -ENOMEM.
 */
int plan_names(struct name_list *names, const struct spec_list *specs, struct code_module *module);

/*
 * Whether a request applies to a module with this path and these aliases (NULL: none), or the
 * module is libc and a watch needs its guards (abi/detour.h).
 */
int plan_concerns(const struct spec_list *specs, const char *path,
		  const struct code_aliases *aliases);

/*
 * Whether a file's plan also serves a process that has other names for the file: the events have
 * the same module name, and the same specs apply. So a process that changed its argv[0] needs no
 * new plan.
 */
int plan_fits(const struct plan *plan, const struct spec_list *specs, const char *name,
	      const struct code_aliases *aliases);

/*
 * Write the records of places from number *from on, for a module at `base` that came at `came_ns`,
 * in the format of CONTROL_PLACE, as far as there is room. Advances *from. Returns the bytes
 * written; 0: no more places.
 */
size_t plan_write(const struct plan *plan, size_t *from, uint64_t base, uint64_t came_ns,
		  unsigned char *buffer, size_t room);

#endif
