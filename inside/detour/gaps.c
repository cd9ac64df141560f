/* SPDX-License-Identifier: MIT */
#include "inside/detour/gaps.h"

#include "base/kernel.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

struct line {
	uintptr_t start, end;
	int is_heap, is_stack, is_data;
};

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *read_hex(const char *at, uintptr_t *value)
{
	for (*value = 0; hex_digit(*at) >= 0; at++)
		*value = *value << 4 | (uintptr_t)hex_digit(*at);
	return at;
}

/* One line of /proc/thread-self/maps, NUL-terminated: proc_pid_maps(5). */
static int read_line(const char *at, struct line *line)
{
	at = read_hex(at, &line->start);
	if (*at != '-')
		return -EINVAL;
	at = read_hex(at + 1, &line->end);
	line->is_heap = strstr(at, "[heap]") != NULL;
	line->is_stack = strstr(at, "[stack]") != NULL;
	/* " rw-p 00000000 00:00 0" */
	line->is_data = at[0] == ' ' && at[1] && at[2] == 'w' && at[3] && at[4] == 'p' &&
			strstr(at, " 00:00 0") != NULL;
	return 0;
}

static void report(const struct line *before, const struct line *line,
		   void (*found)(const struct gap *, void *), void *data)
{
	struct gap gap = {
		.start = before->end < PUN_LOWEST ? PUN_LOWEST : before->end,
		/* the vsyscall page is above all that a program can map */
		.end = line->start < PUN_HIGHEST - 4096 ? line->start : PUN_HIGHEST - 4096,
		.after_heap = before->is_heap,
		.before_stack = line->is_stack,
		.before_data = line->is_data,
	};

	if (gap.start < gap.end)
		found(&gap, data);
}

static int each_line(void (*visit)(const struct line *, void *), void *data)
{
	static char buffer[8192];
	struct line line;
	size_t have = 0;
	ssize_t got;
	int fd = kernel_open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == EACCES ? -WM_E_NO_PROC : -errno;
	while ((got = kernel_read(fd, buffer + have, sizeof buffer - 1 - have)) > 0) {
		char *at = buffer, *end;

		have += (size_t)got;
		buffer[have] = 0;
		while ((end = strchr(at, '\n'))) {
			*end = 0;
			if (!read_line(at, &line))
				visit(&line, data);
			at = end + 1;
		}
		have -= (size_t)(at - buffer);
		memmove(buffer, at, have);
		if (have == sizeof buffer - 1)
			have = 0; /* no line is so long */
	}
	kernel_close(fd);
	return 0;
}

struct gaps {
	struct line before;
	void (*found)(const struct gap *, void *);
	void *data;
	int count;
};

static void report_before(const struct line *line, void *data)
{
	struct gaps *gaps = data;

	report(&gaps->before, line, gaps->found, gaps->data);
	gaps->before = *line;
	gaps->count++;
}

int gaps_find(void (*found)(const struct gap *, void *), void *data)
{
	struct gaps gaps = { .found = found, .data = data };
	struct line last = { .start = PUN_HIGHEST - 4096 };
	int error = each_line(report_before, &gaps);

	if (!error && gaps.before.end < PUN_HIGHEST)
		report(&gaps.before, &last, found, data);
	return error ? error : gaps.count;
}
