/* SPDX-License-Identifier: MIT */
/* The system calls that the agent begins with, made by a borrowed thread (injector_try()). */
#ifndef TARGET_PROCESS_INJECT_CALLS_H
#define TARGET_PROCESS_INJECT_CALLS_H

#include "target/process/scratch.h"
#include "target/process/target.h"

/*
 * With the scratch mapped and filled. 0; 1: it cannot read its own /proc; -WM_E_INJECT,
 * -WM_E_SOCKET_DIR, -WM_E_NO_DESCRIPTORS, with words; or what the loan failed with. What they made
 * is gone again.
 */
int inject_calls(const struct scratch *scratch, struct remote_thread *remote, struct detail detail);

#endif
