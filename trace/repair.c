/* SPDX-License-Identifier: MIT */
/*
 * babeltrace2 reads nothing at all of a trace with one torn packet in it, and stops at an event
 * that it can't read. So repair cuts every stream behind its last whole packet, and keeps the rest
 * beside it. A packet with a bad event gets a content_size that ends before that event: the bytes
 * stay where they are, and our own reader reports them. The events of removed packets count as lost
 * from then on.
 */
#include "trace/folder.h"
#include "trace/index.h"
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#include <waymark/error.h>

/* Copy everything from `offset` on into a hidden file, which readers skip. */
static int keep_tail(int dir, const char *file, int from, uint64_t offset)
{
	char name[300], bytes[65536];
	ssize_t count;
	int to, err = 0;

	snprintf(name, sizeof(name), ".cut-%s", file);
	unlinkat(dir, name, 0); /* an earlier repair's */
	to = folder_create(dir, name, 0600);
	if (to < 0)
		return to;
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
	int fd = openat(reader->dir, stream->file, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
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

/* Where the events of a packet end that can be read; its content's end when all can. */
static const uint8_t *good_end(struct trace_packet *packet, const struct trace_schema *schema)
{
	const struct trace_class *class;
	const uint8_t *fields, *start;

	while ((start = packet->walk.at) < packet->walk.end)
		if (reader_packet_event(packet, schema, &class, &fields))
			return start;
	return start;
}

/* Shorten the packets that hold what can't be read. Returns how many. */
static int shorten(struct trace_reader *reader, struct trace_stream *stream)
{
	int fd, count = 0, err = reader_stream_open(reader, stream);
	struct trace_packet packet;
	uint64_t offset = 0;

	if (err)
		return err;
	fd = openat(reader->dir, stream->file, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	while (!err && reader_stream_packet(reader, stream, &offset, &packet)) {
		uint64_t at = packet.offset + offsetof(struct wm_packet, content_bits);
		uint64_t bits = 8 * (uint64_t)(good_end(&packet, stream_schema(reader, stream)) -
					       packet.bytes);

		if (bits == packet.head.content_bits)
			continue;
		if (pwrite(fd, &bits, sizeof(bits), (off_t)at) != sizeof(bits))
			err = errno ? -errno : -EIO;
		count++;
	}
	close(fd);
	reader_stream_unmap(stream);
	return err ? err : count;
}

/* A file that is no stream of this trace gets a name that readers skip. */
static int hide(const struct trace_reader *reader, const struct trace_stream *stream)
{
	char name[300];

	snprintf(name, sizeof(name), ".cut-%s", stream->file);
	return renameat(reader->dir, stream->file, reader->dir, name) ? -errno : 1;
}

static int repair_stream(struct trace_reader *reader, struct trace_stream *stream)
{
	int err = 0, shortened;

	if (stream->is_foreign)
		return hide(reader, stream);
	shortened = stream->packets ? shorten(reader, stream) : 0;
	if (shortened < 0)
		return shortened;
	if (stream->bytes != stream->file_bytes) {
		err = cut(reader, stream);
		shortened++;
	}
	return err ? err : shortened > 0;
}

/* Whether facts are missing: then events whose class is unknown would look torn. */
static int lacks_facts(const struct trace_reader *reader)
{
	const struct trace_stream *facts = &reader->streams[reader->stream_count];

	return reader->meta.is_broken || (!reader->is_indexed && facts->bytes < facts->file_bytes);
}

int trace_repair(const char *dir)
{
	struct trace_reader *reader;
	int err, count = 0;

	err = trace_reader_open(&reader, dir);
	if (err)
		return err;
	err = folder_check(reader->dir);
	if (!err && (reader->live || flock(reader->dir, LOCK_EX | LOCK_NB)))
		err = reader->live || errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (!err && lacks_facts(reader))
		err = -WM_E_NOT_A_TRACE;
	for (uint32_t i = 0; !err && i < reader->file_count; i++)
		if (reader->streams[i].is_packed)
			err = -WM_E_TRACE_PACKED;
	for (uint32_t i = 0; !err && i < reader->file_count; i++) {
		err = repair_stream(reader, &reader->streams[i]);
		count += err > 0;
		err = err > 0 ? 0 : err;
	}
	if (!err && reader->is_indexed)
		err = index_mend(reader);
	if (!err)
		unlinkat(reader->dir, ".metadata.new", 0); /* a writer that was killed left it */
	trace_reader_close(reader);
	return err ? err : count;
}
