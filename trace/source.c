/* SPDX-License-Identifier: MIT */
#include "trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

/* The name of the other form: of STREAM STREAM.zst, and the other way round. */
static void other_form(const char *file, char name[NAME_MAX + 8])
{
	size_t suffix = sizeof(PACKED_SUFFIX) - 1;

	snprintf(name, NAME_MAX + 8, "%s%s", file, packed_is_name(file) ? "" : PACKED_SUFFIX);
	if (packed_is_name(file))
		name[strlen(name) - suffix] = '\0';
}

int source_is_shadowed(int dir, const char *file)
{
	char name[NAME_MAX + 8];

	if (!packed_is_name(file))
		return 0;
	other_form(file, name);
	return !faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int form_open(struct source *source, int dir, const char *file)
{
	*source = (struct source){ .fd = -1, .packed.fd = -1 };
	if (packed_is_name(file))
		return packed_open(&source->packed, dir, file);
	source->fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	return source->fd < 0 ? -errno : 0;
}

/* The other form is there now. */
static int take_form(struct source *source, struct trace_stream *stream, const char *file)
{
	struct stat about;
	char *name;

	if (stream->packets)
		return 0;
	name = strdup(file);
	if (!name)
		return -ENOMEM;
	free(stream->file);
	stream->file = name;
	stream->is_packed = source->fd < 0;
	if (!stream->is_packed && !fstat(source->fd, &about))
		stream->file_bytes = (uint64_t)about.st_size;
	return 0;
}

int source_open(struct source *source, int dir, struct trace_stream *stream)
{
	char name[NAME_MAX + 8];
	int err = form_open(source, dir, stream->file);

	if (err == -ENOENT) {
		other_form(stream->file, name);
		if (!form_open(source, dir, name))
			err = take_form(source, stream, name);
	}
	if (!err && stream->is_packed && !stream->packets)
		stream->file_bytes = packed_length(&source->packed);
	return err;
}

void source_release(struct source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	packed_release(&source->packed);
	source->fd = -1;
}

ssize_t source_read(struct source *source, uint64_t offset, void *to, size_t bytes)
{
	ssize_t count;

	if (source->fd < 0)
		return packed_read(&source->packed, offset, to, bytes);
	count = pread(source->fd, to, bytes, (off_t)offset);
	return count < 0 ? -errno : count;
}

const char *source_gap(struct source *source, uint64_t offset, uint64_t bytes)
{
	uint8_t byte;

	if (source->fd >= 0 || packed_read(&source->packed, offset + bytes - 1, &byte, 1) == 1)
		return NULL;
	return source->packed.fault ? source->packed.fault : "cut in a compressed frame";
}

const char *source_fault(struct source *source, uint64_t offset)
{
	uint8_t byte;

	if (source->fd >= 0)
		return NULL;
	(void)packed_read(&source->packed, offset, &byte, 1);
	return source->packed.fault;
}

static ssize_t read_whole(int fd, uint64_t offset, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

ssize_t source_read_once(int dir, const char *file, uint64_t offset, void *to, size_t bytes)
{
	int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read_whole(fd, offset, to, bytes);
	close(fd);
	return got;
}

int source_map(struct source *source, struct trace_stream *stream)
{
	void *map = mmap(NULL, stream->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	ssize_t got;

	if (map == MAP_FAILED)
		return -errno;
	got = source->fd < 0 ? packed_read(&source->packed, 0, map, stream->bytes)
			     : read_whole(source->fd, 0, map, stream->bytes);
	if (got < 0 || (uint64_t)got < stream->bytes) {
		munmap(map, stream->bytes);
		return got < 0 ? (int)got : -WM_E_TRACE_DAMAGED;
	}
	mprotect(map, stream->bytes, PROT_READ);
	stream->map = map;
	return 0;
}
