/* SPDX-License-Identifier: MIT */
/*
 * Passes our descriptors to a process on loan, whatever it can see of the file system or the
 * network.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_PASS_H
#define RECORD_TRAIL_SOFT_SOFT_PASS_H

#include "record/trail/soft/soft_remote.h"

#define SOFT_PASSED 3

/*
 * fds[] become got[] there; on execve(2) they would be closed. 0; -errno, also of what the process
 * may not do; -ESRCH: it has ended.
 */
int soft_pass(struct soft_remote *remote, const int fds[SOFT_PASSED], int got[SOFT_PASSED]);

#endif
