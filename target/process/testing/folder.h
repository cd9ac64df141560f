/* SPDX-License-Identifier: MIT */
/*
 * For tests: a folder of the test's own. It is XDG_RUNTIME_DIR too, so that the test meets neither
 * agents nor claims of others.
 */
#ifndef TARGET_PROCESS_TESTING_FOLDER_H
#define TARGET_PROCESS_TESTING_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static inline void folder_make(void)
{
	strcpy(folder, "/tmp/waymark-test-XXXXXX");
	cr_assert(mkdtemp(folder));
	setenv("XDG_RUNTIME_DIR", folder, 1);
}

/* Remove it with all that is in it. */
static inline void folder_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "/bin/rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

#endif
