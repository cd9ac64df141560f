/* SPDX-License-Identifier: MIT */
#include "fuzz/folder.h"

#include "trace/testing/packets.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void remove_all(void)
{
	sample_folder_remove(path);
}

const char *folder_path(void)
{
	if (!*path) {
		strcpy(path, "/dev/shm/waymark-fuzz-XXXXXX");
		if (!mkdtemp(path))
			sample_folder(path);
		atexit(remove_all);
	}
	return path;
}

void folder_clear(void)
{
	DIR *list = opendir(folder_path());
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
}

void folder_store(const char *name, const void *content, size_t bytes)
{
	char file[128];
	int fd;

	snprintf(file, sizeof(file), "%s/%s", folder_path(), name);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, content, bytes) != (ssize_t)bytes)
		abort();
	close(fd);
}
