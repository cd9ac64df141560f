/* SPDX-License-Identifier: MIT */
#include "cli/folders.h"

#include "cli/cli.h"
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define DIGITS 4
#define LOCK_TRIES 50
#define LOCK_PAUSE_MS 20
#define NUMBER_MAX 99999999u

/* The number of a folder of that name; 0: it has none, as 00001, which is not how we write it. */
static unsigned int number_of(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits < DIGITS || digits > 8 || name[digits] || (digits > DIGITS && name[0] == '0')
		       ? 0
		       : (unsigned int)atoi(name);
}

/* Find the lowest and the highest number above `above`; both 0: none is there. Returns how many. */
static uint64_t numbers_find(const char *dir, unsigned int above, unsigned int *lowest,
			     unsigned int *highest)
{
	DIR *list = opendir(dir);
	uint64_t count = 0;

	*lowest = *highest = 0;
	for (struct dirent *entry; list && (entry = readdir(list));) {
		unsigned int number = number_of(entry->d_name);

		if (number <= above)
			continue;
		count++;
		*highest = number > *highest ? number : *highest;
		*lowest = !*lowest || number < *lowest ? number : *lowest;
	}
	if (list)
		closedir(list);
	return count;
}

/*
 * The lock keeps a second recording out, whose folders would be among ours. A file system may have
 * none.
 */
int folders_open(struct folders *folders)
{
	const char *dir = folders->dir;
	unsigned int lowest, tries = 0;

	if (!mkdir(dir, 0700))
		folders->made_dir = 1;
	else if (errno != EEXIST)
		return -errno;
	folders->fd = folder_open(dir);
	if (folders->fd < 0)
		return folders->fd;
	/* a reader of the empty folder has the lock for a moment */
	while (flock(folders->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		if (++tries == LOCK_TRIES)
			return -WM_E_TRACE_IN_USE;
		else
			poll(NULL, 0, LOCK_PAUSE_MS);
	if (!faccessat(folders->fd, INDEX_NAME, F_OK, 0))
		return -WM_E_TRACE_DIR;
	numbers_find(dir, 0, &lowest, &folders->newest);
	return folders->newest >= NUMBER_MAX ? -EOVERFLOW : 0;
}

static void name_make(char name[PATH_MAX + 16], const char *dir, unsigned int number)
{
	snprintf(name, PATH_MAX + 16, "%s/%0*u", dir, DIGITS, number);
}

const char *folders_next(struct folders *folders)
{
	name_make(folders->next_name, folders->dir, folders->newest + 1);
	return folders->next_name;
}

void folders_took(struct folders *folders)
{
	folders->last = ++folders->newest;
	folders->written++;
	folders->first = folders->first ? folders->first : folders->newest;
	memcpy(folders->name, folders->next_name, sizeof(folders->name));
}

void folders_failed(struct folders *folders)
{
	/* what was written of it stays, and its number is not taken again */
	if (rmdir(folders->next_name) && errno != ENOENT)
		folders->newest++;
}

void folders_prune(struct folders *folders)
{
	unsigned int lowest, highest;

	while (folders->keep &&
	       numbers_find(folders->dir, folders->stuck, &lowest, &highest) > folders->keep) {
		char name[PATH_MAX + 16];

		name_make(name, folders->dir, lowest);
		trace_remove(name, 0);
		folders->stuck = lowest;
		if (faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
			continue;
		complain_words("waymark: %s can't be removed: it is not ours alone\n", name);
	}
}

void folders_close(struct folders *folders)
{
	if (folders->made_dir)
		rmdir(folders->dir);
	if (folders->fd >= 0)
		close(folders->fd);
}

void folders_newest(const char *dir, char name[PATH_MAX + 16])
{
	unsigned int lowest, highest;

	numbers_find(dir, 0, &lowest, &highest);
	snprintf(name, PATH_MAX + 16, "%s", dir);
	if (highest)
		name_make(name, dir, highest);
}
