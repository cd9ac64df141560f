/* SPDX-License-Identifier: MIT */
/* Expressions that come while `waymark watch` runs: lines of standard input. */
#ifndef CLI_WATCH_INPUT_H
#define CLI_WATCH_INPUT_H

#include <stddef.h>

#define WATCH_INPUT_MAX 2048

struct watch_input {
	char text[WATCH_INPUT_MAX]; /* what has come of lines that were not taken yet */
	size_t bytes;
	int is_over, is_too_long;
};

/*
 * The next line, without what is blank around it, into line[]: 1; 0: none yet, or no more will
 * come; -E2BIG for one that was longer, which is left out. Empty lines, and such as begin with #,
 * are passed over. Never waits.
 */
int watch_input_line(struct watch_input *input, char line[WATCH_INPUT_MAX]);

/* The event spec of an expression; free() it. NULL: no memory. */
char *watch_input_spec(const char *expr);

#endif
