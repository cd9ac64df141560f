/* SPDX-License-Identifier: MIT */
#include "target/code/testing/folder.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char folder[] = "/tmp/waymark-code-XXXXXX";

void folder_make(const char *commands)
{
	char command[128];

	snprintf(command, sizeof(command),
		 "for it in %s; do command -v $it || exit 1; done >/dev/null", commands);
	if (system(command))
		cr_skip_test("not all of these are here: %s", commands);
	cr_assert_not_null(mkdtemp(folder));
}

void folder_remove(void)
{
	if (access(folder, F_OK) == 0)
		shell("rm -r %s", folder);
}

void shell(const char *format, ...)
{
	char command[1024];
	va_list arguments;
	int used = snprintf(command, sizeof(command), "cd %s && ", folder);

	va_start(arguments, format);
	vsnprintf(command + used, sizeof(command) - (size_t)used, format, arguments);
	va_end(arguments);
	cr_assert_eq(system(command), 0, "%s", command);
}

struct code_file *folder_open(const char *name)
{
	struct code_file *file;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	cr_assert_eq(code_file_open(&file, path), 0, "%s", path);
	return file;
}
