/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include "base/near.h"

#include <stdarg.h>
#include <stdio.h>
#include <waymark/error.h>

#define NEAR_MAX 3

static void print_hint(int error)
{
	const char *hint = wm_error_hint(error);

	if (*hint)
		fprintf(stderr, "  %s\n", hint);
}

int complain(int error, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "waymark: %s", wm_error_text(error));
	if (format && *format) {
		fputs(": ", stderr);
		va_start(args, format);
		vfprintf(stderr, format, args);
		va_end(args);
	}
	fputc('\n', stderr);
	print_hint(error);
	return CLI_FAILED;
}

void complain_meant(const char *word, const char *const *all, size_t count)
{
	const char *meant[NEAR_MAX];
	int found = near_list(word, all, count, meant, NEAR_MAX);

	for (int i = 0; i < found; i++) {
		const char *joint = i == 0 ? "  did you mean " : i == found - 1 ? " or " : ", ";

		fprintf(stderr, "%s%s", joint, meant[i]);
	}
	if (found)
		fputs("?\n", stderr);
}

int complain_near(int error, const char *name, const char *const *all, size_t count)
{
	fprintf(stderr, "waymark: %s: %s\n", wm_error_text(error), name);
	complain_meant(name, all, count);
	print_hint(error);
	return CLI_FAILED;
}

int complain_usage(const char *command, const char *format, ...)
{
	va_list args;

	fputs("waymark", stderr);
	fprintf(stderr, command ? " %s: " : "%s: ", command ? command : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (command)
		fprintf(stderr, "\n  see waymark %s --help\n", command);
	else
		fputs("\n  see waymark help\n", stderr);
	return CLI_USAGE;
}
