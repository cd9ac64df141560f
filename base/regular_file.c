/* SPDX-License-Identifier: MIT */
#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int kind_check(const struct stat *about)
{
	if (S_ISREG(about->st_mode))
		return 0;
	return S_ISDIR(about->st_mode) ? -EISDIR : -ENODEV;
}

int regular_file_open(const char *path, struct stat *about)
{
	int err = stat(path, about) ? -errno : kind_check(about), fd;

	if (err)
		return err;
	/* something else may have taken the file's place */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	err = fstat(fd, about) ? -errno : kind_check(about);
	if (!err)
		return fd;
	close(fd);
	return err;
}
