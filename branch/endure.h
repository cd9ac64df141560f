/* SPDX-License-Identifier: MIT */
/*
 * For a process of Waymark that must not be killed while it traces (stepper.h): the program dies
 * with it. It raises its limits as far as it may, and reports when it has nearly used up the one
 * whose end is SIGKILL: CPU time.
 */
#ifndef BRANCH_ENDURE_H
#define BRANCH_ENDURE_H

/*
 * For this process: soft limits become the hard ones, it is no more a real-time task whose time is limited, and the last of all that
 * lack of memory kills. What is not allowed stays as it was.
 */
void endure(void);

/* Whether it has nearly had the CPU time that it may have. */
int endure_is_spent(void);

#endif
