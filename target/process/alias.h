/* SPDX-License-Identifier: MIT */
/*
 * The names by which a process was started and by which its loader knows the libraries. Its map has
 * the paths of the files, all links followed.
 */
#ifndef TARGET_PROCESS_ALIAS_H
#define TARGET_PROCESS_ALIAS_H

#include "target/process/loaded.h"

/* Read them into the modules of a list. What cannot be read is left NULL. 0 or -ENOMEM. */
int alias_read(struct loaded_list *list);

#endif
