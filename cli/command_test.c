/* SPDX-License-Identifier: MIT */
#include "cli/command_test.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

char printed[1 << 18];

int shell(const char *format, ...)
{
	char words[1024], command[1100];
	va_list arguments;
	size_t count;
	FILE *pipe;

	va_start(arguments, format);
	cr_assert_lt(vsnprintf(words, sizeof(words), format, arguments), (int)sizeof(words));
	va_end(arguments);
	snprintf(command, sizeof(command), "{ %s; } 2>&1", words);
	pipe = popen(command, "re");
	cr_assert_not_null(pipe);
	count = fread(printed, 1, sizeof(printed) - 1, pipe);
	printed[count] = '\0';
	return WEXITSTATUS(pclose(pipe));
}

int run_on(const char *trace, const char *before, const char *arguments)
{
	char filled[512];

	cr_assert_lt(snprintf(filled, sizeof(filled), arguments, trace, trace),
		     (int)sizeof(filled));
	return shell("%s TZ=UTC timeout 20 %s %s", before, WAYMARK_COMMAND, filled);
}

void expect(const char *text)
{
	cr_assert_not_null(strstr(printed, text), "no \"%s\" in:\n%s", text, printed);
}

void expect_not(const char *text)
{
	cr_assert_null(strstr(printed, text), "\"%s\" in:\n%s", text, printed);
}
