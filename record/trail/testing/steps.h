/* SPDX-License-Identifier: MIT */
/* Trails of programs that are stepped through, in traces, for tests. Failures abort. */
#ifndef RECORD_TRAIL_TESTING_STEPS_H
#define RECORD_TRAIL_TESTING_STEPS_H

/*
 * Step through a program to its end, into a new folder: its name in folder[64]. The program's
 * status as wait(2) has it.
 */
int sample_steps(char folder[64], char *const argv[]);

#endif
