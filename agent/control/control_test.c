/* SPDX-License-Identifier: MIT */
/*
 * The control side from a tool's end: a tool of our own launches target programs with the agent
 * preloaded, and speaks abi/control.h by hand. WAYMARK_TEST_AGENT and WAYMARK_TEST_TARGET say where
 * the two are.
 */
#include "abi/control.h"
#include "abi/page.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
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

static struct tool {
	char path[64];
	int listening;
	pid_t pid;
	int out; /* what the target prints */
} tool = { .listening = -1 };

struct peer {
	int fd;
	uint32_t serial;
	int memfd;
	struct control_hello hello;
	unsigned int events, refused, markers, modules, gone, files;
	char last_event[4096], last_refused[4096];
	struct control_refused refusal;
};

static void tool_begin(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(tool.path, sizeof tool.path, "/tmp/waymark-control-test-%d.tool", getpid());
	unlink(tool.path);
	strcpy(address.sun_path, tool.path);
	tool.listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(!bind(tool.listening, (struct sockaddr *)&address, sizeof address));
	cr_assert(!listen(tool.listening, 64));
}

static void tool_end(void)
{
	unlink(tool.path);
	if (tool.pid > 0) {
		kill(tool.pid, SIGKILL);
		waitpid(tool.pid, NULL, 0);
	}
}

TestSuite(control, .init = tool_begin, .fini = tool_end, .timeout = 60);

static void launch(const char *mode, const char *more)
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
	got = recvmsg(peer->fd, &head, MSG_CMSG_CLOEXEC);
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
		break;
	default:
		break;
	}
}

/* Take note of all messages of a bundle; where it lies in a file, `passed` is that. */
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
static int read_until(struct peer *peer, uint32_t serial, struct control_done *done)
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
			memcpy(&peer->hello, message + 1, sizeof peer->hello);
		if (message->type == CONTROL_DONE && message->serial == serial && done)
			memcpy(done, message + 1, sizeof *done);
		if (!serial || (message->type == CONTROL_DONE && message->serial == serial))
			return message->type;
	}
}

static struct peer meet(void)
{
	struct pollfd ready = { .fd = tool.listening, .events = POLLIN };
	struct peer peer = { .memfd = -1 };

	cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1, "nobody came");
	peer.fd = accept4(tool.listening, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(peer.fd, 0);
	cr_assert_eq(read_until(&peer, 0, NULL), CONTROL_HELLO);
	return peer;
}

static struct control_done request(struct peer *peer, uint16_t type, const void *body, size_t bytes)
{
	struct wm_message head = { CONTROL_MAGIC, CONTROL_VERSION, type, ++peer->serial,
				   (uint32_t)bytes };
	struct control_done done = { .error = -EPIPE };
	struct iovec parts[] = { { &head, sizeof head }, { (void *)body, bytes } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (sendmsg(peer->fd, &message, MSG_NOSIGNAL) > 0)
		read_until(peer, head.serial, &done);
	return done;
}

static struct control_done open_session(struct peer *peer, const char *path)
{
	char body[sizeof(struct control_open) + 128];
	struct control_open open = { .buffer_bytes = 4 << 20 };

	memcpy(body, &open, sizeof open);
	strcpy(body + sizeof open, path);
	return request(peer, CONTROL_OPEN, body, sizeof open + strlen(path) + 1);
}

static struct control_done rules(struct peer *peer, uint16_t type, const char *glob,
				 uint32_t strict)
{
	char body[sizeof(struct control_rules) + 600];
	struct control_rules head = { .count = glob ? 1 : 0, .strict = strict };
	size_t bytes = glob ? strlen(glob) + 1 : 0;

	memcpy(body, &head, sizeof head);
	memcpy(body + sizeof head, glob ? glob : "", bytes);
	return request(peer, type, body, sizeof head + bytes);
}

/* All events in the store's pages, by the agent's own count. */
static uint64_t recorded(const struct peer *peer)
{
	struct stat file;
	const struct wm_store *store;
	const struct wm_page *pages;
	uint64_t events = 0;

	cr_assert(!fstat(peer->memfd, &file));
	store = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, peer->memfd, 0);
	cr_assert_neq(store, MAP_FAILED);
	pages = (const struct wm_page *)((const char *)store + store->pages_offset);
	for (uint32_t i = 0; i < store->chunk_count * CHUNK_UNITS; i++)
		events += pages[i].state != PAGE_FREE ? pages[i].events : 0;
	munmap((void *)store, (size_t)file.st_size);
	return events;
}

static int exit_status(void)
{
	int status;

	cr_assert_eq(waitpid(tool.pid, &status, 0), tool.pid);
	tool.pid = 0;
	return status;
}

static int count_threads(void)
{
	struct stat found;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task", tool.pid);
	return stat(path, &found) ? 0 : (int)found.st_nlink - 2;
}

static int wait_for_threads(int count)
{
	for (int i = 0; i < 2000 && count_threads() != count; i++)
		usleep(1000);
	return count_threads();
}

/* The four messages that most tests begin with. */
static struct peer begin(const char *mode, const char *more, const char *glob)
{
	struct peer peer;

	launch(mode, more);
	peer = meet();
	cr_assert_eq(open_session(&peer, tool.path).error, 0);
	cr_assert_eq(rules(&peer, CONTROL_ARM, glob, 0).error, 0);
	cr_assert_eq(request(&peer, CONTROL_GO, NULL, 0).error, 0);
	return peer;
}

Test(control, a_launched_program_waits_for_go_with_its_markers_armed)
{
	struct peer peer;

	launch("count", "100");
	peer = meet();
	cr_assert_eq(peer.hello.pid, (uint32_t)tool.pid);
	cr_assert(peer.hello.launched && !peer.hello.forked);
	cr_assert_eq(open_session(&peer, "").error, 0);
	cr_assert_eq(rules(&peer, CONTROL_ARM, "count:*", 0).markers, 2);
	cr_assert_eq(peer.events, 2);
	cr_assert_eq(recorded(&peer), 0, "it did not wait");
	cr_assert_eq(request(&peer, CONTROL_GO, NULL, 0).error, 0);
	cr_assert_eq(exit_status(), 0);
	cr_assert_eq(recorded(&peer), 101, "100 and the one of the constructor");
}

Test(control, a_program_goes_on_when_no_tool_answers)
{
	close(tool.listening);
	unlink(tool.path);
	launch("count", "1");
	cr_assert_eq(exit_status(), 0);
}

Test(control, disarms_and_is_quiet_and_leaves_no_thread)
{
	struct peer peer = begin("work", "", "work:*");
	struct control_done done;
	uint64_t before;

	usleep(20000);
	cr_assert_gt(recorded(&peer), 0);
	done = request(&peer, CONTROL_QUIET, NULL, 0);
	cr_assert_eq(done.error, 0);
	cr_assert_gt(done.sites, 0);
	before = recorded(&peer);
	usleep(20000);
	cr_assert_eq(recorded(&peer), before);
	cr_assert_eq(rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
	usleep(20000);
	cr_assert_gt(recorded(&peer), before);
	cr_assert_eq(request(&peer, CONTROL_LEAVE, NULL, 0).error, 0);
	cr_assert_eq(wait_for_threads(3), 3, "the main thread and two workers");
}

Test(control, disarms_when_the_tool_dies)
{
	struct peer peer = begin("work", "", "work:*");
	uint64_t before;

	/* else the main thread and the agent's two might be taken for what is left */
	cr_assert_eq(wait_for_threads(5), 5, "the program's three and the agent's two");
	close(peer.fd);
	cr_assert_eq(wait_for_threads(3), 3);
	before = recorded(&peer);
	usleep(20000);
	cr_assert_eq(recorded(&peer), before);
}

Test(control, two_globs_are_independent_and_the_last_prevails)
{
	struct peer peer = begin("work", "", "work:*");

	cr_assert_eq(rules(&peer, CONTROL_DISARM, "work:one", 0).markers, 1);
	cr_assert_eq(rules(&peer, CONTROL_DISARM, "work:one", 0).markers, 0);
	cr_assert_eq(rules(&peer, CONTROL_ARM, "work:on?", 0).sites, 1);
	cr_assert_eq(rules(&peer, CONTROL_ARM, "nothing", 0).error, -WM_E_SPEC);
	cr_assert_eq(rules(&peer, CONTROL_ARM, "no:thing", 0).markers, 0);
}

Test(control, strict_requests_are_served_when_nothing_is_in_the_way)
{
	struct peer peer = begin("work", "", "no:thing");
	struct control_done done = rules(&peer, CONTROL_ARM, "work:*", 1);

	cr_assert_eq(done.error, 0);
	cr_assert_gt(done.sites, 0);
}

Test(control, a_module_that_comes_later_is_armed_before_its_constructors)
{
	const char *module = getenv("WAYMARK_TEST_MODULE");
	struct peer peer;

	if (!module)
		cr_skip_test("WAYMARK_TEST_MODULE is not set");
	peer = begin("load", module, "module:*");
	cr_assert_eq(exit_status(), 0);
	while (read_until(&peer, 0, NULL) != -EPIPE)
		;
	/* 50 times: its constructor, and one call */
	cr_assert_eq(recorded(&peer), 100);
	cr_assert_eq(peer.events, 2, "one id for each marker, however often it comes");
	cr_assert_eq(peer.gone, 50);
	cr_assert_eq(peer.refused, 0);
}

Test(control, a_forked_child_is_recorded_from_its_first_instruction)
{
	struct peer parent = begin("fork", "", "work:*");

	for (int i = 0; i < 5; i++) {
		struct peer child = meet();

		cr_assert(child.hello.forked);
		cr_assert_eq(child.hello.ppid, parent.hello.pid);
		cr_assert_eq(open_session(&child, "").error, 0);
		cr_assert_eq(rules(&child, CONTROL_ARM, "work:child", 0).error, 0);
		request(&child, CONTROL_GO, NULL, 0);
		while (read_until(&child, 0, NULL) != -EPIPE)
			;
		cr_assert_eq(recorded(&child), 10);
		close(child.fd);
		close(child.memfd);
	}
	cr_assert_eq(exit_status(), 0);
}

Test(control, what_was_buffered_is_printed_when_main_has_left_by_pthread_exit)
{
	struct peer peer = begin("leave", "", "work:*");
	char text[64] = "";
	int status = exit_status();

	(void)peer;
	cr_assert_eq(status, 0);
	cr_assert_gt(read(tool.out, text, sizeof text - 1), 0);
	cr_assert_str_eq(text, "said by the last thread\n");
}

Test(control, other_types_under_one_name_are_refused_with_both_places)
{
	struct peer peer = begin("work", "", "no:thing");
	struct control_done done = rules(&peer, CONTROL_ARM, "clash:types", 0);

	cr_assert_eq(done.error, 0);
	cr_assert_eq(done.markers, 0);
	cr_assert_eq(done.sites, 0);
	cr_assert_gt(peer.refused, 0);
	cr_assert_eq(peer.refusal.error, -WM_E_FIELD_TYPES);
	cr_assert_eq(peer.refusal.address, 0);
	cr_assert(strstr(peer.last_refused, "clash\ntypes\n"));
	cr_assert(strstr(peer.last_refused + strlen(peer.last_refused) + 1, "clash\ntypes\n"));
}

Test(control, hostile_messages_end_the_session_and_nothing_else)
{
	uint64_t seed = 88172645463325252u;
	struct peer peer = begin("work", "", "work:*");

	for (int round = 0; round < 300; round++) {
		static union {
			struct wm_message head;
			unsigned char bytes[4096];
		} noise;
		size_t bytes;

		for (size_t i = 0; i < sizeof noise.bytes; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			noise.bytes[i] = (unsigned char)(seed >> 32);
		}
		bytes = seed % 200;
		if (round % 4) { /* a good head, so that the body is looked at */
			noise.head = (struct wm_message){ CONTROL_MAGIC, CONTROL_VERSION,
							  (uint16_t)(32 + round % 8), 0, 0 };
			bytes += sizeof noise.head;
			noise.head.bytes = (uint32_t)(bytes - sizeof noise.head);
			if (noise.head.type == CONTROL_LEAVE)
				continue;
		}
		if (send(peer.fd, noise.bytes, bytes, MSG_NOSIGNAL) < 0)
			break;
		usleep(200);
	}
	close(peer.fd);
	cr_assert_eq(wait_for_threads(3), 3, "the program itself goes on");
	cr_assert_eq(kill(tool.pid, 0), 0);
}

Test(control, a_tool_that_reads_nothing_is_given_up)
{
	struct peer peer = begin("work", "", "work:*");
	struct wm_message list = { CONTROL_MAGIC, CONTROL_VERSION, CONTROL_LIST, 99, 0 };

	cr_assert_eq(wait_for_threads(5), 5, "the program's three and the agent's two");
	while (send(peer.fd, &list, sizeof list, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	for (int i = 0; i < 5000 && count_threads() > 3; i++)
		usleep(1000);
	cr_assert_eq(count_threads(), 3);
}

Test(control, a_program_that_closes_every_descriptor_loses_none_of_ours)
{
	struct peer peer = begin("close", "", "work:*");
	uint64_t before = recorded(&peer);

	usleep(50000);
	cr_assert_gt(recorded(&peer), before);
	cr_assert_eq(request(&peer, CONTROL_QUIET, NULL, 0).error, 0);
}

Test(control, the_program_listens_when_it_asks_and_takes_tools_one_after_another)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct peer parent = begin("listen", "", "no:thing");

	/* the tool that launched it leaves; the agent stays, for it was asked to */
	request(&parent, CONTROL_LEAVE, NULL, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "/tmp/waymark-%d/%d.agent", geteuid(),
		 tool.pid);
	for (int i = 0; i < 3; i++) {
		struct peer peer = { .memfd = -1,
				     .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) };
		int error = -1;

		for (int turn = 0; error && turn < 2000; turn++) {
			error = connect(peer.fd, (struct sockaddr *)&address, sizeof address);
			usleep(1000);
		}
		cr_assert_eq(error, 0, "%s: %s", address.sun_path, strerror(errno));
		cr_assert_eq(read_until(&peer, 0, NULL), CONTROL_HELLO);
		cr_assert_eq(open_session(&peer, "").error, 0);
		cr_assert_eq(rules(&peer, CONTROL_ARM, "work:*", 0).error, 0);
		usleep(20000);
		cr_assert_gt(recorded(&peer), 0);
		if (i % 2)
			request(&peer, CONTROL_LEAVE, NULL, 0);
		close(peer.fd);
	}
}
