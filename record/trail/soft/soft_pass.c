/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_pass.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define BELOW_BYTES 1024u /* of the stack, where nothing is yet */
#define ERRORS 4095

/* The bytes there meanwhile. */
struct passing {
	struct msghdr message;
	struct iovec body;
	_Alignas(struct cmsghdr) char rights[CMSG_SPACE(SOFT_PASSED * sizeof(int))];
	int ends[2];
	char byte;
};

static int read_all(const struct soft_remote *remote, uint64_t address, void *bytes, size_t count)
{
	const struct iovec to = { bytes, count };
	const struct iovec from = { (void *)(uintptr_t)address, count };
	ssize_t got = process_vm_readv(remote->pid, &to, 1, &from, 1, 0);

	if (got < 0)
		return -errno;
	return got == (ssize_t)count ? 0 : -EFAULT;
}

/* A call that must go well. */
static int call(struct soft_remote *remote, long number, uint64_t a, uint64_t b, uint64_t c,
		uint64_t d)
{
	const uint64_t arguments[6] = { a, b, c, d };
	int64_t result;
	int err = soft_remote_call(remote, number, arguments, &result);

	if (err)
		return err;
	return result < 0 && result >= -ERRORS ? (int)result : 0;
}

/* Its descriptor, duplicated into this process. */
static int take_fd(pid_t pid, int fd)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), got;

	if (process < 0)
		return -errno;
	got = (int)syscall(SYS_pidfd_getfd, process, fd, 0);
	if (got < 0)
		got = -errno;
	close(process);
	return got;
}

static int send_fds(int to, const int fds[SOFT_PASSED])
{
	struct passing passing = { .byte = 0 };
	struct iovec body = { &passing.byte, 1 };
	struct msghdr message = { .msg_iov = &body,
				  .msg_iovlen = 1,
				  .msg_control = passing.rights,
				  .msg_controllen = sizeof(passing.rights) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	*head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(SOFT_PASSED * sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(head), fds, SOFT_PASSED * sizeof(int));
	return sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -errno;
}

/* Receive it there, by the message at `at`. */
static int receive(struct soft_remote *remote, uint64_t at, int end, int got[SOFT_PASSED])
{
	struct passing passing = {
		.message = { .msg_iov = (void *)(uintptr_t)(at + offsetof(struct passing, body)),
			     .msg_iovlen = 1,
			     .msg_control = (void *)(uintptr_t)(at +
								offsetof(struct passing, rights)),
			     .msg_controllen = sizeof(passing.rights) },
		.body = { (void *)(uintptr_t)(at + offsetof(struct passing, byte)), 1 },
	};
	const struct cmsghdr *head = (const struct cmsghdr *)passing.rights;
	int err = soft_remote_write(remote, at, &passing, sizeof(passing));

	if (!err)
		err = call(remote, SYS_recvmsg, (uint64_t)end, at, MSG_CMSG_CLOEXEC | MSG_DONTWAIT,
			   0);
	if (!err)
		err = read_all(remote, at, &passing, sizeof(passing));
	if (err)
		return err;
	if (passing.message.msg_flags & MSG_CTRUNC ||
	    head->cmsg_len != CMSG_LEN(SOFT_PASSED * sizeof(int)))
		return -EMFILE;
	memcpy(got, CMSG_DATA(head), SOFT_PASSED * sizeof(int));
	return 0;
}

int soft_pass(struct soft_remote *remote, const int fds[SOFT_PASSED], int got[SOFT_PASSED])
{
	uint64_t at = (remote->regs.rsp - BELOW_BYTES - sizeof(struct passing)) & ~UINT64_C(15);
	uint64_t pair = at + offsetof(struct passing, ends);
	static const struct passing nothing;
	int ends[2], ours, err;

	err = call(remote, SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
	if (err)
		return err;
	err = read_all(remote, pair, ends, sizeof(ends));
	if (err)
		return err;
	ours = take_fd(remote->pid, ends[0]);
	err = ours < 0 ? ours : send_fds(ours, fds);
	if (!err)
		err = receive(remote, at, ends[1], got);
	if (ours >= 0)
		close(ours);
	for (int i = 0; i < 2; i++)
		call(remote, SYS_close, (uint64_t)ends[i], 0, 0, 0);
	soft_remote_write(remote, at, &nothing, sizeof(nothing));
	return err;
}
