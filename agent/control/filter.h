/* SPDX-License-Identifier: MIT */
/* Seccomp filters that were there before the program was executed. */
#ifndef AGENT_CONTROL_FILTER_H
#define AGENT_CONTROL_FILTER_H

/*
 * Whether this thread is under more filters than `told` has it, a number in decimal, of the tool; NULL: it
 * didn't say, and nothing is looked at. Asks by what the dynamic loader has just done itself, since any other
 * system call may be the last. A program's first thread.
 */
int filter_is_added(const char *told);

#endif
