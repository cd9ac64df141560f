/* SPDX-License-Identifier: MIT */
/* The program of target.h as our child. */
#ifndef BENCH_MECHANISMS_CHILD_H
#define BENCH_MECHANISMS_CHILD_H

#include <limits.h>
#include <sys/types.h>

#include "bench/mechanisms/target.h"
#include <waymark/session.h>

struct child {
	pid_t pid;
	int fd; /* our end of the socket */
	struct target_hello hello;
	char path[PATH_MAX]; /* of the program */
};

/*
 * Start it: by a session, which is then started too, so that what was added to it is armed once
 * this returns; or with NULL just so. 0 or a negative error; child_release() either way.
 */
int child_start(struct child *child, struct wm_session *session);

/* Have it call the leaf `count` times: nanoseconds a call, or negative if it is gone. */
double child_run(struct child *child, enum target_way way, unsigned int layout, uint64_t count);

/* End it. Also for one that didn't start. */
void child_release(struct child *child);

#endif
