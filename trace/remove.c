/* SPDX-License-Identifier: MIT */
#include "trace/facts.h"
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/kernel_names.h"
#include "trace/packed.h"
#include "trace/perf_map.h"
#include "trace/writer.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

/* A file that was to get its name when it is whole. */
static int is_begun(const char *name)
{
	size_t length = strlen(name);

	return name[0] == '.' && length > 5 && !strcmp(name + length - 4, ".new");
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

static int is_of_trace(const char *name)
{
	static const char *const names[] = { "metadata", INDEX_NAME, FACTS_FILE,
					     KERNEL_NAMES_FILE };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return perf_map_is_name(name) || is_stream(name) || is_begun(name);
}

void trace_remove(const char *dir, int keeps_dir)
{
	int folder = folder_open(dir); /* its parent's owner may have put another in its place */
	DIR *list = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;

	if (!list)
		return;
	while ((entry = readdir(list)))
		if (is_of_trace(entry->d_name))
			unlinkat(folder, entry->d_name, 0);
	if (!keeps_dir)
		rmdir(dir);
	closedir(list);
}
