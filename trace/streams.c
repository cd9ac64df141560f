/* SPDX-License-Identifier: MIT */
#include "trace/streams.h"

#include "base/array.h"
#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * Close any: where more streams than are open are written to in turn, the one that was written to
 * longest ago would always be the next to be needed.
 */
static void close_one(struct streams *streams)
{
	uint32_t place = slots_hash(++streams->closed) % streams->open_count;
	struct stream *file = streams->open[place];

	if (close(file->fd) && !streams->close_error)
		streams->close_error = -errno;
	file->fd = -1;
	streams->open[place] = streams->open[--streams->open_count];
}

static int file_open(struct streams *streams, int dir, struct stream *file)
{
	char name[INDEX_FILE_BYTES];

	if (file->fd >= 0)
		return 0;
	index_file(&file->next, name);
	if (streams->open_count == streams->open_max)
		close_one(streams);
	for (;;) {
		int err;

		if (file->is_made)
			file->fd = openat(dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		else
			file->fd = folder_create(dir, name, 0600);
		if (file->fd >= 0)
			break;
		err = file->is_made ? -errno : file->fd;
		file->fd = -1;
		if ((err != -EMFILE && err != -ENFILE) || !streams->open_count)
			return err;
		close_one(streams);
	}
	file->is_made = 1;
	streams->open[streams->open_count++] = file;
	return 0;
}

void streams_init(struct streams *streams)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	*streams = (struct streams){ .open_max = STREAMS_OPEN_MIN };
	if (limit.rlim_cur / 8 > STREAMS_OPEN_MIN)
		streams->open_max = limit.rlim_cur / 8 < STREAMS_OPEN_MAX
					    ? (uint32_t)(limit.rlim_cur / 8)
					    : STREAMS_OPEN_MAX;
}

int streams_find(struct streams *streams, const struct wm_packet *head, struct stream **found)
{
	uint32_t hash = slots_hash(head->instance ^ (uint64_t)head->stream_id << 40), number;
	struct stream *file;

	if (slots_fit(&streams->slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&streams->slots, hash, &at, &number);) {
		*found = streams->all[number];
		if ((*found)->next.process == head->stream_id &&
		    (*found)->next.instance == head->instance)
			return 0;
	}
	if (array_grow(&streams->all, &streams->room, streams->count + 1ul, sizeof(*streams->all)))
		return -ENOMEM;
	*found = file = malloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	*file = (struct stream){
		.next = { .process = head->stream_id,
			  .pid = head->pid,
			  .tid = head->tid,
			  .depth = head->depth,
			  .number = streams->count - 1, /* UINT32_MAX for the facts, the first */
			  .instance = head->instance },
		.fd = -1,
	};
	streams->all[streams->count] = file;
	slots_add(&streams->slots, hash, streams->count++);
	return 0;
}

/* Write both parts at an offset; what was written of them on failure is for the caller to cut. */
static int write_at(int fd, struct iovec parts[2], uint64_t offset)
{
	struct iovec *part = parts;

	while (part < parts + 2) {
		ssize_t count = pwritev(fd, part, (int)(parts + 2 - part), (off_t)offset);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		offset += (uint64_t)count;
		while (part < parts + 2 && (size_t)count >= part->iov_len)
			count -= (ssize_t)part++->iov_len;
		if (part < parts + 2) {
			part->iov_base = (char *)part->iov_base + count;
			part->iov_len -= (size_t)count;
		}
	}
	return 0;
}

int streams_write(struct streams *streams, int dir, struct index *index, struct stream *stream,
		  struct wm_packet *head, const void *content, size_t bytes, uint32_t events)
{
	union {
		const void *from;
		void *base;
	} of_content = { content };
	struct iovec parts[2] = {
		{ head, sizeof(*head) },
		{ of_content.base, bytes },
	};
	struct index_packet *next = &stream->next;
	int err = file_open(streams, dir, stream);

	if (err)
		return err;
	next->events = events;
	next->bytes = sizeof(*head) + bytes;
	next->begin_ticks = head->begin_ticks;
	next->end_ticks = head->end_ticks;
	err = write_at(stream->fd, parts, next->offset);
	if (!err)
		err = index_add(index, next);
	if (err) {
		/* If even that fails, the next packet is written over what stays behind. */
		(void)!ftruncate(stream->fd, (off_t)next->offset);
		return err;
	}
	next->offset += next->bytes;
	return 0;
}

int streams_release(struct streams *streams)
{
	while (streams->open_count)
		close_one(streams);
	for (uint32_t i = 0; i < streams->count; i++)
		free(streams->all[i]);
	free(streams->all);
	free(streams->slots.all);
	return streams->close_error;
}
