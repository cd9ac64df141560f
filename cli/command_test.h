/* SPDX-License-Identifier: MIT */
/* Commands that the tests run, and what these print. */
#ifndef CLI_COMMAND_TEST_H
#define CLI_COMMAND_TEST_H

extern char printed[1 << 18]; /* by the last one, on stdout and stderr */

/* Run a command of the shell. Its exit status. */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Run waymark, in UTC; each %s of its arguments, two at most, becomes this trace. `before`: a shell
 * command to run first ("cd /;"), or "". Returns its exit status.
 */
int run_on(const char *trace, const char *before, const char *arguments);

/* It printed that; or did not. */
void expect(const char *text);
void expect_not(const char *text);

#endif
