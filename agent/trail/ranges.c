/* SPDX-License-Identifier: MIT */
#include "agent/trail/ranges.h"
#include "agent/trail/log.h"
#include "agent/trail/memory.h"
#include "agent/trail/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <stddef.h>

#define RANGES_MAX 4096u
#define HIDDEN_MAX 1024u

struct range {
	uint64_t start, end;
	uint32_t flags; /* RANGE_* */
};

static struct range ranges[RANGES_MAX], hidden[HIDDEN_MAX];
static uint32_t range_count, hidden_count;
static uint32_t last; /* where the last one was found */

/* ---- /proc/self/maps, line by line ---- */

struct text {
	int fd;
	uint32_t at, count;
	char bytes[4096];
};

static struct text text;

static int text_next(void)
{
	if (text.at == text.count) {
		long got = sys_call3(SYS_read, text.fd, (long)text.bytes, sizeof(text.bytes));

		if (got <= 0)
			return -1;
		text.count = (uint32_t)got;
		text.at = 0;
	}
	return (unsigned char)text.bytes[text.at++];
}

/* A number in hexadecimal, and what stands behind it. */
static uint64_t text_number(int *behind)
{
	uint64_t value = 0;
	int c;

	for (;;) {
		c = text_next();
		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*behind = c;
	return value;
}

static int is_hidden(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < hidden_count; i++)
		if (start < hidden[i].end && end > hidden[i].start)
			return 1;
	return 0;
}

/* The rest of a line, behind the offset: device, inode, path. */
static uint32_t text_path(char path[PATH_MAX])
{
	uint32_t bytes = 0, field = 0;
	int c, before = ' ';

	while ((c = text_next()) >= 0 && c != '\n') {
		if (field < 2) {
			field += c == ' ' && before != ' ';
		} else if ((bytes || c != ' ') && bytes < PATH_MAX - 1) {
			path[bytes++] = (char)c;
		}
		before = c;
	}
	path[bytes] = '\0';
	return bytes;
}

static char path[PATH_MAX];

/* 1, or 0: that was all. */
static int line_read(void)
{
	struct range range;
	uint64_t offset;
	int c, is_code = 0, is_readable = 0;

	range.flags = 0;
	range.start = text_number(&c);
	if (c != '-')
		return 0;
	range.end = text_number(&c);
	while ((c = text_next()) >= 0 && c != ' ') {
		is_readable |= c == 'r';
		is_code |= c == 'x';
		range.flags |= c == 'w' ? RANGE_WRITABLE : c == 's' ? RANGE_SHARED : 0;
	}
	offset = text_number(&c);
	text_path(path);
	if (!is_code || !is_readable || range_count == RANGES_MAX ||
	    is_hidden(range.start, range.end))
		return 1;
	ranges[range_count++] = range;
	log_module(range.start, range.end - range.start, offset, path);
	return 1;
}

void ranges_read(void)
{
	long fd = sys_call(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0,
			   0, 0);

	if (sys_failed(fd))
		return;
	text.fd = (int)fd;
	text.at = text.count = 0;
	range_count = last = 0;
	while (line_read())
		;
	sys_call3(SYS_close, fd, 0, 0);
}

static uint64_t left_in(const struct range *range, uint64_t pc)
{
	return pc >= range->start && pc < range->end ? range->end - pc : 0;
}

static uint64_t left_now(uint64_t pc)
{
	uint64_t left = last < range_count ? left_in(&ranges[last], pc) : 0;

	for (uint32_t i = 0; i < range_count && !left; i++) {
		left = left_in(&ranges[i], pc);
		if (left)
			last = i;
	}
	return left;
}

uint64_t ranges_left(uint64_t pc)
{
	uint64_t left = left_now(pc);

	if (left || is_hidden(pc, pc + 1))
		return left;
	ranges_read();
	return left_now(pc);
}

uint32_t ranges_flags(uint64_t pc)
{
	return left_now(pc) ? ranges[last].flags : 0;
}

int ranges_drop(uint64_t start, uint64_t bytes)
{
	uint64_t end = start + bytes;
	uint32_t count = range_count;
	int found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct range *range = &ranges[i], behind = *range;

		if (range->start >= end || range->end <= start)
			continue;
		found = 1;
		range->end = range->start < start ? start : range->start; /* empty ones find nothing */
		behind.start = end;
		if (behind.end > end && range_count < RANGES_MAX)
			ranges[range_count++] = behind;
	}
	return found;
}

static void empty_ones_go(void)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < range_count; i++)
		if (ranges[i].end > ranges[i].start)
			ranges[kept++] = ranges[i];
	range_count = kept;
	last = 0;
}

void ranges_add(uint64_t start, uint64_t bytes, uint32_t flags)
{
	ranges_drop(start, bytes);
	if (range_count == RANGES_MAX)
		empty_ones_go();
	if (range_count < RANGES_MAX)
		ranges[range_count++] = (struct range){ start, start + bytes, flags };
}

void ranges_hide(uint64_t start, uint64_t bytes)
{
	if (hidden_count < HIDDEN_MAX)
		hidden[hidden_count++] = (struct range){ start, start + bytes, 0 };
}
