/* SPDX-License-Identifier: MIT */
/* The file is the program's, which may write anything. */
#include "trace/jitdump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x4A695444u /* "JiTD"; of another byte order: not of this machine */
#define CODE_LOAD 0u
#define RECORDS_MAX (1u << 21)
#define NAME_MAX_BYTES 2048u

struct header {
	uint32_t magic, version, total_bytes, machine, padding, pid;
	uint64_t time, flags;
};

struct record {
	uint32_t kind, total_bytes;
	uint64_t time;
	/* of a CODE_LOAD; then its name, NUL-terminated, and its code */
	uint32_t pid, tid;
	uint64_t vma, address, bytes, number;
};

#define RECORD_HEAD_BYTES 16u

_Static_assert(sizeof(struct header) == 40 && sizeof(struct record) == 56, "no padding");

int jitdump_is_name(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t digits;

	if (!name || strncmp(name, "/jit-", 5) != 0)
		return 0;
	digits = strspn(name + 5, "0123456789");
	return digits && !strcmp(name + 5 + digits, ".dump");
}

/* Lines that are to be written. */
struct lines {
	int fd;
	uint64_t *room;
	char bytes[65536];
	size_t used;
};

static int flush(struct lines *lines)
{
	ssize_t put;

	errno = ENOSPC;
	put = write(lines->fd, lines->bytes, lines->used);
	if (put < 0 || (size_t)put != lines->used)
		return -errno;
	*lines->room -= lines->used;
	lines->used = 0;
	return 0;
}

/* 0; 1: there is no room; or an error. */
static int line_add(struct lines *lines, const struct record *record, const char *name)
{
	char line[NAME_MAX_BYTES + 64];
	int bytes = snprintf(line, sizeof(line), "%llx %llx %s",
			     (unsigned long long)record->address, (unsigned long long)record->bytes,
			     name);

	for (int i = 0; i < bytes; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	line[bytes++] = '\n';
	if (lines->used + (size_t)bytes > *lines->room)
		return 1;
	if (lines->used + (size_t)bytes > sizeof(lines->bytes)) {
		int err = flush(lines);

		if (err)
			return err;
	}
	memcpy(lines->bytes + lines->used, line, (size_t)bytes);
	lines->used += (size_t)bytes;
	return 0;
}

/* The record at an offset; 0: the file ends, or it is not whole. */
static uint32_t record_read(int fd, uint64_t at, struct record *record, char name[NAME_MAX_BYTES])
{
	char bytes[sizeof(*record) + NAME_MAX_BYTES];
	ssize_t got = pread(fd, bytes, sizeof(bytes), (off_t)at);
	size_t of_name;

	*record = (struct record){ 0 };
	*name = '\0';
	if (got < (ssize_t)RECORD_HEAD_BYTES)
		return 0;
	memcpy(record, bytes, (size_t)got < sizeof(*record) ? (size_t)got : sizeof(*record));
	if (record->total_bytes < RECORD_HEAD_BYTES || record->kind != CODE_LOAD)
		return record->total_bytes < RECORD_HEAD_BYTES ? 0 : record->total_bytes;
	if (record->total_bytes < sizeof(*record) || got <= (ssize_t)sizeof(*record))
		return 0;
	of_name = (size_t)got - sizeof(*record);
	if (of_name > record->total_bytes - sizeof(*record))
		of_name = record->total_bytes - sizeof(*record);
	if (of_name > NAME_MAX_BYTES - 1)
		of_name = NAME_MAX_BYTES - 1;
	memcpy(name, bytes + sizeof(*record), of_name);
	name[of_name] = '\0';
	return record->total_bytes;
}

int jitdump_write(int from, int to, uint64_t *room)
{
	struct lines lines = { .fd = to, .room = room };
	char name[NAME_MAX_BYTES];
	struct header header;
	struct record record;
	uint64_t at;
	uint32_t bytes;
	int err = 0;

	if (pread(from, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    header.magic != MAGIC || header.total_bytes < sizeof(header) || !*room)
		return 0;
	/* a perf map before it may end in half a line */
	lines.bytes[lines.used++] = '\n';
	at = header.total_bytes;
	for (uint32_t i = 0; i < RECORDS_MAX && !err; i++, at += bytes) {
		bytes = record_read(from, at, &record, name);
		if (!bytes)
			break;
		if (record.kind == CODE_LOAD && record.bytes && *name)
			err = line_add(&lines, &record, name);
	}
	return err < 0 ? err : flush(&lines);
}
