/* SPDX-License-Identifier: MIT */
/* The command's readers as fuzzers run them: each in a child of its own. */
#ifndef FUZZ_COMMANDS_H
#define FUZZ_COMMANDS_H

#include <stdint.h>

#define COMMANDS_CRASHED 99 /* the exit status of a command that a sanitizer ends */

/* What a command reads. */
struct commands_of {
	const char *dir;     /* a trace */
	const char *other;   /* the second one of `diff` */
	const char *program; /* of `list` */
};

/*
 * Run the reading command that `number` gives, its output thrown away. The child calls begin(),
 * unless it is NULL, before that. 0; or 1 where a signal or a sanitizer ended the command, or it
 * took a minute: that is printed.
 */
int commands_run(uint64_t number, const struct commands_of *of, void (*begin)(void));

/* How many different commands there are: numbers below it, the module's files not read. */
extern const uint64_t commands_count;

#endif
