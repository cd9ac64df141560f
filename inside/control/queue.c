/* SPDX-License-Identifier: MIT */
#include "inside/control/queue.h"

#include "base/kernel.h"
#include "inside/control/message.h"

#include <string.h>

#define PACKET_HEAD_BYTES (sizeof(struct wm_message) + sizeof(struct control_bundle))
#define PACKET_ROOM_BYTES (CONTROL_BYTES_MAX - PACKET_HEAD_BYTES)

/* Those in the file come before those in `bytes`. */
static struct {
	struct queue_peer peer;
	int file; /* -1: none */
	uint64_t file_bytes;
	uint32_t file_count, count;
	size_t used; /* of `bytes`, behind the room for the packet's heads */
	/* one that alone fills a packet has room, too, with the zeros behind it */
	char bytes[PACKET_HEAD_BYTES + CONTROL_BYTES_MAX + CONTROL_BUNDLE_ALIGN];
} queue = { .peer.fd = -1, .file = -1 };

int queue_fd(void)
{
	return queue.count || queue.file_count ? queue.peer.fd : -1;
}

static void drop_file(void)
{
	if (queue.file >= 0)
		kernel_close(queue.file);
	queue.file = -1;
	queue.file_bytes = 0;
	queue.file_count = 0;
}

static int send_file(void)
{
	struct control_bundle bundle = { .bytes = queue.file_bytes, .count = queue.file_count };
	int error = 0;

	if (queue.file_count) {
		/* not F_SEAL_WRITE: before it allows that seal, the kernel may wait for all CPUs */
		kernel_memfd_seal(queue.file, 0);
		error = message_send(queue.peer.fd, CONTROL_BUNDLE, 0, &bundle, sizeof bundle, NULL,
				     0, queue.file, queue.peer.patience_ns);
	}
	drop_file();
	return error;
}

static int send_bytes(void)
{
	char *first = queue.bytes + PACKET_HEAD_BYTES;
	struct control_bundle bundle = { .bytes = queue.used, .count = queue.count };
	struct wm_message message = { .magic = CONTROL_MAGIC,
				      .version = CONTROL_VERSION,
				      .type = CONTROL_BUNDLE,
				      .bytes = (uint32_t)(sizeof bundle + queue.used) };
	int error = 0;

	if (queue.count == 1) {
		memcpy(&message, first, sizeof message);
		error = message_send_whole(queue.peer.fd, first, sizeof message + message.bytes,
					   queue.peer.patience_ns);
	} else if (queue.count) {
		memcpy(queue.bytes, &message, sizeof message);
		memcpy(queue.bytes + sizeof message, &bundle, sizeof bundle);
		error = message_send_whole(queue.peer.fd, queue.bytes,
					   PACKET_HEAD_BYTES + queue.used, queue.peer.patience_ns);
	}
	queue.count = 0;
	queue.used = 0;
	return error;
}

/* Move the bytes to the file. 0, or an error and they are where they were. */
static int spill(void)
{
	size_t done = 0;

	if (queue.file_bytes + queue.used > CONTROL_BUNDLE_BYTES_MAX)
		return -1;
	if (queue.file < 0)
		queue.file = kernel_memfd_create("waymark-bundle");
	while (queue.file >= 0 && done < queue.used) {
		ssize_t wrote = kernel_pwrite(queue.file, queue.bytes + PACKET_HEAD_BYTES + done,
					      queue.used - done, (off_t)(queue.file_bytes + done));

		if (wrote <= 0)
			break;
		done += (size_t)wrote;
	}
	if (done < queue.used)
		return -1;
	queue.file_bytes += queue.used;
	queue.file_count += queue.count;
	queue.used = 0;
	queue.count = 0;
	return 0;
}

int queue_flush(void)
{
	int error;

	/* once there is a file, the rest goes with it, not into a second packet */
	if (queue.file_count && queue.count)
		spill();
	error = send_file();
	if (error) {
		queue.count = 0;
		queue.used = 0;
		return error;
	}
	return send_bytes();
}

void queue_forked(void)
{
	queue.peer.fd = -1;
	queue.file = -1; /* was never in this table */
	drop_file();
	queue.count = 0;
	queue.used = 0;
}

static char *append(char *at, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(at, from, bytes);
	return at + bytes;
}

int queue_put(const struct queue_peer *peer, uint16_t type, uint32_t serial, const void *body,
	      size_t bytes, const void *more, size_t more_bytes)
{
	struct wm_message message = {
		.magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .type = type, .serial = serial
	};
	size_t whole, padded;
	char *at;
	int error = 0;

	if (sizeof message + bytes + more_bytes > CONTROL_BYTES_MAX)
		more_bytes = CONTROL_BYTES_MAX - sizeof message - bytes;
	message.bytes = (uint32_t)(bytes + more_bytes);
	whole = sizeof message + message.bytes;
	padded = (whole + CONTROL_BUNDLE_ALIGN) & ~(size_t)(CONTROL_BUNDLE_ALIGN - 1);
	if (queue_fd() >= 0 && queue.peer.fd != peer->fd)
		error = queue_flush();
	else if (queue.count && queue.used + padded > PACKET_ROOM_BYTES && spill())
		error = queue_flush();
	queue.peer = *peer;
	at = queue.bytes + PACKET_HEAD_BYTES + queue.used;
	at = append(append(append(at, &message, sizeof message), body, bytes), more, more_bytes);
	memset(at, 0, padded - whole);
	queue.used += padded;
	queue.count++;
	return error;
}
