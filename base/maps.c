/* SPDX-License-Identifier: MIT */
#include "base/maps.h"
#include "base/sorted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS_DELETED " (deleted)"

/* A file of /proc has no size: read until its end. *text is NUL-terminated. */
static int text_read(int fd, char **text)
{
	size_t bytes = 0, room = 0;

	*text = NULL;
	for (;;) {
		ssize_t got;

		if (room - bytes < 8192) {
			char *more = realloc(*text, room = room * 2 + 65536);

			if (!more)
				return -ENOMEM;
			*text = more;
		}
		got = read(fd, *text + bytes, room - bytes - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		bytes += (size_t)got;
	}
	(*text)[bytes] = '\0';
	return 0;
}

/* The kernel writes a newline in a path as \012, and nothing else so: proc(5). */
static void path_unescape(char *path)
{
	char *to = path;

	for (char *from = path; *from;) {
		if (!strncmp(from, "\\012", 4)) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

static int line_parse(struct map *map, char *line)
{
	unsigned long long start, end, offset, inode;
	unsigned int device_major, device_minor;
	char prot[5];
	int path_at = 0;
	size_t bytes;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, prot, &offset,
		   &device_major, &device_minor, &inode, &path_at) < 7 ||
	    start >= end)
		return -EPROTO;
	*map = (struct map){
		.start = start,
		.end = end,
		.offset = offset,
		.inode = inode,
		.device = makedev(device_major, device_minor),
		.prot = (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0) |
			(prot[2] == 'x' ? PROT_EXEC : 0),
		.shared = prot[3] == 's',
		.path = line + path_at,
	};
	bytes = strlen(line + path_at);
	if (bytes > strlen(MAPS_DELETED) &&
	    !strcmp(line + path_at + bytes - strlen(MAPS_DELETED), MAPS_DELETED)) {
		map->deleted = true;
		line[(size_t)path_at + bytes - strlen(MAPS_DELETED)] = '\0';
	}
	path_unescape(line + path_at);
	return 0;
}

int maps_parse(struct maps *maps, char *text)
{
	size_t lines = 0;
	char *rest;

	*maps = (struct maps){ .text = text };
	for (char *at = text; *at; at++)
		lines += *at == '\n';
	maps->list = calloc(lines + 1, sizeof(*maps->list));
	if (!maps->list)
		return -ENOMEM;
	for (char *line = strtok_r(text, "\n", &rest); line && maps->count < lines + 1;
	     line = strtok_r(NULL, "\n", &rest)) {
		int err = line_parse(&maps->list[maps->count], line);

		if (err)
			return err;
		maps->count++;
	}
	return 0;
}

int maps_read(struct maps *maps, pid_t tid)
{
	char path[64], *text;
	int fd, err;

	*maps = (struct maps){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = text_read(fd, &text);
	close(fd);
	if (err) {
		free(text);
		return err;
	}
	return maps_parse(maps, text);
}

void maps_release(struct maps *maps)
{
	free(maps->list);
	free(maps->text);
	*maps = (struct maps){ 0 };
}

const struct map *maps_find(const struct maps *maps, uint64_t address)
{
	size_t low = sorted_at_most(maps->list, maps->count, sizeof(*maps->list),
				    offsetof(struct map, end), address);

	if (low < maps->count && address >= maps->list[low].start)
		return &maps->list[low];
	return NULL;
}
