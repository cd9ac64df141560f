/* SPDX-License-Identifier: MIT */
/*
 * For a process of Waymark that must not be killed while it traces (tracer.h): the trail ends with
 * it. It raises its limits as far as it may, and reports when it has nearly used up the one whose
 * end is SIGKILL: CPU time.
 */
#ifndef RECORD_TRAIL_ENDURE_H
#define RECORD_TRAIL_ENDURE_H

/*
 * For this process: raise soft limits to the hard ones, leave real-time scheduling, whose time is
 * limited, and be the last that the kernel kills when memory runs out. Changes that are not
 * permitted are left out.
 */
void endure(void);

/* Whether it has nearly had the CPU time that it may have. */
int endure_is_spent(void);

#endif
