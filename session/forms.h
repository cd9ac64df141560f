/* SPDX-License-Identifier: MIT */
/*
 * In which forms a jump can be written (abi/detour.h): by the code alone, or by what is mapped in a process now. The
 * agent decides again when it arms.
 */
#ifndef SESSION_FORMS_H
#define SESSION_FORMS_H

#include "abi/detour.h"

#include <sys/types.h>

struct forms_room; /* what is mapped in a process */

/* 0; what maps_read() returns; -ENOMEM. */
int forms_room_read(struct forms_room **room, pid_t pid);
void forms_room_free(struct forms_room *room); /* NULL is allowed */

/*
 * Bit i: the choice can be written in enum detour_form i. With a room: in that process, where the module is loaded
 * at `base`. With NULL: in some process.
 */
unsigned int forms_of(const struct control_detour *choice, const struct forms_room *room,
		      uint64_t base);

/* The form that is best of some, FORM_BYTE first; 0: none. */
enum detour_form forms_best(unsigned int forms);

/* "byte", "behind", "first". */
const char *forms_word(enum detour_form form);

#endif
