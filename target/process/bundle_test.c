/* SPDX-License-Identifier: MIT */
/*
 * Bundles as agents send them, and as none should. All go over a socket, by target/process/link.c.
 */
#include "target/process/link.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM_BYTES (1u << 20)

static struct link link_here;
static int there;
static int fds_before;

/* The bundle, its head, and the message that carries it. */
static unsigned char content[ROOM_BYTES];
static struct control_bundle about;

static int fds_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void link_make(void)
{
	int ends[2];

	fds_before = fds_open();
	cr_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	cr_assert_eq(link_adopt(&link_here, ends[0]), 0);
	there = ends[1];
}

static void link_end(void)
{
	link_release(&link_here);
	close(there);
	cr_assert_eq(fds_open(), fds_before, "no descriptor is left over");
}

TestSuite(bundle, .init = link_make, .fini = link_end, .timeout = 60);

static struct wm_message *add(uint16_t type, const char *body, size_t bytes)
{
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, 0, (uint32_t)bytes };
	unsigned char *at = content + about.bytes;

	memcpy(at, &head, sizeof head);
	memcpy(at + sizeof head, body, bytes);
	about.bytes += (sizeof head + bytes + CONTROL_BUNDLE_ALIGN) &
		       ~(size_t)(CONTROL_BUNDLE_ALIGN - 1);
	about.count++;
	return (struct wm_message *)at;
}

static void send_packet(uint16_t type, const void *body, size_t bytes, const void *more,
			size_t more_bytes, int pass)
{
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, 0,
				   (uint32_t)(bytes + more_bytes) };
	struct iovec parts[] = { { &head, sizeof head },
				 { (void *)body, bytes },
				 { (void *)more, more_bytes } };
	struct msghdr packet = { .msg_iov = parts, .msg_iovlen = 3 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };

	if (pass >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof control;
		control.head.cmsg_len = CMSG_LEN(sizeof pass);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.head), &pass, sizeof pass);
	}
	cr_assert_gt(sendmsg(there, &packet, MSG_NOSIGNAL), 0);
}

static void send_in_packet(size_t bytes)
{
	send_packet(CONTROL_BUNDLE, &about, sizeof about, content, bytes, -1);
}

static void send_file(size_t bytes, int seals)
{
	int fd = memfd_create("bundle-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(pwrite(fd, content, bytes, 0), (ssize_t)bytes);
	cr_assert(!fcntl(fd, F_ADD_SEALS, seals));
	send_packet(CONTROL_BUNDLE, &about, sizeof about, NULL, 0, fd);
	close(fd);
}

static void expect(uint16_t type, const char *text)
{
	struct link_message message;

	cr_assert_eq(link_receive(&link_here, &message), 1);
	cr_assert_eq(message.type, type);
	cr_assert_eq(message.bytes, strlen(text));
	cr_assert_str_eq((const char *)message.body, text);
	cr_assert_eq(message.fd, -1);
}

/* That error comes, and then nothing of the bundle any more. */
static void expect_error(void)
{
	struct link_message message;
	int err;

	while ((err = link_receive(&link_here, &message)) > 0)
		;
	cr_assert_eq(err, -WM_E_PROTOCOL);
	cr_assert_eq(message.fd, -1);
	cr_assert_eq(link_receive(&link_here, &message), 0);
}

Test(bundle, messages_of_a_packet_come_one_by_one_and_then_what_follows)
{
	struct link_message message;

	add(CONTROL_EVENT, "one", 3);
	add(CONTROL_MARKER, "", 0);
	add(CONTROL_REFUSED, "12345678", 8);
	send_in_packet(about.bytes);
	send_packet(CONTROL_MODULE, "after", 5, NULL, 0, -1);
	expect(CONTROL_EVENT, "one");
	expect(CONTROL_MARKER, "");
	expect(CONTROL_REFUSED, "12345678");
	expect(CONTROL_MODULE, "after");
	cr_assert_eq(link_receive(&link_here, &message), 0);
}

Test(bundle, a_file_of_many_pieces_is_read_to_its_last_message)
{
	static char text[CONTROL_BYTES_MAX];
	size_t sizes[] = {
		1, 7, 8, 200, 4095, 40000, CONTROL_BYTES_MAX - sizeof(struct wm_message)
	};
	struct link_message message;

	for (size_t i = 0; i < 60; i++) {
		if (about.bytes + 2 * CONTROL_BYTES_MAX > ROOM_BYTES)
			break;
		memset(text, 'a' + (int)(i % 26), sizeof text);
		add(CONTROL_EVENT, text, sizes[i % 7]);
	}
	cr_assert_gt(about.bytes, 5 * CONTROL_BYTES_MAX);
	send_file(about.bytes, F_SEAL_SHRINK);
	send_packet(CONTROL_MODULE, "after", 5, NULL, 0, -1);
	for (size_t i = 0; i < about.count; i++) {
		memset(text, 'a' + (int)(i % 26), sizeof text);
		cr_assert_eq(link_receive(&link_here, &message), 1, "message %zu", i);
		cr_assert_eq(message.bytes, sizes[i % 7]);
		cr_assert(!memcmp(message.body, text, message.bytes));
		cr_assert_eq(message.body[message.bytes], 0);
	}
	expect(CONTROL_MODULE, "after");
}

Test(bundle, one_that_is_released_half_read_leaves_nothing)
{
	add(CONTROL_EVENT, "one", 3);
	add(CONTROL_EVENT, "two", 3);
	send_file(about.bytes, F_SEAL_SHRINK);
	expect(CONTROL_EVENT, "one");
}

Test(bundle, no_message_at_all_is_an_error)
{
	send_in_packet(0);
	expect_error();
}

Test(bundle, a_count_of_zero_is_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	about.count = 0;
	send_in_packet(about.bytes);
	expect_error();
}

Test(bundle, a_count_that_is_too_large_is_an_error)
{
	add(CONTROL_EVENT, "a long text, where two could be", 31);
	about.count = 2;
	send_in_packet(about.bytes);
	expect_error();
	about.count = UINT32_MAX;
	send_in_packet(about.bytes);
	expect_error();
	send_file(about.bytes, F_SEAL_SHRINK);
	expect_error();
}

Test(bundle, a_count_that_is_too_small_is_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	add(CONTROL_EVENT, "two", 3);
	about.count = 1;
	send_in_packet(about.bytes);
	expect_error();
	send_file(about.bytes, F_SEAL_SHRINK);
	expect_error();
}

Test(bundle, a_message_that_is_cut_off_is_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	add(CONTROL_EVENT, "the second", 10);
	for (uint64_t whole = about.bytes, cut = 1; cut < 32; cut++) {
		about.bytes = whole - cut;
		send_in_packet(about.bytes);
		expect_error();
		send_file(about.bytes, F_SEAL_SHRINK);
		expect_error();
	}
}

Test(bundle, a_length_beyond_the_end_is_an_error)
{
	static const uint32_t lengths[] = { 9,	       4096,	   CONTROL_BYTES_MAX - 16,
					    65536,     0x7fffffff, UINT32_MAX - 15,
					    UINT32_MAX };
	struct wm_message *last;

	add(CONTROL_EVENT, "one", 3);
	last = add(CONTROL_EVENT, "two", 3);
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		last->bytes = lengths[i];
		send_in_packet(about.bytes);
		expect_error();
		send_file(about.bytes, F_SEAL_SHRINK);
		expect_error();
	}
}

Test(bundle, bytes_that_are_not_those_of_the_packet_are_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	send_in_packet(about.bytes + 8);
	expect_error();
	send_in_packet(about.bytes - 8);
	expect_error();
	send_packet(CONTROL_BUNDLE, &about, 4, NULL, 0, -1);
	expect_error();
	send_packet(CONTROL_BUNDLE, NULL, 0, NULL, 0, -1);
	expect_error();
}

Test(bundle, a_bundle_in_a_bundle_is_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	add(CONTROL_BUNDLE, (const char *)&about, sizeof about);
	send_in_packet(about.bytes);
	expect_error();
}

Test(bundle, a_head_that_is_none_of_ours_is_an_error)
{
	add(CONTROL_EVENT, "one", 3)->magic++;
	send_in_packet(about.bytes);
	expect_error();
	about = (struct control_bundle){ 0 };
	add(CONTROL_EVENT, "one", 3)->version++;
	send_in_packet(about.bytes);
	expect_error();
}

Test(bundle, a_file_that_could_hold_us_up_or_shrink_is_an_error)
{
	int ends[2];

	add(CONTROL_EVENT, "one", 3);
	send_file(about.bytes, 0);
	expect_error();
	cr_assert(!pipe(ends));
	send_packet(CONTROL_BUNDLE, &about, sizeof about, NULL, 0, ends[0]);
	expect_error();
	close(ends[0]);
	close(ends[1]);
}

Test(bundle, a_file_that_is_too_short_or_too_long_is_an_error)
{
	add(CONTROL_EVENT, "one", 3);
	send_file(about.bytes - 1, F_SEAL_SHRINK);
	expect_error();
	about.bytes = (uint64_t)CONTROL_BUNDLE_BYTES_MAX + 8;
	send_file(64, F_SEAL_SHRINK);
	expect_error();
	about.bytes = UINT64_MAX;
	send_file(64, F_SEAL_SHRINK);
	expect_error();
}

Test(bundle, noise_never_does_more_than_end_in_an_error)
{
	uint64_t seed = 88172645463325252u;

	for (int round = 0; round < 2000; round++) {
		struct link_message message;

		about = (struct control_bundle){ 0 };
		for (int i = 0; i < 8; i++)
			add(CONTROL_EVENT, "some text of some length", (size_t)(seed >> i) % 24);
		for (int i = 0; i < 3; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			content[(seed >> 8) % about.bytes] = (unsigned char)seed;
		}
		if (round % 2)
			send_in_packet(about.bytes);
		else
			send_file(about.bytes, F_SEAL_SHRINK);
		while (link_receive(&link_here, &message) > 0)
			cr_assert_leq(message.bytes, about.bytes);
	}
}
