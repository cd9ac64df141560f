/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_sanitized.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int soft_is_sanitized(pid_t pid)
{
	static const char *const names[] = { "__asan_init", "__tsan_init", "__msan_init",
					     "__hwasan_init" };
	char path[32];
	struct stat about;
	void *file = MAP_FAILED;
	int fd, is = 0;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (!fstat(fd, &about) && about.st_size > 0)
		file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !is; i++)
		is = memmem(file, (size_t)about.st_size, names[i], strlen(names[i])) != NULL;
	munmap(file, (size_t)about.st_size);
	return is;
}
