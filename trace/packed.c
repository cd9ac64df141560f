/* SPDX-License-Identifier: MIT */
#include "trace/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define PACKED_IN_BYTES (2u << 20) /* more than a frame that we write, and the head of the next */
#define SKIPPED_MAGIC 0x184D2A50u  /* and the 15 after it: what is no content */

int packed_is_name(const char *file)
{
	size_t bytes = strlen(file), suffix = sizeof(PACKED_SUFFIX) - 1;

	return bytes > suffix && !strcmp(file + bytes - suffix, PACKED_SUFFIX);
}

int packed_open(struct packed *packed, int dir, const char *file)
{
	struct stat about;

	*packed = (struct packed){ .fd = openat(dir, file,
						O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW) };
	if (packed->fd < 0 || fstat(packed->fd, &about))
		return -errno;
	packed->bytes = (uint64_t)about.st_size;
	return 0;
}

void packed_release(struct packed *packed)
{
	if (packed->fd >= 0)
		close(packed->fd);
	free(packed->in);
	free(packed->frame);
	ZSTD_freeDCtx(packed->context);
	*packed = (struct packed){ .fd = -1 };
}

static int in_grow(struct packed *packed, size_t room)
{
	uint8_t *larger = packed->in_room < room ? realloc(packed->in, room) : packed->in;

	if (!larger)
		return -ENOMEM;
	packed->in = larger;
	packed->in_room = packed->in_room < room ? room : packed->in_room;
	return 0;
}

/*
 * As much of the file from `at` on as is there, up to `bytes` or more. Twice as much is read,
 * so that many small frames cost no more than a large one. NULL: no memory.
 */
static const uint8_t *bytes_at(struct packed *packed, uint64_t at, size_t bytes, size_t *there)
{
	uint64_t end = packed->in_at + packed->in_bytes;
	ssize_t got = 1;

	if (!packed->in || at < packed->in_at || (end < packed->bytes && at + bytes > end)) {
		size_t kept = at >= packed->in_at && at < end ? (size_t)(end - at) : 0;

		if (in_grow(packed, 2 * bytes))
			return NULL;
		memmove(packed->in, packed->in + packed->in_bytes - kept, kept);
		packed->in_at = at;
		packed->in_bytes = kept;
		while (got > 0 && packed->in_bytes < packed->in_room) {
			got = pread(packed->fd, packed->in + packed->in_bytes,
				    packed->in_room - packed->in_bytes,
				    (off_t)(at + packed->in_bytes));
			if (got < 0 && errno == EINTR)
				got = 1;
			else if (got > 0)
				packed->in_bytes += (size_t)got;
		}
		if (packed->in_at + packed->in_bytes < packed->bytes && got <= 0)
			packed->bytes = packed->in_at + packed->in_bytes; /* it was cut */
	}
	end = packed->in_at + packed->in_bytes;
	*there = at < end ? (size_t)(end - at) : 0;
	return packed->in + (packed->in_bytes - *there);
}

/* A whole frame: its bytes in the file, and those of its content. */
struct frame {
	uint64_t bytes, content;
	int is_content; /* or to be passed over */
};

/*
 * NULL, or why there is no frame at `at`, which is before the end. A frame with content is then in
 * memory, at *begin.
 */
static const char *frame_at(struct packed *packed, uint64_t at, struct frame *frame,
			    const uint8_t **begin)
{
	static const char cut[] = "cut in a compressed frame, or none";
	uint64_t left = packed->bytes - at;
	unsigned long long content;
	uint32_t head[2] = { 0 };
	size_t there;

	*begin = bytes_at(packed, at, PACKED_IN_BYTES, &there);
	if (!*begin || there < sizeof(head))
		return cut;
	memcpy(head, *begin, sizeof(head));
	frame->is_content = (head[0] & ~15u) != SKIPPED_MAGIC;
	frame->content = 0;
	if (!frame->is_content) {
		frame->bytes = sizeof(head) + (uint64_t)head[1];
		return frame->bytes > left ? cut : NULL;
	}
	content = ZSTD_getFrameContentSize(*begin, there);
	if (content == ZSTD_CONTENTSIZE_ERROR)
		return cut;
	if (content > PACKED_FRAME_MAX) /* also if it is not given */
		return "a compressed frame of an impossible size";
	frame->content = content;
	frame->bytes = ZSTD_findFrameCompressedSize(*begin, there);
	/* another writer's are larger than ours */
	if (ZSTD_isError(frame->bytes) && there < left) {
		*begin = bytes_at(packed, at, ZSTD_compressBound(PACKED_FRAME_MAX), &there);
		frame->bytes = *begin ? ZSTD_findFrameCompressedSize(*begin, there) : (size_t)-1;
	}
	return ZSTD_isError(frame->bytes) ? cut : NULL;
}

uint64_t packed_length(struct packed *packed)
{
	uint64_t length = 0, at = 0;
	const uint8_t *begin;
	struct frame frame;

	while (at < packed->bytes && !frame_at(packed, at, &frame, &begin)) {
		length += frame.content;
		at += frame.bytes;
	}
	return length;
}

/* Unpack the next frame with content. 1; 0 at the end or a fault; -ENOMEM. */
static int frame_next(struct packed *packed)
{
	struct frame frame = { 0 };
	const uint8_t *begin = NULL;
	size_t got;

	while (!packed->fault && packed->at < packed->bytes) {
		packed->fault = frame_at(packed, packed->at, &frame, &begin);
		if (packed->fault)
			return 0;
		if (frame.content)
			break;
		packed->at += frame.bytes;
	}
	if (packed->fault || packed->at >= packed->bytes)
		return 0;
	if (!packed->context)
		packed->context = ZSTD_createDCtx();
	if (!packed->frame)
		packed->frame = malloc(PACKED_FRAME_MAX);
	if (!packed->context || !packed->frame)
		return -ENOMEM;
	got = ZSTD_decompressDCtx(packed->context, packed->frame, PACKED_FRAME_MAX, begin,
				  frame.bytes);
	if (ZSTD_isError(got) || got != frame.content) {
		packed->fault = "a compressed frame that can't be unpacked";
		return 0;
	}
	packed->begin = packed->end;
	packed->end += got;
	packed->at += frame.bytes;
	return 1;
}

ssize_t packed_read(struct packed *packed, uint64_t offset, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		uint64_t from = offset + done, count;

		if (from >= packed->end) {
			int more = frame_next(packed);

			if (more < 0)
				return more;
			if (!more)
				break;
			continue;
		}
		count = packed->end - from < bytes - done ? packed->end - from : bytes - done;
		memcpy((uint8_t *)to + done, packed->frame + (from - packed->begin), count);
		done += count;
	}
	return (ssize_t)done;
}
