/* SPDX-License-Identifier: MIT */
#include "base/mapped.h"

#include "base/syscall.h"

#include <fcntl.h>

int mapped_open(struct mapped *mapped)
{
	long fd = syscall_raw(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/maps",
			      O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return (int)fd;
	mapped->fd = (int)fd;
	mapped->at = mapped->count = 0;
	return 0;
}

void mapped_close(struct mapped *mapped)
{
	syscall_raw(SYS_close, mapped->fd, 0, 0, 0);
}

static int byte_next(struct mapped *mapped)
{
	if (mapped->at == mapped->count) {
		long got = syscall_raw(SYS_read, mapped->fd, (long)mapped->bytes,
				       sizeof(mapped->bytes), 0);

		if (got <= 0)
			return -1;
		mapped->count = (uint32_t)got;
		mapped->at = 0;
	}
	return (unsigned char)mapped->bytes[mapped->at++];
}

/* A number to a base, and the character behind it. */
static uint64_t number_next(struct mapped *mapped, unsigned int base, int *behind)
{
	uint64_t value = 0;
	int c;

	for (;;) {
		c = byte_next(mapped);
		if (c >= '0' && c <= '9')
			value = value * base + (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * base + (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*behind = c;
	return value;
}

/* The rest of a line, behind the spaces. */
static void path_next(struct mapped *mapped, char *path, uint32_t room)
{
	uint32_t bytes = 0;
	int c;

	while ((c = byte_next(mapped)) >= 0 && c != '\n')
		if ((bytes || c != ' ') && bytes + 1 < room)
			path[bytes++] = (char)c;
	if (path)
		path[bytes] = '\0';
}

int mapped_next(struct mapped *mapped, char *path, uint32_t room)
{
	int c;

	mapped->start = number_next(mapped, 16, &c);
	if (c != '-')
		return 0;
	mapped->end = number_next(mapped, 16, &c);
	mapped->flags = 0;
	while ((c = byte_next(mapped)) >= 0 && c != ' ') {
		mapped->flags |= c == 'r' ? MAPPED_READABLE : c == 'x' ? MAPPED_CODE : 0;
		mapped->flags |= c == 'w' ? MAPPED_WRITABLE : c == 's' ? MAPPED_SHARED : 0;
	}
	mapped->offset = number_next(mapped, 16, &c);
	mapped->device[0] = (uint32_t)number_next(mapped, 16, &c);
	mapped->device[1] = (uint32_t)number_next(mapped, 16, &c);
	mapped->inode = number_next(mapped, 10, &c);
	path_next(mapped, path, path ? room : 0);
	return 1;
}
