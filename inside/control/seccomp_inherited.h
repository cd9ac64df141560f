/* SPDX-License-Identifier: MIT */
/* Seccomp filters that were there before the program was executed. */
#ifndef INSIDE_CONTROL_SECCOMP_INHERITED_H
#define INSIDE_CONTROL_SECCOMP_INHERITED_H

/*
 * Whether this thread runs under more filters than `reported`, the tool's own number of filters in
 * decimal. NULL: the tool reported none, and the result is 0. Makes only system calls that the
 * dynamic loader has just made, since any other may be fatal. A program's first thread.
 */
int seccomp_inherited_is_more(const char *reported);

#endif
