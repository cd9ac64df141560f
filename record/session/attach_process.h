/* SPDX-License-Identifier: MIT */
/* Where a running process finds its agent's file, and the folder of its sockets. */
#ifndef RECORD_SESSION_ATTACH_PROCESS_H
#define RECORD_SESSION_ATTACH_PROCESS_H

#include "base/socketdir.h"
#include "target/process/target.h"

#include <limits.h>

/*
 * The file that is `named`, NULL: Waymark's own, and the folder, as the process names them. The
 * folder is made where it is not there; so is, for a process in another mount namespace that has
 * no such file, a copy of the file in it. 0, or an error with words about it.
 */
int attach_place(const struct target *target, const char *named, char agent[PATH_MAX],
		 char dir[SOCKETDIR_BYTES], struct detail detail);

#endif
