/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include "cli/cli.h"
#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

static int open_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t bytes = slash ? (size_t)(slash - path) : 0;
	char folder[PATH_MAX] = ".";
	int fd;

	if (bytes >= sizeof(folder))
		return -ENAMETOOLONG;
	if (slash)
		snprintf(folder, sizeof(folder), "%.*s", bytes ? (int)bytes : 1, path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int output_open_ready(const char *path, int flags)
{
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
	struct stat about;

	if (fd < 0)
		return errno == ENXIO && !stat(path, &about) && S_ISFIFO(about.st_mode)
			       ? -WM_E_OUTPUT_READER
			       : -errno;
	fcntl(fd, F_SETFL, 0);
	return fd;
}

/* A link to a device or a pipe is followed where root or we made it, as /dev/stdout. */
static int open_device(struct output *output)
{
	struct stat about;
	int is_link;

	if (lstat(output->path, &about))
		return -errno;
	is_link = S_ISLNK(about.st_mode);
	if (is_link && about.st_uid && about.st_uid != geteuid())
		return -WM_E_OUTPUT_OWNER;
	output->fd = output_open_ready(output->path, O_WRONLY | (is_link ? 0 : O_NOFOLLOW));
	if (output->fd < 0)
		return output->fd;
	if (!fstat(output->fd, &about) && !S_ISREG(about.st_mode))
		return 0;
	close(output->fd); /* exchanged since it was looked at */
	return -WM_E_OUTPUT_OWNER;
}

static int open_fresh(struct output *output, mode_t mode)
{
	unsigned int number;

	do {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -errno;
		snprintf(output->fresh, sizeof(output->fresh), ".waymark-%08x.new", number);
		output->fd = folder_create(output->folder, output->fresh, mode);
	} while (output->fd == -EEXIST);
	return output->fd < 0 ? output->fd : 0;
}

int output_open(struct output *output, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat about, behind;
	mode_t mode = 0666;
	int err = 0;

	*output = (struct output){ -1, -1, "", path, slash ? slash + 1 : path };
	/* /dev/stdout is a link, but what it leads to is most often no file */
	if (!stat(path, &behind) && !S_ISREG(behind.st_mode))
		return S_ISDIR(behind.st_mode) ? -EISDIR : open_device(output);
	output->folder = open_parent(path);
	if (output->folder < 0)
		return output->folder;
	if (!fstatat(output->folder, output->name, &about, AT_SYMLINK_NOFOLLOW)) {
		err = !S_ISREG(about.st_mode) || about.st_uid != geteuid() ? -WM_E_OUTPUT_OWNER : 0;
		mode = about.st_mode & 0777;
	} else if (errno != ENOENT) {
		err = -errno;
	}
	if (!err)
		err = open_fresh(output, mode);
	if (err)
		close(output->folder);
	return err;
}

int output_close(struct output *output, int failed)
{
	int err = close(output->fd) ? -errno : 0;

	if (output->folder < 0)
		return err;
	if (!err && !failed &&
	    renameat(output->folder, output->fresh, output->folder, output->name))
		err = -errno;
	if (err || failed)
		unlinkat(output->folder, output->fresh, 0);
	close(output->folder);
	return err;
}

static struct out rows_out;
static struct rows rows;

struct rows *output_rows(enum rows_format format)
{
	out_init(&rows_out, STDOUT_FILENO);
	rows_begin(&rows, &rows_out, format);
	return &rows;
}

int output_rows_end(int status)
{
	int err = rows_end(&rows);

	return err && err != -EPIPE ? complain(err, "standard output") : status;
}

static struct text *text_to;

static ssize_t text_write(int fd, const void *bytes, size_t count)
{
	(void)fd;
	text_add(text_to, bytes, count);
	if (!text_to->error)
		return (ssize_t)count;
	errno = ENOMEM;
	return -1;
}

void output_to_text(struct out *out, struct text *text)
{
	text_to = text;
	out_init(out, -1);
	out->write = text_write;
}
