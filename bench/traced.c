/* SPDX-License-Identifier: MIT */
#include "bench/traced.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/measure.h"
#include "target/process/launch.h"
#include "target/process/socket_owner.h"
#include <waymark/error.h>

#define ANSWER_MS 20000

static int take_store(struct traced *traced, const struct link_message *message)
{
	const struct control_store *body = (const void *)message->body;
	void *at;

	if (message->fd < 0 || message->bytes < sizeof(*body))
		return -WM_E_PROTOCOL;
	traced->store_fd = message->fd;
	traced->store_bytes = body->bytes;
	at = mmap(NULL, body->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, message->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	traced->store = at;
	return 0;
}

/* Read until a message of this type (and serial, if it isn't 0) has come. */
static int wait_for(struct traced *traced, uint16_t type, uint32_t serial, void *body, size_t bytes)
{
	uint64_t end = measure_ns() + ANSWER_MS * 1000000ull;
	struct link_message message;
	int err;

	while ((err = link_receive(&traced->link, &message)) >= 0) {
		if (!err) {
			struct pollfd fd = { .fd = traced->link.fd, .events = POLLIN };

			if (measure_ns() > end)
				return -ETIMEDOUT;
			poll(&fd, 1, 100);
			continue;
		}
		if (message.type == CONTROL_STORE)
			err = take_store(traced, &message);
		else if (message.fd >= 0)
			close(message.fd);
		if (err < 0)
			return err;
		traced->markers += message.type == CONTROL_MARKER;
		traced->refused += message.type == CONTROL_REFUSED;
		if (message.type == type && (!serial || message.serial == serial)) {
			memcpy(body, message.body, message.bytes < bytes ? message.bytes : bytes);
			return 0;
		}
	}
	return err;
}

static int send_and_wait(struct traced *traced, uint16_t type, const struct iovec *parts, int count,
			 struct control_done *done)
{
	struct control_done spare;
	int serial = link_send(&traced->link, type, parts, count), err;

	if (serial < 0)
		return serial;
	if (!done)
		done = &spare;
	memset(done, 0, sizeof(*done));
	err = wait_for(traced, CONTROL_DONE, (uint32_t)serial, done, sizeof(*done));
	return err ? err : done->error;
}

static int meet(struct traced *traced, uint64_t buffer_bytes, uint32_t policy)
{
	struct control_open open = { .buffer_bytes = buffer_bytes, .policy = policy };
	struct iovec parts[] = { { &open, sizeof(open) }, { (char[]){ "" }, 1 } };
	uint64_t end = measure_ns() + ANSWER_MS * 1000000ull;
	int err;

	while ((err = tool_socket_listener_accept(traced->listener, &traced->link)) == 0) {
		struct pollfd fd = { .fd = traced->listener->fd, .events = POLLIN };

		if (measure_ns() > end)
			return -WM_E_AGENT_SILENT;
		poll(&fd, 1, 100);
	}
	if (err < 0)
		return err;
	err = wait_for(traced, CONTROL_HELLO, 0, &traced->hello, sizeof(traced->hello));
	if (err)
		return err;
	err = send_and_wait(traced, CONTROL_OPEN, parts, 2, NULL);
	if (err)
		return err;
	return traced->store ? 0 : -WM_E_PROTOCOL;
}

int traced_launch(struct traced *traced, char *const argv[], uint64_t buffer_bytes, uint32_t policy)
{
	const char *agent = getenv("WAYMARK_AGENT");
	struct launch_options options = { .agent = agent };
	char dir[SOCKETDIR_BYTES];
	int err;

	*traced = (struct traced){ .store_fd = -1, .link.fd = -1 };
	if (!agent)
		return -WM_E_NO_AGENT;
	err = socket_place_own(dir);
	if (!err)
		err = tool_socket_listener_new(&traced->listener, dir,
					       socket_place_open(dir, geteuid()), geteuid());
	if (err)
		return err;
	options.tool = traced->listener->path;
	err = launch_start(&traced->pid, argv[0], argv, &options);
	return err ? err : meet(traced, buffer_bytes, policy);
}

int traced_request(struct traced *traced, uint16_t type, struct control_done *done)
{
	return send_and_wait(traced, type, NULL, 0, done);
}

int traced_rule(struct traced *traced, uint16_t type, const char *glob, uint32_t strict,
		struct control_done *done)
{
	struct control_rules rules = { .count = glob ? 1 : 0, .strict = strict };
	struct iovec parts[] = { { &rules, sizeof(rules) },
				 { (void *)(uintptr_t)glob, glob ? strlen(glob) + 1 : 0 } };

	return send_and_wait(traced, type, parts, glob ? 2 : 1, done);
}

void traced_count(const struct traced *traced, uint64_t *recorded, uint64_t *discarded)
{
	const struct wm_store *store = traced->store;
	const char *base = (const char *)store;
	const struct wm_slot *slots = (const void *)(base + store->slots_offset);
	const struct wm_page *pages = (const void *)(base + store->pages_offset);

	*recorded = 0;
	*discarded = __atomic_load_n(&store->discarded, __ATOMIC_ACQUIRE) +
		     __atomic_load_n(&store->overwritten, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < store->slot_count; i++)
		*discarded += __atomic_load_n(&slots[i].discarded, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < store->page_count; i++) {
		uint32_t state = __atomic_load_n(&pages[i].state, __ATOMIC_ACQUIRE);

		if (state == PAGE_OPEN || state == PAGE_FULL)
			*recorded += __atomic_load_n(&pages[i].events, __ATOMIC_ACQUIRE);
	}
}

void traced_release(struct traced *traced)
{
	if (traced->store)
		munmap(traced->store, traced->store_bytes);
	if (traced->store_fd >= 0)
		close(traced->store_fd);
	if (traced->link.fd >= 0)
		link_release(&traced->link);
	tool_socket_listener_free(traced->listener);
	*traced = (struct traced){ .store_fd = -1, .link.fd = -1 };
}
