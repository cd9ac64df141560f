/* SPDX-License-Identifier: MIT */
#include "target/process/bundle.h"

#include "target/process/sealed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define PIECE_BYTES (CONTROL_BYTES_MAX + CONTROL_BUNDLE_ALIGN)

/*
 * A pipe, or a file of a file system that never answers, could hold us up. That what is read can't
 * shrink or be cut is not relied on, since each piece is copied before its check.
 */
static int file_check(int fd, uint64_t bytes)
{
	uint64_t file_bytes;

	return !sealed_bytes(fd, &file_bytes) && file_bytes >= bytes;
}

int bundle_open(struct bundle *bundle, unsigned char *buffer, const unsigned char *body,
		size_t bytes, int fd)
{
	struct control_bundle about = { 0 };

	*bundle = (struct bundle){ .is_file = fd >= 0, .fd = fd, .buffer = buffer };
	if (bytes >= sizeof(about))
		memcpy(&about, body, sizeof(about));
	/* the smallest message is its head and as many zeros as that needs */
	if (!about.count || about.bytes > CONTROL_BUNDLE_BYTES_MAX ||
	    about.count > about.bytes / (sizeof(struct wm_message) + CONTROL_BUNDLE_ALIGN) ||
	    bytes - sizeof(about) != (fd >= 0 ? 0 : about.bytes) ||
	    (fd >= 0 && !file_check(fd, about.bytes))) {
		bundle_close(bundle);
		return -WM_E_PROTOCOL;
	}
	bundle->left = about.count;
	bundle->bytes = about.bytes;
	if (fd < 0) {
		bundle->used = (size_t)(body + sizeof(about) - buffer);
		bundle->filled = bundle->used + bytes - sizeof(about);
	}
	return 0;
}

/* Have `bytes` of what was not taken yet in the buffer. False if there aren't so many. */
static int have(struct bundle *bundle, size_t bytes)
{
	uint64_t left = bundle->bytes - bundle->at;
	size_t piece = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;

	if (bundle->filled - bundle->used >= bytes)
		return 1;
	if (!bundle->is_file || piece < bytes)
		return 0;
	bundle->used = bundle->filled = 0;
	while (bundle->filled < piece) {
		ssize_t got = pread(bundle->fd, bundle->buffer + bundle->filled,
				    piece - bundle->filled, (off_t)(bundle->at + bundle->filled));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		bundle->filled += (size_t)got;
	}
	return 1;
}

static int message_take(struct bundle *bundle, struct wm_message *head, unsigned char **body)
{
	size_t padded;

	if (!have(bundle, sizeof(*head)))
		return 0;
	memcpy(head, bundle->buffer + bundle->used, sizeof(*head));
	if (head->magic != CONTROL_MAGIC || head->version != CONTROL_VERSION ||
	    head->type == CONTROL_BUNDLE || head->bytes > CONTROL_BYTES_MAX - sizeof(*head))
		return 0;
	padded = (sizeof(*head) + head->bytes + CONTROL_BUNDLE_ALIGN) &
		 ~(size_t)(CONTROL_BUNDLE_ALIGN - 1);
	if (!have(bundle, padded))
		return 0;
	*body = bundle->buffer + bundle->used + sizeof(*head);
	(*body)[head->bytes] = 0; /* where a zero should be already */
	bundle->used += padded;
	bundle->at += padded;
	bundle->left--;
	return bundle->left || bundle->at == bundle->bytes;
}

int bundle_next(struct bundle *bundle, struct wm_message *head, unsigned char **body)
{
	if (!bundle->left) {
		bundle_close(bundle);
		return 0;
	}
	if (message_take(bundle, head, body))
		return 1;
	bundle_close(bundle);
	return -WM_E_PROTOCOL;
}

void bundle_close(struct bundle *bundle)
{
	if (bundle->is_file)
		close(bundle->fd);
	*bundle = (struct bundle){ 0 };
}
