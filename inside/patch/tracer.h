/* SPDX-License-Identifier: MIT */
/* Whether a debugger has hold of the program. Any thread. */
#ifndef INSIDE_PATCH_TRACER_H
#define INSIDE_PATCH_TRACER_H

/*
 * Whether somebody traces the calling thread by ptrace(2); also true where that can't be found out.
 * Debuggers take all threads there are and all that come. A tool in strict mode takes all but ours.
 */
int tracer_is_there(void);

#endif
