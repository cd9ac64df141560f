/* SPDX-License-Identifier: MIT */
#include "record/session/freezer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* where cgroup v2 is mounted, alone and beside v1: cgroups(7) */
static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

/* Get the process's path below the cgroup root. Returns 1 if it has one. */
static int path_of(pid_t pid, char path[PATH_MAX])
{
	char name[64], *line = NULL;
	size_t room = 0;
	int found = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	file = fopen(name, "re");
	while (file && !found && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		found = !strncmp(line, "0::/", 4) &&
			snprintf(path, PATH_MAX, "%s", line + 3) < PATH_MAX;
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Returns -1 if there is no such file. */
static int is_frozen(const char *root, const char *path)
{
	char name[PATH_MAX + 64], line[64];
	int frozen = 0;
	FILE *file;

	snprintf(name, sizeof(name), "%s%s/cgroup.events", root, path);
	file = fopen(name, "re");
	if (!file)
		return -1;
	while (!frozen && fgets(line, sizeof(line), file))
		frozen = !strcmp(line, "frozen 1\n");
	fclose(file);
	return frozen;
}

int freezer_holds(pid_t pid)
{
	char path[PATH_MAX];
	int frozen = -1;

	if (!path_of(pid, path))
		return 0;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]) && frozen < 0; i++)
		frozen = is_frozen(roots[i], path);
	return frozen > 0;
}
