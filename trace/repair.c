/* SPDX-License-Identifier: MIT */
/*
 * babeltrace2 reads nothing at all of a trace with one torn packet in it, and stops at an event cut
 * short. So every stream is cut behind its last whole packet; what is cut off is kept beside it.
 */
#include "trace/reader.h"
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#include <waymark/error.h>

/* Copy what stands from `offset` on into a hidden file, which readers pass over. */
static int keep_tail(int dir, const char *file, int from, uint64_t offset)
{
	char name[300], bytes[65536];
	ssize_t count;
	int to, err = 0;

	snprintf(name, sizeof(name), ".cut-%s", file);
	to = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return -errno;
	while (!err && (count = pread(from, bytes, sizeof(bytes), (off_t)offset)) != 0) {
		if (count < 0 || write(to, bytes, (size_t)count) != count)
			err = errno ? -errno : -ENOSPC;
		else
			offset += (uint64_t)count;
	}
	if (close(to) && !err)
		err = -errno;
	if (err)
		unlinkat(dir, name, 0);
	return err;
}

static int cut(struct trace_reader *reader, const struct trace_stream *stream)
{
	int fd = openat(reader->dir, stream->file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int err;

	if (fd < 0)
		return -errno;
	errno = 0;
	err = keep_tail(reader->dir, stream->file, fd, stream->bytes);
	if (!err && ftruncate(fd, (off_t)stream->bytes))
		err = -errno;
	close(fd);
	return err;
}

int trace_repair(const char *dir)
{
	struct trace_reader *reader;
	int err, count = 0;

	err = trace_reader_open(&reader, dir);
	if (err)
		return err;
	if (reader->live || flock(reader->dir, LOCK_EX | LOCK_NB))
		err = reader->live || errno == EWOULDBLOCK ? -EBUSY : -errno;
	for (uint32_t i = 0; !err && i < reader->stream_count; i++) {
		struct trace_stream *stream = &reader->streams[i];

		if (stream->bytes == stream->file_bytes)
			continue;
		err = cut(reader, stream);
		count += !err;
	}
	if (!err)
		unlinkat(reader->dir, ".metadata.new", 0); /* a writer that was killed left it */
	trace_reader_close(reader);
	return err ? err : count;
}
