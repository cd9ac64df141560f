/* SPDX-License-Identifier: MIT */
#include "target/process/link.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

Test(link, what_a_peer_sent_is_read_though_it_left_our_request_unread)
{
	struct {
		struct wm_message head;
		struct control_done done;
	} sent = { .head = { .magic = CONTROL_MAGIC,
			     .version = CONTROL_VERSION,
			     .type = CONTROL_DONE,
			     .serial = 7,
			     .bytes = sizeof(struct control_done) } };
	struct link_message message;
	struct link link;
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	cr_assert_eq(link_adopt(&link, ends[0]), 0);
	cr_assert_gt(link_send(&link, CONTROL_GO, NULL, 0), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(write(ends[1], &sent, sizeof(sent)), sizeof(sent));
	close(ends[1]);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(link_receive(&link, &message), 1);
		cr_assert_eq(message.serial, 7);
	}
	cr_assert_eq(link_receive(&link, &message), -WM_E_GONE);
	cr_assert_eq(link_receive(&link, &message), -WM_E_GONE);
	link_release(&link);
}

Test(link, descriptor_without_room_returns_emfile)
{
	struct wm_message sent = { .magic = CONTROL_MAGIC,
				   .version = CONTROL_VERSION,
				   .type = CONTROL_STORE };
	struct iovec part = { &sent, sizeof(sent) };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };
	struct link_message message;
	struct rlimit limit, none;
	struct link link;
	int ends[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	cr_assert_eq(link_adopt(&link, ends[0]), 0);
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(ends[1]));
	cr_assert_eq(sendmsg(ends[1], &packet, 0), sizeof(sent));
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	err = link_receive(&link, &message);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(err, -EMFILE);
	cr_expect_eq(message.fd, -1);
	link_release(&link);
}

/* A child of this number, which sleeps. -1 where we may not choose it. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uint64_t)(uintptr_t)&pid,
				   .set_tid_size = 1 };
	pid_t child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (child == 0)
		for (;;)
			pause();
	return child;
}

Test(link, reaped_peer_has_no_pidfd_of_its_numbers_next_owner)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), pidfd;
	socklen_t bytes = sizeof(address);
	struct link link;
	pid_t peer, next;

	/* the kernel gives it a name */
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	peer = fork();
	if (!peer) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		_exit(connect(fd, (struct sockaddr *)&address, bytes) != 0);
	}
	cr_assert_eq(waitpid(peer, NULL, 0), peer);
	next = fork_as(peer);
	if (next < 0)
		cr_skip_test("no process number can be chosen here");
	cr_expect_eq(next, peer);
	cr_assert_eq(link_adopt(&link, accept(listener, NULL, NULL)), 0);
	cr_expect_eq(link.pid, peer);
	pidfd = link_pidfd(&link, peer);
	cr_expect(pidfd == -ESRCH ||
			  poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, 0) == 1,
		  "%d", pidfd);
	link_release(&link);
	kill(next, SIGKILL);
	cr_assert_eq(waitpid(next, NULL, 0), next);
}
