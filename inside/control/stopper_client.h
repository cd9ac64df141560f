/* SPDX-License-Identifier: MIT */
/*
 * The agent's end of a stopper (abi/stopper.h): a process of a tool's that stops the threads and
 * stores jumps, where the kernel does not let our janitor do so. Control thread only.
 */
#ifndef INSIDE_CONTROL_STOPPER_CLIENT_H
#define INSIDE_CONTROL_STOPPER_CLIENT_H

#include "inside/patch/text.h"

/*
 * From here on janitor_run() turns to a stopper where the kernel refuses it the stop; this asks the
 * tools of all sessions for one if needed. Guards stay undone. -WM_E_NO_PTRACE: no tool gives one.
 * -EAGAIN: the stopper was killed, or no tool answered in time.
 */
void stopper_begin(void);

/*
 * Now and then: ask for a stopper while a tool is there, if jumps are armed that only a stopper
 * can take away. The tool may be killed before they are.
 */
void stopper_tick(void);

/* Let the stopper end. */
void stopper_release(void);

/* The child of a fork has none. */
void stopper_forked(void);

#endif
