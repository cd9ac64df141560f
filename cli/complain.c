/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include "base/out.h"
#include "base/similar_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

static void print_hint(int error)
{
	const char *hint = wm_error_hint(error);

	if (*hint)
		fprintf(stderr, "  %s\n", hint);
}

static void put(FILE *to, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		int is_unfit;
		size_t bytes = out_character(text, left, &is_unfit);

		left -= bytes;
		for (; bytes; bytes--)
			fprintf(to, is_unfit ? "\\x%02x" : "%c", (unsigned char)*text++);
	}
}

static void put_words(FILE *to, const char *format, va_list args)
{
	char *text = NULL;
	int bytes = vasprintf(&text, format, args), is_line;

	if (bytes < 0)
		return;
	is_line = bytes && format[strlen(format) - 1] == '\n';
	if (is_line)
		text[bytes - 1] = '\0';
	put(to, text);
	if (is_line)
		fputc('\n', to);
	free(text);
}

void complain_words_put(FILE *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_words(to, format, args);
	va_end(args);
}

void complain_words(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_words(stderr, format, args);
	va_end(args);
}

int complain(int error, const char *format, ...)
{
	char *words = NULL;
	va_list args;

	va_start(args, format);
	if (format && vasprintf(&words, format, args) < 0)
		words = NULL;
	va_end(args);
	fprintf(stderr, "waymark: %s%s", wm_error_text(error), words && *words ? ": " : "");
	put(stderr, words ? words : "");
	fputc('\n', stderr);
	free(words);
	print_hint(error);
	return CLI_FAILED;
}

void complain_meant(const char *word, const char *const *all, size_t count)
{
	char meant[512];

	if (!*similar_words(word, all, count, meant, sizeof(meant)))
		return;
	complain_words(" %s\n", meant + 1);
}

int complain_near(int error, const char *name, const char *const *all, size_t count)
{
	complain_words("waymark: %s: %s\n", wm_error_text(error), name);
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
	put_words(stderr, format, args);
	va_end(args);
	if (command)
		fprintf(stderr, "\n  see waymark %s --help\n", command);
	else
		fputs("\n  see waymark help\n", stderr);
	return CLI_USAGE;
}
