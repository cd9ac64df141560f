/* SPDX-License-Identifier: MIT */
#include "inside/control/testing/tool.h"

#include "abi/page.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000

struct tool tool = { .listening = -1 };

void tool_begin(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(tool.path, sizeof tool.path, "/tmp/%d-waymark-control-test.tool", getpid());
	unlink(tool.path);
	strcpy(address.sun_path, tool.path);
	tool.listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(!bind(tool.listening, (struct sockaddr *)&address, sizeof address));
	cr_assert(!listen(tool.listening, 64));
}

void tool_end(void)
{
	unlink(tool.path);
	if (tool.pid > 0) {
		kill(tool.pid, SIGKILL);
		waitpid(tool.pid, NULL, 0);
	}
}

void tool_launch(const char *mode, const char *more)
{
	const char *agent = getenv("WAYMARK_TEST_AGENT"), *target = getenv("WAYMARK_TEST_TARGET");
	int pipes[2];

	if (!agent || !target)
		cr_skip_test("WAYMARK_TEST_AGENT and WAYMARK_TEST_TARGET are not set");
	cr_assert(!pipe(pipes));
	tool.pid = fork();
	if (!tool.pid) {
		setenv("LD_PRELOAD", agent, 1);
		setenv(CONTROL_TOOL_ENV, tool.path, 1);
		dup2(pipes[1], 1);
		close_range(3, ~0u, 0);
		execl(target, target, mode, more, NULL);
		_exit(127);
	}
	close(pipes[1]);
	tool.out = pipes[0];
}

static ssize_t receive(struct peer *peer, void *buffer, int *passed)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { buffer, CONTROL_BYTES_MAX };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = control,
			       .msg_controllen = sizeof control };
	struct pollfd ready = { .fd = peer->fd, .events = POLLIN };
	ssize_t got;

	*passed = -1;
	if (poll(&ready, 1, PATIENCE_MS) <= 0)
		return -1;
	/*
	 * an agent that ends with our data unread resets the connection, and the kernel reports
	 * the reset ahead of what the agent sent
	 */
	do {
		got = recvmsg(peer->fd, &head, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == ECONNRESET);
	if (got > 0 && CMSG_FIRSTHDR(&head))
		memcpy(passed, CMSG_DATA(CMSG_FIRSTHDR(&head)), sizeof *passed);
	return got;
}

static void take_note(struct peer *peer, const struct wm_message *message, int passed)
{
	const char *body = (const char *)(message + 1);
	struct control_module module;

	switch (message->type) {
	case CONTROL_STORE:
		peer->memfd = passed;
		break;
	case CONTROL_EVENT:
		peer->events++;
		memcpy(&peer->last_id, body, sizeof peer->last_id);
		strcpy(peer->last_event, body + sizeof(struct control_event));
		break;
	case CONTROL_REFUSED:
		peer->refused++;
		memcpy(&peer->refusal, body, sizeof peer->refusal);
		memcpy(peer->last_refused, body + sizeof peer->refusal,
		       message->bytes - sizeof peer->refusal);
		break;
	case CONTROL_MARKER:
		peer->markers++;
		break;
	case CONTROL_MODULE:
		memcpy(&module, body, sizeof module);
		peer->modules += !module.gone;
		peer->gone += module.gone;
		peer->last_base = module.base;
		peer->last_came_ns = module.came_ns;
		break;
	case CONTROL_LATE:
		peer->late++;
		break;
	default:
		break;
	}
}

static void take_hello(struct peer *peer, const struct wm_message *message)
{
	const char *body = (const char *)(message + 1);
	size_t before = sizeof peer->hello;

	memcpy(&peer->hello, body, sizeof peer->hello);
	before += strlen(body + before) + 1;
	cr_assert_eq(message->bytes - before, peer->hello.inherits ? sizeof peer->inherited : 0);
	if (peer->hello.inherits)
		memcpy(&peer->inherited, body + before, sizeof peer->inherited);
}

/* Take note of all messages of a bundle. For a bundle in a file, `passed` is that file. */
static void take_bundle(struct peer *peer, const struct wm_message *message, int passed)
{
	const char *content = (const char *)(message + 1) + sizeof(struct control_bundle);
	struct control_bundle about;
	char *read_in = NULL;
	uint64_t at = 0;

	memcpy(&about, message + 1, sizeof about);
	if (passed >= 0) {
		content = read_in = malloc(about.bytes);
		cr_assert_eq(pread(passed, read_in, about.bytes, 0), (ssize_t)about.bytes);
		close(passed);
		peer->files++;
	}
	for (uint32_t i = 0; i < about.count; i++) {
		const struct wm_message *inner = (const struct wm_message *)(content + at);

		cr_assert_eq(inner->magic, CONTROL_MAGIC);
		take_note(peer, inner, -1);
		at += (sizeof *inner + inner->bytes + CONTROL_BUNDLE_ALIGN) &
		      ~(size_t)(CONTROL_BUNDLE_ALIGN - 1);
		cr_assert_leq(at, about.bytes);
	}
	cr_assert_eq(at, about.bytes);
	free(read_in);
}

/* Read until the answer to `serial`, or the next message if it is 0. -EPIPE at the end. */
int peer_read_until(struct peer *peer, uint32_t serial, struct control_done *done)
{
	static char buffer[CONTROL_BYTES_MAX] __attribute__((aligned(8)));
	const struct wm_message *message = (const struct wm_message *)buffer;
	int passed;

	for (;;) {
		ssize_t got = receive(peer, buffer, &passed);

		if (got <= 0)
			return -EPIPE;
		cr_assert_eq(message->magic, CONTROL_MAGIC);
		cr_assert_eq(message->bytes + sizeof *message, (size_t)got);
		if (message->type == CONTROL_BUNDLE)
			take_bundle(peer, message, passed);
		else
			take_note(peer, message, passed);
		if (message->type == CONTROL_HELLO)
			take_hello(peer, message);
		if (message->type == CONTROL_DONE && message->serial == serial && done)
			memcpy(done, message + 1, sizeof *done);
		if (!serial || (message->type == CONTROL_DONE && message->serial == serial))
			return message->type;
	}
}

struct peer tool_meet(void)
{
	struct pollfd ready = { .fd = tool.listening, .events = POLLIN };
	struct peer peer = { .memfd = -1 };

	cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1, "no agent connected");
	peer.fd = accept4(tool.listening, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(peer.fd, 0);
	cr_assert_eq(peer_read_until(&peer, 0, NULL), CONTROL_HELLO);
	return peer;
}

void peer_say(struct peer *peer, uint16_t type, const void *body, size_t bytes)
{
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, ++peer->serial,
				   (uint32_t)bytes };
	struct iovec parts[] = { { &head, sizeof head }, { (void *)body, bytes } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (sendmsg(peer->fd, &message, MSG_NOSIGNAL) < 0)
		peer->is_gone = 1;
}

struct control_done peer_request(struct peer *peer, uint16_t type, const void *body, size_t bytes)
{
	struct control_done done = { .error = -EPIPE };

	peer_say(peer, type, body, bytes);
	if (!peer->is_gone)
		peer_read_until(peer, peer->serial, &done);
	return done;
}

struct control_done peer_open(struct peer *peer, const char *path)
{
	char body[sizeof(struct control_open) + 128];
	struct control_open open = { .buffer_bytes = 4 << 20 };

	memcpy(body, &open, sizeof open);
	strcpy(body + sizeof open, path);
	return peer_request(peer, CONTROL_OPEN, body, sizeof open + strlen(path) + 1);
}

struct control_done peer_rules(struct peer *peer, uint16_t type, const char *glob, uint32_t strict)
{
	char body[sizeof(struct control_rules) + 600];
	struct control_rules head = { .count = glob ? 1 : 0, .strict = strict };
	size_t bytes = glob ? strlen(glob) + 1 : 0;

	memcpy(body, &head, sizeof head);
	memcpy(body + sizeof head, glob ? glob : "", bytes);
	return peer_request(peer, type, body, sizeof head + bytes);
}

/* All events in the store's pages, by the agent's own count. */
uint64_t peer_recorded(const struct peer *peer)
{
	struct stat file;
	const struct wm_store *store;
	const struct wm_page *pages;
	uint64_t events = 0;

	cr_assert(!fstat(peer->memfd, &file));
	store = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, peer->memfd, 0);
	cr_assert_neq(store, MAP_FAILED);
	pages = (const struct wm_page *)((const char *)store + store->pages_offset);
	for (uint32_t i = 0; i < store->page_count; i++)
		events += pages[i].state != PAGE_FREE ? pages[i].events : 0;
	munmap((void *)store, (size_t)file.st_size);
	return events;
}

int tool_exit_status(void)
{
	int status;

	cr_assert_eq(waitpid(tool.pid, &status, 0), tool.pid);
	tool.pid = 0;
	return status;
}

/* Of one thread; 0 when it has ended. */
static uint64_t sleeps_of(const char *tid)
{
	unsigned long count = 0;
	char path[320], line[128];
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/task/%s/status", tool.pid, tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
			break;
	}
	if (file)
		fclose(file);
	return count;
}

uint64_t tool_sleeps(void)
{
	struct dirent *entry;
	uint64_t count = 0;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof path, "/proc/%d/task", tool.pid);
	tasks = opendir(path);
	cr_assert_not_null(tasks);
	while ((entry = readdir(tasks)))
		count += entry->d_name[0] != '.' ? sleeps_of(entry->d_name) : 0;
	closedir(tasks);
	return count;
}
