/* SPDX-License-Identifier: MIT */
/*
 * A recorder that is killed leaves a trace whose last packet may be torn, which not every reader
 * takes. So a small process of its own session watches the recorder, and when that vanishes without
 * a word, cuts the torn packets off.
 */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <sys/types.h>

struct guardian {
	pid_t pid; /* 0: none */
	int fd;
};

/* Start it for the trace folder `dir`. Failing is no reason not to record. */
void guardian_start(struct guardian *guardian, const char *dir);

/* The trace was closed in order: dismiss the guardian. Safe without one. */
void guardian_release(struct guardian *guardian);

#endif
