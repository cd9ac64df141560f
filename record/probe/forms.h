/* SPDX-License-Identifier: MIT */
/*
 * The forms in which a jump can be written (abi/detour.h), judged by the code alone, or also by the
 * memory map of a process. The agent decides again when it arms.
 */
#ifndef RECORD_PROBE_FORMS_H
#define RECORD_PROBE_FORMS_H

#include "abi/detour.h"

#include <sys/types.h>

struct forms_room; /* the memory map of a process */

/* Returns 0, an error of maps_read(), or -ENOMEM. */
int forms_room_read(struct forms_room **room, pid_t pid);
void forms_room_free(struct forms_room *room); /* NULL is allowed */

/*
 * Bit i: the jump can be written in enum detour_form i, in the process of `room`, where the module
 * is loaded at `base`; or with NULL, in some process.
 */
unsigned int forms_of(const struct control_detour *choice, const struct forms_room *room,
		      uint64_t base);

/* The best of a set of forms; FORM_BYTE is the best. 0: the set is empty. */
enum detour_form forms_best(unsigned int forms);

/* "byte", "behind", "first". */
const char *forms_word(enum detour_form form);

#endif
