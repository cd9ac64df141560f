/* SPDX-License-Identifier: MIT */
/* The command's readers as fuzzers run them: each in a child of its own. */
#ifndef FUZZ_COMMANDS_H
#define FUZZ_COMMANDS_H

#include <stdint.h>

/*
 * Run the reading command that `number` gives on the trace in `dir`, its output thrown away;
 * `other` is the second trace of `diff`. 0; or 1 where a signal or a sanitizer ended the command,
 * or it took a minute: that is printed.
 */
int commands_run(uint64_t number, const char *dir, const char *other);

#endif
