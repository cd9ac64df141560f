/* SPDX-License-Identifier: MIT */
#include "cli/watch_input.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What there is, as far as there is room. */
static void line_take(struct watch_input *input)
{
	struct pollfd ready = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t room = sizeof(input->text) - 1 - input->bytes;
	ssize_t got;

	if (input->is_over || !room || poll(&ready, 1, 0) <= 0)
		return;
	got = read(STDIN_FILENO, input->text + input->bytes, room);
	if (got > 0)
		input->bytes += (size_t)got;
	else if (!got || (errno != EAGAIN && errno != EINTR))
		input->is_over = 1;
}

static void drop(struct watch_input *input, size_t bytes)
{
	input->bytes -= bytes;
	memmove(input->text, input->text + bytes, input->bytes);
}

static size_t trim(char *line)
{
	size_t begin = 0, end = strlen(line);

	while (end && isspace((unsigned char)line[end - 1]))
		end--;
	while (begin < end && isspace((unsigned char)line[begin]))
		begin++;
	memmove(line, line + begin, end - begin);
	line[end - begin] = '\0';
	return end - begin;
}

int watch_input_line(struct watch_input *input, char line[WATCH_INPUT_MAX])
{
	line_take(input);
	for (;;) {
		char *end = memchr(input->text, '\n', input->bytes);
		size_t bytes = end ? (size_t)(end - input->text) : input->bytes;
		int was_too_long = input->is_too_long;

		if (!end && input->bytes == sizeof(input->text) - 1) {
			input->is_too_long = 1;
			drop(input, input->bytes);
			return 0;
		}
		if (!end && (!input->is_over || !bytes))
			return 0;
		memcpy(line, input->text, bytes);
		line[bytes] = '\0';
		drop(input, bytes + (end != NULL));
		input->is_too_long = 0;
		if (was_too_long)
			return -E2BIG;
		if (trim(line) && line[0] != '#')
			return 1;
	}
}

char *watch_input_spec(const char *expr)
{
	char *spec;

	return asprintf(&spec, "%s%s", strncmp(expr, "watch:", 6) ? "watch:" : "", expr) < 0 ? NULL
											     : spec;
}
