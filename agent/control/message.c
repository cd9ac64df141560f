/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/control/message.h"

#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union passed {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void attach_fd(struct msghdr *head, union passed *passed, int fd)
{
	struct cmsghdr *control;

	memset(passed, 0, sizeof *passed);
	head->msg_control = passed->bytes;
	head->msg_controllen = sizeof passed->bytes;
	control = CMSG_FIRSTHDR(head);
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(control), &fd, sizeof fd);
}

int message_send(int fd, uint16_t type, uint32_t serial, const void *body, size_t bytes,
		 const void *more, size_t more_bytes, int pass)
{
	struct wm_message message = {
		.magic = CONTROL_MAGIC, .version = CONTROL_VERSION, .type = type, .serial = serial
	};
	struct iovec parts[3] = { { &message, sizeof message },
				  { (void *)body, bytes },
				  { (void *)more, more_bytes } };
	struct msghdr head = { .msg_iov = parts, .msg_iovlen = 3 };
	union passed passed;

	if (sizeof message + bytes + more_bytes > CONTROL_BYTES_MAX)
		parts[2].iov_len = more_bytes = CONTROL_BYTES_MAX - sizeof message - bytes;
	message.bytes = (uint32_t)(bytes + more_bytes);
	if (pass >= 0)
		attach_fd(&head, &passed, pass);
	for (;;) {
		struct pollfd room = { .fd = fd, .events = POLLOUT };
		int ready;

		if (kernel_sendmsg(fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		ready = kernel_poll(&room, 1, MESSAGE_SEND_MS);
		if (!ready)
			return -ETIMEDOUT;
		if (ready > 0 && (room.revents & (POLLHUP | POLLERR)))
			return -EPIPE;
	}
}

int message_receive(int fd, void *buffer, struct wm_message **message)
{
	struct iovec part = { buffer, CONTROL_BYTES_MAX };
	/* no room for descriptors: the kernel drops those that are sent to us */
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t got;

	*message = buffer;
	do {
		got = kernel_recvmsg(fd, &head, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? -EAGAIN : -EPIPE;
	if (!got)
		return -EPIPE;
	if ((size_t)got < sizeof **message) {
		memset(buffer, 0, sizeof **message);
		return -WM_E_PROTOCOL;
	}
	if ((head.msg_flags & MSG_TRUNC) || (*message)->magic != CONTROL_MAGIC ||
	    (*message)->version > CONTROL_VERSION || !(*message)->version ||
	    (*message)->bytes != (size_t)got - sizeof **message)
		return -WM_E_PROTOCOL;
	return 0;
}

int message_check_strings(const char *strings, size_t bytes, uint32_t count)
{
	while (count--) {
		const char *end = bytes ? memchr(strings, 0, bytes) : NULL;

		if (!end)
			return -EINVAL;
		bytes -= (size_t)(end + 1 - strings);
		strings = end + 1;
	}
	return bytes ? -EINVAL : 0;
}
