/* SPDX-License-Identifier: MIT */
#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

int folder_check(int fd)
{
	struct stat about;

	if (fstat(fd, &about))
		return -errno;
	/* of a folder with an ACL the group's bits are the most that the ACL grants anyone */
	if (about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)))
		return -WM_E_OUTPUT_OWNER;
	return 0;
}

int folder_open(const char *path)
{
	size_t bytes = strlen(path);
	char name[PATH_MAX];
	struct stat about;
	int fd, err;

	/* with a slash behind it a link is followed in spite of O_NOFOLLOW */
	while (bytes > 1 && path[bytes - 1] == '/')
		bytes--;
	if (bytes >= sizeof(name))
		return -ENAMETOOLONG;
	memcpy(name, path, bytes);
	name[bytes] = '\0';
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		err = -errno;
		return !lstat(name, &about) && S_ISLNK(about.st_mode) ? -WM_E_OUTPUT_OWNER : err;
	}
	err = folder_check(fd);
	if (err)
		close(fd);
	return err ? err : fd;
}

int folder_create(int folder, const char *name, mode_t mode)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	return fd < 0 ? -errno : fd;
}
