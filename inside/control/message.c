/* SPDX-License-Identifier: MIT */
#include "inside/control/message.h"

#include "base/kernel.h"
#include "inside/runtime/lock.h"

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

/* Wait for room on the socket. 0 or an error. */
static int wait_for_room(int fd, uint64_t *patience_ns)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	uint64_t begin_ns, waited_ns;
	int ready;

	if (!*patience_ns)
		return -ETIMEDOUT;
	begin_ns = lock_now_ns();
	ready = kernel_poll(&room, 1, (int)(*patience_ns / 1000000 + 1));
	/* poll(2) refuses even one where a program may have no descriptors (RLIMIT_NOFILE) */
	if (ready < 0)
		kernel_sleep_ns(1000000);
	waited_ns = lock_now_ns() - begin_ns;
	*patience_ns -= waited_ns < *patience_ns ? waited_ns : *patience_ns;
	return ready > 0 && (room.revents & (POLLHUP | POLLERR | POLLNVAL)) ? -EPIPE : 0;
}

static int send_packet(int fd, const struct msghdr *head, uint64_t *patience_ns)
{
	uint64_t usual_ns = MESSAGE_PATIENCE_NS;
	int error = 0;

	while (!error &&
	       kernel_call(SYS_sendmsg, fd, (long)head, MSG_DONTWAIT | MSG_NOSIGNAL, 0) < 0) {
		if (errno == EAGAIN)
			error = wait_for_room(fd, patience_ns ? patience_ns : &usual_ns);
		else if (errno != EINTR)
			error = -errno;
	}
	return error;
}

int message_send(int fd, uint16_t type, uint32_t serial, const void *body, size_t bytes,
		 const void *more, size_t more_bytes, int pass, uint64_t *patience_ns)
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
	return send_packet(fd, &head, patience_ns);
}

int message_send_whole(int fd, const void *message, size_t bytes, uint64_t *patience_ns)
{
	struct iovec part = { (void *)message, bytes };
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };

	return send_packet(fd, &head, patience_ns);
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
	    (*message)->version != CONTROL_VERSION ||
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
