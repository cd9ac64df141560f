/* SPDX-License-Identifier: MIT */
/*
 * This process's mappings, from /proc/self/maps, line by line, for what runs inside a program: no
 * allocated memory, no libc. base/maps.h has those of other processes.
 */
#ifndef BASE_MAPPED_H
#define BASE_MAPPED_H

#include <stdint.h>

#define MAPPED_READABLE 1u
#define MAPPED_WRITABLE 2u
#define MAPPED_CODE 4u
#define MAPPED_SHARED 8u

struct mapped {
	uint64_t start, end, offset, inode; /* inode: 0, no file's */
	uint32_t device[2];		    /* that has the inode: major, minor */
	uint32_t flags;
	/* the reader's own */
	int fd;
	uint32_t at, count;
	char bytes[1024];
};

/* 0 or -errno; then mapped_close(). */
int mapped_open(struct mapped *mapped);
void mapped_close(struct mapped *mapped);

/*
 * The next mapping, and its path if `path` is not NULL, cut to `room` with its NUL; "" where it has
 * none. 1, or 0: that was the last.
 */
int mapped_next(struct mapped *mapped, char *path, uint32_t room);

#endif
