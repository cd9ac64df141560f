/* SPDX-License-Identifier: MIT */
/* A folder in which a test has commands make modules. */
#ifndef TARGET_CODE_TESTING_FOLDER_H
#define TARGET_CODE_TESTING_FOLDER_H

#include "target/code/file.h"

extern char folder[];

/*
 * Make it; or, where one of these commands is not here, skip the test. Removed with all that is in
 * it, if it was made.
 */
void folder_make(const char *commands);
void folder_remove(void);

/* Run a command of the shell in it, which must come out well. */
void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Open a module in it. The caller closes it. */
struct code_file *folder_open(const char *name);

#endif
