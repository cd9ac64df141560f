/* SPDX-License-Identifier: MIT */
#include "target/process/sealed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <waymark/error.h>

int sealed_bytes(int fd, uint64_t *bytes)
{
	int seals = fcntl(fd, F_GET_SEALS); /* -1, all bits set, for what has none */
	struct stat about;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &about) || !S_ISREG(about.st_mode) ||
	    about.st_size < 0)
		return -WM_E_PROTOCOL;
	*bytes = (uint64_t)about.st_size;
	return 0;
}
