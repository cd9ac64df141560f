/* SPDX-License-Identifier: MIT */
#include "cli/source_text.h"

#include "base/name_match.h"
#include "base/regular_file.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(const char *path)
{
	struct stat stat_of;

	return !stat(path, &stat_of) && S_ISREG(stat_of.st_mode) && !access(path, R_OK);
}

/* From the root on, so that others find it from elsewhere. */
static int source_path_take(const char *path, char found[PATH_MAX])
{
	size_t bytes = 0;

	if (path[0] != '/') {
		if (!getcwd(found, PATH_MAX - 1))
			return -ENOENT;
		bytes = strlen(found);
		found[bytes++] = '/';
	}
	if (snprintf(found + bytes, PATH_MAX - bytes, "%s", path) >= (int)(PATH_MAX - bytes))
		return -ENOENT;
	return 0;
}

int source_find(const char *path, const char *dir, char found[PATH_MAX])
{
	char below[PATH_MAX];

	for (const char *end = path; dir && end; end = strchr(end, '/')) {
		end += strspn(end, "/");
		if (snprintf(below, sizeof(below), "%s/%s", dir, end) < (int)sizeof(below) &&
		    is_file(below))
			return source_path_take(below, found);
	}
	return is_file(path) ? source_path_take(path, found) : -ENOENT;
}

static int read_all(struct source_text *text, int fd, size_t bytes)
{
	size_t at = 0;

	text->bytes = malloc(bytes + 1);
	if (!text->bytes)
		return -ENOMEM;
	while (at < bytes) {
		ssize_t count = read(fd, text->bytes + at, bytes - at);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (!count)
			break; /* it was made shorter meanwhile */
		at += (size_t)count;
	}
	text->bytes[at] = '\n';
	for (size_t i = 0; i <= at; i++)
		text->count += text->bytes[i] == '\n';
	text->count -= at && text->bytes[at - 1] == '\n';
	text->lines = calloc(text->count + 2, sizeof(*text->lines));
	if (!text->lines)
		return -ENOMEM;
	for (size_t i = 0, line = 1; i <= at && line <= text->count; i++)
		if (text->bytes[i] == '\n')
			text->lines[line++] = i + 1;
	return 0;
}

int source_text_read(struct source_text *text, const char *path, const char *dir)
{
	struct stat stat;
	int fd, err;

	text->bytes = NULL;
	text->lines = NULL;
	text->count = 0;
	err = source_find(path, dir, text->path);
	if (err)
		return err;
	fd = regular_file_open(text->path, &stat);
	if (fd < 0)
		return fd;
	err = stat.st_size > SOURCE_BYTES_MAX ? -EFBIG : read_all(text, fd, (size_t)stat.st_size);
	text->written_s = err ? 0 : stat.st_mtime;
	close(fd);
	return err;
}

void source_text_release(struct source_text *text)
{
	free(text->bytes);
	free(text->lines);
	text->bytes = NULL;
	text->lines = NULL;
	text->count = 0;
}

void source_complain_changed(const char *path, int64_t written_s, int64_t built_s)
{
	if (!built_s || written_s <= built_s)
		return;
	complain_words(
		"waymark: %s was changed after the program was built: its lines may be others\n",
		path);
}

const char *source_text_line(const struct source_text *text, uint32_t number, size_t *bytes)
{
	if (!number || number > text->count)
		return NULL;
	*bytes = text->lines[number] - text->lines[number - 1] - 1;
	return text->bytes + text->lines[number - 1];
}

int source_matches(const char *glob, const char *path)
{
	const char *slash = strrchr(path, '/');

	return name_match(glob, path) ||
	       (!strchr(glob, '/') && slash && name_match(glob, slash + 1));
}
