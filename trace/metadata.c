/* SPDX-License-Identifier: MIT */
#include "trace/metadata.h"

#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define METADATA_NEW ".metadata.new"
#define PAGE 4096u

/* Write to the file's end, up to the end of a page each time. */
static int write_whole(struct metadata *metadata, const struct text *text)
{
	if (text->error)
		return text->error;
	for (size_t done = 0; done < text->bytes;) {
		size_t page = PAGE - metadata->bytes % PAGE;
		size_t want = text->bytes - done < page ? text->bytes - done : page;
		ssize_t count = pwrite(metadata->fd, text->at + done, want, (off_t)metadata->bytes);

		if (count < 0 && errno != EINTR)
			return -errno;
		if (count > 0) {
			done += (size_t)count;
			metadata->bytes += (uint64_t)count;
		}
	}
	return 0;
}

int metadata_replace(struct metadata *metadata, int dir, const struct text *head,
		     const struct text *body)
{
	struct metadata made = { .body_bytes = body->bytes };
	int err;

	made.fd = folder_create(dir, METADATA_NEW, 0600);
	if (made.fd < 0)
		return made.fd;
	err = write_whole(&made, head);
	if (!err)
		err = write_whole(&made, body);
	if (!err && renameat(dir, METADATA_NEW, dir, "metadata"))
		err = -errno;
	if (err) {
		close(made.fd);
		unlinkat(dir, METADATA_NEW, 0);
		return err;
	}
	metadata_release(metadata);
	*metadata = made;
	return 0;
}

/* Bytes to append: at `start` of the file. */
struct addition {
	uint64_t start;
	struct text text;
};

static int place(struct addition *to, const char *declaration, size_t bytes)
{
	size_t room = PAGE - (to->start + to->text.bytes) % PAGE;

	if (bytes > PAGE)
		return -E2BIG;
	if (bytes > room)
		text_format(&to->text, "%*s", (int)room, "\n");
	text_add(&to->text, declaration, bytes);
	return 0;
}

/* An empty line ends each declaration, and is in none: strings have no newline. */
static int place_body(struct addition *to, const char *at, size_t bytes)
{
	int err = 0;

	for (const char *end = at + bytes; at < end && !err;) {
		const char *empty = memmem(at, (size_t)(end - at), "\n\n", 2);
		size_t count = empty ? (size_t)(empty + 2 - at) : (size_t)(end - at);

		err = place(to, at, count);
		at += count;
	}
	return err;
}

int metadata_append(struct metadata *metadata, const struct text *body)
{
	struct addition added = { .start = metadata->bytes };
	int err;

	if (metadata->fd < 0)
		return -EBADF;
	err = place_body(&added, body->at + metadata->body_bytes,
			 body->bytes - metadata->body_bytes);
	if (!err) {
		err = write_whole(metadata, &added.text);
		/* as on a full disk, where a page may be written in part */
		if (err) {
			(void)!ftruncate(metadata->fd, (off_t)added.start);
			metadata_release(metadata);
		}
	}
	text_release(&added.text);
	if (!err)
		metadata->body_bytes = body->bytes;
	return err;
}

void metadata_release(struct metadata *metadata)
{
	if (metadata->fd >= 0)
		close(metadata->fd);
	*metadata = (struct metadata){ .fd = -1 };
}
