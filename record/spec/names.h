/* SPDX-License-Identifier: MIT */
/* A set of names, for "did you mean" hints. */
#ifndef RECORD_SPEC_NAMES_H
#define RECORD_SPEC_NAMES_H

#include "base/slots.h"

#include <stddef.h>

#define NAMES_MAX 4096

struct name_list {
	char **all;
	size_t count, room;
	struct slots slots; /* of all */
};

/* Add a copy of the name, unless it is there. Ignores more than NAMES_MAX. 0 or -ENOMEM. */
int name_list_add(struct name_list *list, const char *name);
void name_list_release(struct name_list *list);

#endif
