/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/control/queue.h"

#include "agent/control/lock.h"
#include "agent/control/message.h"
#include "base/kernel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define QUEUE_MESSAGES 128

static struct {
	int fd;
	unsigned int count;
	size_t used;
	struct mmsghdr heads[QUEUE_MESSAGES];
	struct iovec parts[QUEUE_MESSAGES];
	char bytes[2 * CONTROL_BYTES_MAX];
} queue = { .fd = -1 };

int queue_fd(void)
{
	return queue.count ? queue.fd : -1;
}

/* Wait for room on the socket until end_ns. 0 or an error. */
static int wait_for_room(uint64_t end_ns)
{
	struct pollfd room = { .fd = queue.fd, .events = POLLOUT };
	uint64_t now_ns = lock_now_ns();
	int ready;

	if (now_ns >= end_ns)
		return -ETIMEDOUT;
	ready = kernel_poll(&room, 1, (int)((end_ns - now_ns) / 1000000 + 1));
	if (!ready)
		return -ETIMEDOUT;
	return ready > 0 && (room.revents & (POLLHUP | POLLERR | POLLNVAL)) ? -EPIPE : 0;
}

int queue_flush(void)
{
	uint64_t end_ns = queue.count ? lock_now_ns() + (uint64_t)MESSAGE_SEND_MS * 1000000 : 0;
	unsigned int done = 0;
	int error = 0;

	while (!error && done < queue.count) {
		long sent = kernel_call(SYS_sendmmsg, queue.fd, (long)(queue.heads + done),
					queue.count - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent > 0)
			done += (unsigned int)sent;
		else if (errno == EAGAIN)
			error = wait_for_room(end_ns);
		else if (errno != EINTR)
			error = -errno;
	}
	queue.count = 0;
	queue.used = 0;
	return error;
}

void queue_forked(void)
{
	queue.fd = -1;
	queue.count = 0;
	queue.used = 0;
}

static char *append(char *at, const void *from, size_t bytes)
{
	if (bytes)
		memcpy(at, from, bytes);
	return at + bytes;
}

int queue_put(int fd, uint16_t type, uint32_t serial, const void *body, size_t bytes,
	      const void *more, size_t more_bytes)
{
	struct wm_message message = {
		.magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .type = type, .serial = serial
	};
	char *start;
	int error = 0;

	if (sizeof message + bytes + more_bytes > CONTROL_BYTES_MAX)
		more_bytes = CONTROL_BYTES_MAX - sizeof message - bytes;
	message.bytes = (uint32_t)(bytes + more_bytes);
	if (queue.count && (queue.fd != fd || queue.count == QUEUE_MESSAGES ||
			    queue.used + sizeof message + message.bytes > sizeof queue.bytes))
		error = queue_flush();
	queue.fd = fd;
	start = queue.bytes + queue.used;
	append(append(append(start, &message, sizeof message), body, bytes), more, more_bytes);
	queue.parts[queue.count] = (struct iovec){ start, sizeof message + message.bytes };
	queue.heads[queue.count] = (struct mmsghdr){
		.msg_hdr = { .msg_iov = &queue.parts[queue.count], .msg_iovlen = 1 }
	};
	queue.used += sizeof message + message.bytes;
	queue.count++;
	return error;
}
