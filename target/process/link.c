/* SPDX-License-Identifier: MIT */
#include "target/process/link.h"

#include "base/socketdir.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif
#define SEND_WAIT_MS 1000
#define PARTS_MAX 6
#define FDS_MAX 8 /* a peer that sends more than one is wrong, but none may leak */

/* Both sides check: same user, or root. Root itself may talk to anyone, as it may trace anyone. */
static int peer_check(struct link *link)
{
	struct ucred peer = { 0 };
	int err = socketdir_peer(link->fd, &peer);

	link->pid = peer.pid;
	return err == -WM_E_PEER_UID && geteuid() == 0 ? 0 : err;
}

int link_adopt(struct link *link, int fd)
{
	int err;

	*link = (struct link){ .fd = fd };
	err = peer_check(link);
	if (!err) {
		link->buffer = malloc(BUNDLE_BUFFER_BYTES);
		err = link->buffer ? 0 : -ENOMEM;
	}
	if (err)
		link_release(link);
	return err;
}

int link_connect(struct link *link, const char *path)
{
	struct sockaddr_un address;
	int fd, err;

	*link = (struct link){ .fd = -1 };
	err = socketdir_address(&address, "", path);
	if (err)
		return err;
	/* non-blocking: a listener whose queue is full must not hold us */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return link_adopt(link, fd);
}

int link_pidfd(const struct link *link, pid_t pid)
{
	socklen_t bytes = sizeof(int);
	int fd = -1;

	if (link->fd >= 0 && link->pid == pid && pid > 0) {
		if (!getsockopt(link->fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes))
			return fd;
		if (errno == EINVAL || errno == ESRCH)
			return -ESRCH;
	}
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static int wait_writable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLOUT };
	int count;

	do {
		count = poll(&poll_fd, 1, SEND_WAIT_MS);
	} while (count < 0 && errno == EINTR);
	if (count < 0)
		return -errno;
	return count ? 0 : -WM_E_AGENT_SILENT;
}

int link_send(struct link *link, uint16_t type, const struct iovec *parts, int count)
{
	struct wm_message head = {
		.magic = CONTROL_MAGIC,
		.version = CONTROL_VERSION,
		.type = type,
	};
	struct iovec all[PARTS_MAX + 1] = { { &head, sizeof(head) } };
	struct msghdr packet = { .msg_iov = all, .msg_iovlen = (size_t)count + 1 };
	int err;

	if (link->fd < 0)
		return -WM_E_GONE;
	if (count > PARTS_MAX)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		all[i + 1] = parts[i];
		head.bytes += (uint32_t)parts[i].iov_len;
	}
	if (head.bytes > CONTROL_BYTES_MAX - sizeof(head))
		return -E2BIG;
	link->serial = link->serial % INT32_MAX + 1;
	head.serial = link->serial;
	while (sendmsg(link->fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return -WM_E_GONE;
		if (errno != EAGAIN)
			return -errno;
		err = wait_writable(link->fd);
		if (err)
			return err;
	}
	return (int)head.serial;
}

/* Take the first descriptor that came, close all others. */
static int fd_take(struct msghdr *packet)
{
	int kept = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c; c = CMSG_NXTHDR(packet, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (kept < 0)
				kept = fd;
			else
				close(fd);
		}
	}
	return kept;
}

/* One packet. 1 with its message, 0 without one, or an error. */
static int packet_receive(struct link *link, struct link_message *message)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = { link->buffer, CONTROL_BYTES_MAX };
	struct msghdr packet = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct wm_message head;
	ssize_t got;

	/*
	 * A peer that ends with our request unread resets the connection. The kernel reports that
	 * once, ahead of what it has sent before.
	 */
	do {
		got = recvmsg(link->fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (got == 0)
		return -WM_E_GONE;
	message->fd = fd_take(&packet);
	/* this process has no free descriptor: the kernel delivers the message without it */
	if (message->fd < 0 && packet.msg_flags & MSG_CTRUNC)
		return -EMFILE;

	memcpy(&head, link->buffer, sizeof(head));
	if ((size_t)got < sizeof(head) || (packet.msg_flags & MSG_TRUNC) ||
	    head.magic != CONTROL_MAGIC || head.version != CONTROL_VERSION ||
	    head.bytes != (size_t)got - sizeof(head)) {
		if (message->fd >= 0)
			close(message->fd);
		message->fd = -1;
		return -WM_E_PROTOCOL;
	}
	message->type = head.type;
	message->serial = head.serial;
	message->body = link->buffer + sizeof(head);
	message->bytes = head.bytes;
	message->body[message->bytes] = 0;
	return 1;
}

/* 1 with the next message of the bundle that is open, 0 if none is, or an error. */
static int bundle_receive(struct link *link, struct link_message *message)
{
	struct wm_message head;
	int err = bundle_next(&link->bundle, &head, &message->body);

	if (err > 0) {
		message->type = head.type;
		message->serial = head.serial;
		message->bytes = head.bytes;
	}
	return err;
}

int link_receive(struct link *link, struct link_message *message)
{
	int err;

	*message = (struct link_message){ .fd = -1 };
	if (link->fd < 0)
		return -WM_E_GONE;
	err = bundle_receive(link, message);
	if (!err)
		err = packet_receive(link, message);
	if (err <= 0 || message->type != CONTROL_BUNDLE)
		return err;
	err = bundle_open(&link->bundle, link->buffer, message->body, message->bytes, message->fd);
	*message = (struct link_message){ .fd = -1 };
	return err ? err : bundle_receive(link, message);
}

void link_release(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	bundle_close(&link->bundle);
	free(link->buffer);
	*link = (struct link){ .fd = -1 };
}
