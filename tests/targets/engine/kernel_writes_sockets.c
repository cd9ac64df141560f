/* SPDX-License-Identifier: MIT */
/* System calls on sockets that write to memory: names, messages, control data. */
#include "tests/targets/engine/kernel_writes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define TEXT "12345678"
#define BYTES 8

static int has_text(const unsigned char *at)
{
	return !memcmp(at, TEXT, BYTES);
}

static int here(int type, struct sockaddr_in *address)
{
	socklen_t bytes = sizeof(*address);
	int fd = socket(AF_INET, type | SOCK_NONBLOCK, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, bytes) ||
	    getsockname(fd, (struct sockaddr *)address, &bytes))
		exit(2);
	return fd;
}

/* A socket that has got so many messages, from itself. */
static int told_itself(int times, struct sockaddr_in *address)
{
	int fd = here(SOCK_DGRAM, address);

	while (times-- > 0)
		if (sendto(fd, TEXT, BYTES, 0, (struct sockaddr *)address, sizeof(*address)) !=
		    BYTES)
			exit(2);
	return fd;
}

static int is_address(const unsigned char *at, const struct sockaddr_in *address)
{
	return !memcmp(at, address, sizeof(*address));
}

static int received(unsigned char *at)
{
	socklen_t *bytes = (socklen_t *)(uintptr_t)(at + 200);
	struct sockaddr_in address;
	int fd = told_itself(1, &address);

	*bytes = 128;
	code_run(at);
	return recvfrom(fd, at, BYTES, 0, (struct sockaddr *)(at + 100), bytes) == BYTES &&
	       has_text(at) && is_address(at + 100, &address) && *bytes == sizeof(address) &&
	       recv(fd, at, BYTES, 0) == -1 && errno == EAGAIN;
}

/* A message: its text, name and control in pages of their own, where it is in one itself. */
static void message_make(struct msghdr *message, struct iovec *vector, unsigned char *at)
{
	*vector = (struct iovec){ area_like(at), BYTES };
	*message = (struct msghdr){ .msg_name = area_like(at),
				    .msg_namelen = 128,
				    .msg_iov = vector,
				    .msg_iovlen = 1,
				    .msg_control = area_like(at),
				    .msg_controllen = 200 };
}

static void message_run(const struct msghdr *message)
{
	code_run(message->msg_name);
	code_run(message->msg_control);
	code_run(message->msg_iov->iov_base);
	code_run((const unsigned char *)message);
}

static int is_message(const struct msghdr *message, const struct sockaddr_in *address)
{
	return message->msg_namelen == sizeof(*address) && is_address(message->msg_name, address) &&
	       has_text(message->msg_iov->iov_base) &&
	       message->msg_controllen == CMSG_SPACE(sizeof(struct timeval)) &&
	       CMSG_FIRSTHDR(message)->cmsg_type == SO_TIMESTAMP;
}

static int message_received(unsigned char *at)
{
	struct msghdr *message = (struct msghdr *)(uintptr_t)at;
	struct sockaddr_in address;
	int fd = told_itself(0, &address), yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &yes, sizeof(yes));
	sendto(fd, TEXT, BYTES, 0, (struct sockaddr *)&address, sizeof(address));
	message_make(message, (struct iovec *)(uintptr_t)(at + 512), at);
	message_run(message);
	return recvmsg(fd, message, 0) == BYTES && is_message(message, &address) &&
	       recv(fd, at, BYTES, 0) == -1;
}

static int messages_received(unsigned char *at)
{
	struct mmsghdr *messages = (struct mmsghdr *)(uintptr_t)at;
	struct timespec *limit = (struct timespec *)(uintptr_t)(at + 1024);
	struct sockaddr_in address;
	int fd = told_itself(0, &address), yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &yes, sizeof(yes));
	for (int i = 0; i < 3; i++) {
		sendto(fd, TEXT, BYTES, 0, (struct sockaddr *)&address, sizeof(address));
		message_make(&messages[i].msg_hdr, (struct iovec *)(uintptr_t)(at + 512 + 16 * i),
			     at);
	}
	*limit = (struct timespec){ LIMIT_S, 0 };
	for (int i = 0; i < 3; i++)
		message_run(&messages[i].msg_hdr);
	if (recvmmsg(fd, messages, 3, 0, limit) != 3 || limit->tv_sec >= LIMIT_S)
		return WRONG;
	return is_message(&messages[0].msg_hdr, &address) && messages[0].msg_len == BYTES &&
	       is_message(&messages[2].msg_hdr, &address) && messages[2].msg_len == BYTES;
}

static int messages_sent(unsigned char *at)
{
	struct mmsghdr *messages = (struct mmsghdr *)(uintptr_t)at;
	struct iovec vector = { TEXT, BYTES };
	int pair[2], arrived = 0;
	char got[BYTES];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair))
		exit(2);
	for (int i = 0; i < 2; i++)
		messages[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &vector,
							     .msg_iovlen = 1 } };
	code_run(at);
	if (sendmmsg(pair[0], messages, 2, 0) != 2 || messages[1].msg_len != BYTES)
		return WRONG;
	while (recv(pair[1], got, sizeof(got), 0) == BYTES)
		arrived++;
	return arrived == 2;
}

static int accepted(unsigned char *at, int is_old)
{
	socklen_t *bytes = (socklen_t *)(uintptr_t)(at + 200);
	int one = socket(AF_INET, SOCK_STREAM, 0), fd, other;
	struct sockaddr_in address, its;
	socklen_t its_bytes = sizeof(its);

	fd = here(SOCK_STREAM, &address);
	if (listen(fd, 5) || connect(one, (struct sockaddr *)&address, sizeof(address)) ||
	    getsockname(one, (struct sockaddr *)&its, &its_bytes))
		exit(2);
	*bytes = 128;
	code_run(at);
	other = is_old ? accept(fd, (struct sockaddr *)at, bytes)
		       : accept4(fd, (struct sockaddr *)at, bytes, SOCK_CLOEXEC);
	if (other < 0 || !is_address(at, &its) || *bytes != sizeof(its))
		return WRONG;
	close(one);
	return read(other, at, 1) == 0;
}

static int accepted_old(unsigned char *at)
{
	return accepted(at, 1);
}

static int accepted_4(unsigned char *at)
{
	return accepted(at, 0);
}

/* Its structure points to where the kernel writes. */
static int interfaces(unsigned char *at)
{
	struct ifconf asked = { .ifc_len = 400, .ifc_buf = (char *)at };
	struct sockaddr_in address;
	int fd = here(SOCK_DGRAM, &address);

	code_run(at);
	return !ioctl(fd, SIOCGIFCONF, &asked) && asked.ifc_len >= (int)sizeof(struct ifreq) &&
	       !memcmp(at, "lo", 3);
}

const struct kernel_case cases_sockets[] = {
	{ "recvfrom", received },	   { "recvmsg", message_received },
	{ "recvmmsg", messages_received }, { "sendmmsg", messages_sent },
	{ "accept", accepted_old },	   { "accept4", accepted_4 },
	{ "ioctl, nested", interfaces },   { 0 },
};
