/* SPDX-License-Identifier: MIT */
#include "cli/folders.h"

#include "trace/facts.h"
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/kernel_names.h"
#include "trace/packed.h"
#include "trace/perf_map.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS 4
#define NUMBER_MAX 99999999u

/* The number that a name is; 0: it is none. */
static unsigned int number_of(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits < DIGITS || digits > 8 || name[digits] ? 0 : (unsigned int)atoi(name);
}

/* The lowest and the highest number in the folder; 0: there is none. Returns how many there are. */
static uint64_t numbers_find(const char *dir, unsigned int *lowest, unsigned int *highest)
{
	DIR *list = opendir(dir);
	uint64_t count = 0;

	*lowest = *highest = 0;
	for (struct dirent *entry; list && (entry = readdir(list));) {
		unsigned int number = number_of(entry->d_name);

		if (!number)
			continue;
		count++;
		*highest = number > *highest ? number : *highest;
		*lowest = !*lowest || number < *lowest ? number : *lowest;
	}
	if (list)
		closedir(list);
	return count;
}

int folders_open(struct folders *folders, const char *dir)
{
	unsigned int lowest;
	int fd;

	folders->dir = dir;
	if (!mkdir(dir, 0700))
		folders->made_dir = 1;
	else if (errno != EEXIST)
		return -errno;
	fd = folder_open(dir);
	if (fd < 0)
		return fd;
	close(fd);
	numbers_find(dir, &lowest, &folders->before);
	return folders->before >= NUMBER_MAX ? -EOVERFLOW : 0;
}

static void name_make(char name[PATH_MAX + 16], const char *dir, unsigned int number)
{
	snprintf(name, PATH_MAX + 16, "%s/%0*u", dir, DIGITS, number);
}

const char *folders_next(struct folders *folders)
{
	unsigned int newest = folders->newest ? folders->newest : folders->before;

	name_make(folders->next_name, folders->dir, newest + 1);
	return folders->next_name;
}

void folders_took(struct folders *folders)
{
	unsigned int lowest, highest;

	folders->newest = (folders->newest ? folders->newest : folders->before) + 1;
	folders->first = folders->first ? folders->first : folders->newest;
	memcpy(folders->name, folders->next_name, sizeof(folders->name));
	while (folders->keep && numbers_find(folders->dir, &lowest, &highest) > folders->keep) {
		char name[PATH_MAX + 16];

		name_make(name, folders->dir, lowest);
		folder_remove(name, 1);
		if (!access(name, F_OK))
			return; /* it has other files, or is not ours */
	}
}

static const struct row_column columns[] = {
	{ "first", ROW_U64, ROW_PLAIN, 0, "number of the first folder; 0: none was written" },
	{ "last", ROW_U64, ROW_PLAIN, 0, "of the last" },
	{ "passed_over", ROW_U64, ROW_COUNT, 0, "triggers without a snapshot of their own" },
};
static ROW_TABLE(folders_table, "folders", "The folders that --last and --rotate wrote.", columns);

void folders_rows(struct rows *rows, const struct folders *folders, uint64_t passed_over)
{
	if (!folders->dir)
		return;
	rows_open(rows, &folders_table, NULL);
	ROWS_PUT(rows, columns, row_u64(folders->first), row_u64(folders->newest),
		 row_u64(passed_over));
	rows_close(rows);
}

void folders_close(struct folders *folders)
{
	if (folders->made_dir)
		rmdir(folders->dir);
}

void folders_newest(const char *dir, char name[PATH_MAX + 16])
{
	unsigned int lowest, highest;

	numbers_find(dir, &lowest, &highest);
	snprintf(name, PATH_MAX + 16, "%s", dir);
	if (highest)
		name_make(name, dir, highest);
}

/* Of a process, PID-TID-N, or of CPUs; compressed, or what a repair has cut off one. */
static int is_stream(const char *name)
{
	if (!strncmp(name, ".cut-", 5))
		name += 5;
	if (!strncmp(name, "cpu", 3))
		name += name[3] == 's' ? 4 : 3;
	if (!strchr(name, '-'))
		return 0;
	name += strspn(name, "0123456789-");
	return !name[0] || !strcmp(name, PACKED_SUFFIX);
}

void folder_remove(const char *dir, int with_streams)
{
	static const char *const names[] = { "metadata", INDEX_NAME, FACTS_FILE,
					     KERNEL_NAMES_FILE };
	int folder = folder_open(dir); /* its parent's owner may have put another in its place */
	DIR *list = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;

	if (!list)
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(folder, names[i], 0);
	while ((entry = readdir(list)))
		if (perf_map_is_name(entry->d_name) || (with_streams && is_stream(entry->d_name)))
			unlinkat(folder, entry->d_name, 0);
	if (with_streams)
		rmdir(dir);
	closedir(list);
}
