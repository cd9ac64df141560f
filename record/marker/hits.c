/* SPDX-License-Identifier: MIT */
#include "record/marker/hits.h"

#include "base/slots.h"
#include "target/process/reach.h"
#include "record/spec/spec.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define WAIT_NS 1000000000u
#define NAME_BYTES 512

/* The process's markers in the catalog, which are found by name and fields. */
struct wanted {
	struct catalog *catalog;
	struct slots slots;
};

_Static_assert(CATALOG_HITS_UNKNOWN == CONTROL_HITS_UNKNOWN, "taken over as it is");

static uint32_t hash_of(const char *name, const char *fields)
{
	return slots_hash((uint64_t)slots_hash_text(name) << 32 | slots_hash_text(fields));
}

/* The agent reports a marker for each list of types, and again for each module that has it. */
static int marker_take(const struct wanted *wanted, const struct link_message *message)
{
	const char *text = (const char *)message->body + sizeof(struct control_marker);
	const char *fields = text;
	struct control_marker marker;
	uint32_t hash, number;
	char name[NAME_BYTES];

	if (message->bytes <= sizeof(marker))
		return -WM_E_PROTOCOL;
	memcpy(&marker, message->body, sizeof(marker));
	/* the fields are the sixth part (abi/site.h) */
	for (int i = 0; fields && i < 5; i++) {
		fields = strchr(fields, '\n');
		fields = fields ? fields + 1 : NULL;
	}
	if (!fields || spec_name_of(text, name, sizeof(name)))
		return 0;
	hash = hash_of(name, fields);
	for (uint64_t at = hash; slots_next(&wanted->slots, hash, &at, &number);) {
		struct catalog_marker *there = &wanted->catalog->markers[number];

		if (there->kind == text[0] && !there->types_differ && !strcmp(there->name, name) &&
		    !strcmp(there->fields, fields) &&
		    !memcmp(there->types, marker.types, sizeof(marker.types)))
			there->hits = marker.hits;
	}
	return 0;
}

/* Wait for the next message. Returns 1 or an error. */
static int message_wait(struct link *link, uint64_t end_ns, struct link_message *message)
{
	struct pollfd ready = { .fd = link->fd, .events = POLLIN };

	for (;;) {
		uint64_t now_ns = ticks_monotonic_ns();
		int err;

		if (now_ns >= end_ns)
			return -WM_E_AGENT_SILENT;
		err = link_receive(link, message);
		if (err)
			return err;
		if (poll(&ready, 1, (int)((end_ns - now_ns) / 1000000 + 1)) < 0 && errno != EINTR)
			return -errno;
	}
}

/*
 * LIST may be sent before HELLO, which the agent sends unasked, has come. An agent without room for
 * another tool sends DONE with serial 0.
 */
static void answer_read(const struct wanted *wanted, struct link *link)
{
	uint64_t end_ns = ticks_monotonic_ns() + WAIT_NS;
	struct link_message message;
	struct control_done done;
	int serial = link_send(link, CONTROL_LIST, NULL, 0), err = serial < 0 ? serial : 0;

	while (!err && message_wait(link, end_ns, &message) > 0) {
		if (message.fd >= 0)
			close(message.fd); /* the agent should send none */
		if (message.type == CONTROL_MARKER)
			err = marker_take(wanted, &message);
		if (message.type != CONTROL_DONE)
			continue;
		if (message.bytes != sizeof(done))
			return;
		memcpy(&done, message.body, sizeof(done));
		if (done.error || message.serial == (uint32_t)serial)
			return;
	}
}

void hits_ask(struct catalog *catalog, pid_t pid)
{
	struct wanted wanted = { .catalog = catalog };
	struct target target;
	struct link link;
	int err = target_read(&target, pid);

	for (size_t i = 0; !err && i < catalog->count; i++) {
		const struct catalog_marker *marker = &catalog->markers[i];

		if (marker->pid != target.pid)
			continue;
		err = slots_fit(&wanted.slots);
		if (!err)
			slots_add(&wanted.slots, hash_of(marker->name, marker->fields),
				  (uint32_t)i);
	}
	if (!err && wanted.slots.count && !reach_agent(&target, &link)) {
		answer_read(&wanted, &link);
		link_release(&link);
	}
	free(wanted.slots.all);
}
