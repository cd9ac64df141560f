/* SPDX-License-Identifier: MIT */
/* A set of names, for "did you mean". */
#ifndef SESSION_NAMES_H
#define SESSION_NAMES_H

#include <stddef.h>

struct name_list {
	char **all;
	size_t count, room;
};

/* Add a copy unless it is there. Past some thousands of names more are left out. 0 or -ENOMEM. */
int name_list_add(struct name_list *list, const char *name);
void name_list_release(struct name_list *list);

#endif
