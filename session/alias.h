/* SPDX-License-Identifier: MIT */
/*
 * The names by which a process was started and by which its loader knows the libraries. Its map has the paths of the
 * files, all links followed.
 */
#ifndef SESSION_ALIAS_H
#define SESSION_ALIAS_H

#include "session/loaded.h"

/* Read them into the modules of a list. What cannot be read is left NULL. 0 or -ENOMEM. */
int alias_read(struct loaded_list *list);

#endif
