/* SPDX-License-Identifier: MIT */
/* waymark record --tree. */
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include <sys/types.h>
#include <waymark/session.h>

/*
 * Attach to all that descend from a process which the session has taken in. Those that can't be
 * entered are named, and left out. 0, -ENOMEM or -errno.
 */
int tree_take_in(struct wm_session *session, pid_t root);

#endif
