/* SPDX-License-Identifier: MIT */
/*
 * A process's memory map, from /proc/PID/maps. For the outside: it allocates.
 */
#ifndef BASE_MAPS_H
#define BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct map {
	uint64_t start, end, offset;
	uint64_t inode, device; /* device: as stat(2) has it */
	int prot;		/* PROT_* */
	bool shared;
	bool deleted;	  /* the file is gone; its name is kept in path without the kernel's mark */
	const char *path; /* "" for anonymous memory, "[vdso]" and the like as they are */
};

struct maps {
	struct map *list; /* in order of address */
	size_t count;
	char *text;
};

/*
 * Read the map of a process or thread (any thread's number serves: a process whose leader has ended
 * shows its map under its other threads only). Release with maps_release(), also after an error.
 * Returns 0; -ESRCH if it vanished, -EACCES or -EPERM if it is not ours to read, -ENOMEM.
 */
int maps_read(struct maps *maps, pid_t tid);

/* Parse the text of such a file; the maps take the text over (malloc'd, NUL-terminated). */
int maps_parse(struct maps *maps, char *text);

void maps_release(struct maps *maps);

/* The mapping that holds an address, or NULL. */
const struct map *maps_find(const struct maps *maps, uint64_t address);

#endif
