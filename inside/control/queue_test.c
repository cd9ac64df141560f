/* SPDX-License-Identifier: MIT */
#include "inside/control/queue.h"

#include "base/testing/await.h"
#include "inside/control/message.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FD_LIMIT 64

static int ends[2] = { -1, -1 };
static uint64_t patience_ns;
static struct queue_peer peer;

/* What came, in the order in which it came. */
static struct {
	unsigned int packets, bundles, files;
	uint32_t next; /* the number that the next message should bear */
} got;

static void make_pair(void)
{
	cr_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	patience_ns = MESSAGE_PATIENCE_NS;
	peer = (struct queue_peer){ ends[0], &patience_ns };
}

TestSuite(queue, .init = make_pair, .timeout = 60);

/* Messages bear their number, and a text as long as it says. */
static int put(uint32_t number, uint32_t bytes)
{
	static char text[CONTROL_BYTES_MAX];

	memset(text, 'x', sizeof text);
	return queue_put(&peer, CONTROL_EVENT, number, &bytes, sizeof bytes, text, bytes);
}

static void take_message(const struct wm_message *message)
{
	uint32_t bytes;

	cr_assert_eq(message->magic, CONTROL_MAGIC);
	cr_assert_eq(message->version, CONTROL_VERSION);
	cr_assert_eq(message->serial, got.next);
	memcpy(&bytes, message + 1, sizeof bytes);
	cr_assert_eq(message->bytes, bytes + sizeof bytes);
	got.next++;
}

static void take_all(const char *content, const struct control_bundle *about)
{
	uint64_t at = 0;

	cr_assert_gt(about->count, 0);
	for (uint32_t i = 0; i < about->count; i++) {
		const struct wm_message *message = (const void *)(content + at);

		take_message(message);
		at += sizeof *message + message->bytes;
		do
			cr_assert_eq(content[at++], 0);
		while (at % CONTROL_BUNDLE_ALIGN);
	}
	cr_assert_eq(at, about->bytes);
}

static void take_file(int fd, const struct control_bundle *about)
{
	char *content = malloc(about->bytes);
	struct stat found;

	cr_assert(!fstat(fd, &found));
	cr_assert_geq((uint64_t)found.st_size, about->bytes);
	cr_assert(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
	cr_assert_eq(pread(fd, content, about->bytes, 0), (ssize_t)about->bytes);
	take_all(content, about);
	free(content);
	close(fd);
	got.files++;
}

/* One packet. False if no packet is there. */
static int take_packet(int flags)
{
	static char buffer[CONTROL_BYTES_MAX + 1] __attribute__((aligned(8)));
	const struct wm_message *message = (const void *)buffer;
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { buffer, sizeof buffer };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = &control,
			       .msg_controllen = sizeof control };
	ssize_t bytes = recvmsg(ends[1], &head, flags | MSG_CMSG_CLOEXEC);
	struct control_bundle about;
	int fd;

	if (bytes <= 0)
		return 0;
	got.packets++;
	cr_assert_leq(bytes, CONTROL_BYTES_MAX);
	cr_assert_eq((size_t)bytes, sizeof *message + message->bytes);
	if (message->type != CONTROL_BUNDLE) {
		take_message(message);
		return 1;
	}
	got.bundles++;
	memcpy(&about, message + 1, sizeof about);
	if (CMSG_FIRSTHDR(&head)) {
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&head)), sizeof fd);
		take_file(fd, &about);
	} else {
		cr_assert_eq(message->bytes, sizeof about + about.bytes);
		take_all((const char *)(message + 1) + sizeof about, &about);
	}
	return 1;
}

static void take_what_is_there(void)
{
	while (take_packet(MSG_DONTWAIT))
		;
}

Test(queue, one_message_goes_as_it_is)
{
	cr_assert_eq(queue_fd(), -1);
	cr_assert_eq(put(0, 10), 0);
	cr_assert_eq(queue_fd(), ends[0]);
	cr_assert_eq(queue_flush(), 0);
	cr_assert_eq(queue_fd(), -1);
	take_what_is_there();
	cr_assert(got.packets == 1 && got.bundles == 0 && got.next == 1);
}

Test(queue, an_empty_queue_sends_nothing)
{
	cr_assert_eq(queue_flush(), 0);
	cr_assert(!take_packet(MSG_DONTWAIT));
}

Test(queue, a_few_messages_go_in_one_packet)
{
	for (uint32_t i = 0; i < 300; i++)
		cr_assert_eq(put(i, i % 50), 0);
	cr_assert_eq(queue_flush(), 0);
	take_what_is_there();
	cr_assert(got.packets == 1 && got.bundles == 1 && got.files == 0);
	cr_assert_eq(got.next, 300);
}

Test(queue, ten_thousand_go_in_a_file_without_anybody_reading)
{
	for (uint32_t i = 0; i < 10000; i++)
		cr_assert_eq(put(i, 60 + i % 50), 0);
	cr_assert_eq(queue_flush(), 0);
	cr_assert_eq(patience_ns, MESSAGE_PATIENCE_NS, "nothing was waited for");
	take_what_is_there();
	cr_assert(got.packets == 1 && got.files == 1);
	cr_assert_eq(got.next, 10000);
}

Test(queue, the_largest_messages_go_whole_and_what_is_larger_is_cut)
{
	uint32_t most = CONTROL_BYTES_MAX - sizeof(struct wm_message) - sizeof(uint32_t);
	char *text = calloc(2, CONTROL_BYTES_MAX);

	cr_assert_eq(put(0, most), 0);
	cr_assert_eq(queue_flush(), 0);
	for (uint32_t i = 1; i < 20; i++)
		cr_assert_eq(put(i, i % 3 ? most : 5), 0);
	cr_assert_eq(queue_put(&peer, CONTROL_EVENT, 20, &most, sizeof most, text, most + 1000), 0);
	cr_assert_eq(queue_flush(), 0);
	take_what_is_there();
	cr_assert_eq(got.next, 21);
	free(text);
}

Test(queue, what_is_for_another_goes_after_the_rest_is_sent)
{
	int others[2];
	struct queue_peer other;

	cr_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, others));
	other = (struct queue_peer){ others[0], &patience_ns };
	for (uint32_t i = 0; i < 2000; i++)
		cr_assert_eq(put(i, 100), 0);
	cr_assert_eq(queue_put(&other, CONTROL_EVENT, 0, "", 1, NULL, 0), 0);
	cr_assert_eq(queue_fd(), others[0]);
	take_what_is_there();
	cr_assert_eq(got.next, 2000);
	cr_assert_eq(queue_flush(), 0);
}

/* No file can be made any more. */
static void use_up_descriptors(void)
{
	struct rlimit limit;

	cr_assert(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = FD_LIMIT;
	cr_assert(!setrlimit(RLIMIT_NOFILE, &limit));
	while (dup(ends[0]) >= 0)
		;
}

static int is_full(void)
{
	struct pollfd room = { .fd = ends[0], .events = POLLOUT };

	return !poll(&room, 1, 0);
}

/* Returns whether the sender ever had to wait for room. */
static void *read_slowly(void *unused)
{
	int was_full = AWAIT(is_full());

	(void)unused;
	while (take_packet(0))
		usleep(100); /* slower than the sender: the reader's pace is the subject */
	return (void *)(long)was_full;
}

Test(queue, without_a_file_they_go_as_the_tool_takes_them)
{
	pthread_t reader;
	void *was_full;

	use_up_descriptors();
	cr_assert(!pthread_create(&reader, NULL, read_slowly, NULL));
	for (uint32_t i = 0; i < 30000; i++)
		cr_assert_eq(put(i, 100), 0);
	cr_assert_eq(queue_flush(), 0);
	cr_assert(!shutdown(ends[0], SHUT_WR));
	pthread_join(reader, &was_full);
	cr_assert(was_full);
	cr_assert_gt(got.packets, 30);
	cr_assert_eq(got.files, 0);
	cr_assert_eq(got.next, 30000);
}

static void *read_one_now_and_then(void *unused)
{
	for (;;) {
		usleep(20000); /* less than the patience: the reader's pace is the subject */
		if (!take_packet(0))
			return unused;
	}
}

Test(queue, the_patience_is_for_all_messages_together)
{
	int error = 0, room = 50000;
	pthread_t reader;

	use_up_descriptors();
	cr_assert(!setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room));
	patience_ns = 100000000;
	cr_assert(!pthread_create(&reader, NULL, read_one_now_and_then, NULL));
	for (uint32_t i = 0; !error && i < 100000; i++)
		error = put(i, 1000);
	cr_assert_eq(error, -ETIMEDOUT, "each packet was taken in time, all together were not");
	cr_assert_eq(patience_ns, 0);
	shutdown(ends[0], SHUT_RDWR);
	pthread_join(reader, NULL);
}

Test(queue, a_peer_that_is_gone_is_an_error_and_leaves_the_queue_empty)
{
	close(ends[1]);
	for (uint32_t i = 0; i < 5000; i++)
		cr_assert_eq(put(i, 100), 0);
	cr_assert_eq(queue_flush(), -EPIPE);
	cr_assert_eq(queue_fd(), -1);
	cr_assert_eq(queue_flush(), 0);
}

Test(queue, the_child_of_a_fork_sends_nothing_of_its_parents)
{
	for (uint32_t i = 0; i < 5000; i++)
		cr_assert_eq(put(i, 100), 0);
	queue_forked();
	cr_assert_eq(queue_fd(), -1);
	cr_assert_eq(queue_flush(), 0);
	cr_assert(!take_packet(MSG_DONTWAIT));
}
