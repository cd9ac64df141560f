/* SPDX-License-Identifier: MIT */
/* Is the code of a process what its files say? */
#ifndef TESTS_TORTURE_PROBES_TEXT_H
#define TESTS_TORTURE_PROBES_TEXT_H

#include <sys/types.h>

/*
 * Compare all that is mapped from files and may be executed, the agent left out. Returns how many
 * modules differ, with words on stderr where `say` is set; or negative where it can't be read. The
 * process must be quiet: it may load and unload nothing meanwhile.
 */
int text_differs(pid_t pid, int say);

#endif
