/* SPDX-License-Identifier: MIT */
#include "trace/packed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define SKIPPED_MAGIC 0x184D2A50u /* and the 15 after it: what is no content */

int packed_is_name(const char *file)
{
	size_t bytes = strlen(file), suffix = sizeof(PACKED_SUFFIX) - 1;

	return bytes > suffix && !strcmp(file + bytes - suffix, PACKED_SUFFIX);
}

int packed_open(struct packed *packed, int dir, const char *file)
{
	int fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct stat about;
	void *map = NULL;
	int err = 0;

	*packed = (struct packed){ 0 };
	if (fd < 0 || fstat(fd, &about))
		err = -errno;
	else if (about.st_size)
		map = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		err = -errno;
	else if (map)
		*packed = (struct packed){ .map = map, .bytes = (uint64_t)about.st_size };
	if (fd >= 0)
		close(fd);
	return err;
}

void packed_release(struct packed *packed)
{
	if (packed->map)
		munmap((void *)(uintptr_t)packed->map, packed->bytes);
	free(packed->frame);
	ZSTD_freeDCtx(packed->context);
	*packed = (struct packed){ 0 };
}

/* A whole frame: its bytes in the file, and those of its content. */
struct frame {
	uint64_t bytes, content;
	int is_content; /* or to be passed over */
};

/* NULL, or why there is none at `at`, which is not the end. */
static const char *frame_at(const struct packed *packed, uint64_t at, struct frame *frame)
{
	const uint8_t *begin = packed->map + at;
	uint64_t left = packed->bytes - at;
	unsigned long long content;
	uint32_t magic = 0;

	if (left >= sizeof(magic))
		memcpy(&magic, begin, sizeof(magic));
	frame->bytes = ZSTD_findFrameCompressedSize(begin, left);
	if (ZSTD_isError(frame->bytes))
		return "cut in a compressed frame, or none";
	frame->is_content = (magic & ~15u) != SKIPPED_MAGIC;
	frame->content = 0;
	if (!frame->is_content)
		return NULL;
	content = ZSTD_getFrameContentSize(begin, left);
	if (content > PACKED_FRAME_MAX) /* also where it is not told */
		return "a compressed frame of a size that none has";
	frame->content = content;
	return NULL;
}

uint64_t packed_length(const struct packed *packed)
{
	uint64_t length = 0, at = 0;
	struct frame frame;

	while (at < packed->bytes && !frame_at(packed, at, &frame)) {
		length += frame.content;
		at += frame.bytes;
	}
	return length;
}

/* Unpack the next frame with content. 1; 0 at the end or a fault; -ENOMEM. */
static int frame_next(struct packed *packed)
{
	struct frame frame = { 0 };
	size_t got;

	while (!packed->fault && packed->at < packed->bytes) {
		packed->fault = frame_at(packed, packed->at, &frame);
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
	got = ZSTD_decompressDCtx(packed->context, packed->frame, PACKED_FRAME_MAX,
				  packed->map + packed->at, frame.bytes);
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
