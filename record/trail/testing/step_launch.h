/* SPDX-License-Identifier: MIT */
/* A child of the test's own that is stepped through. */
#ifndef RECORD_TRAIL_TESTING_STEP_LAUNCH_H
#define RECORD_TRAIL_TESTING_STEP_LAUNCH_H

#include "record/trail/launch_gate.h"
#include "record/trail/testing/step/step.h"

#include <unistd.h>

/* Start `path` with argv[] and stop it before its first instruction: as step_take(). */
static inline int step_launch(struct step **out, struct trail_sink *to, const char *path,
			      char *const argv[])
{
	int gate, err;
	pid_t pid;

	*out = NULL;
	pid = gate_fork(&gate, gate_become, path, argv, NULL);
	if (pid < 0)
		return pid;
	err = step_take(out, to, pid, gate);
	close(gate);
	return err;
}

#endif
