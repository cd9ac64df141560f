/* SPDX-License-Identifier: MIT */
#include "record/marker/hits.h"

#include "base/array.h"
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
#define ANSWER_BYTES_MAX (64u << 20)

struct entry {
	char *name, *fields;
	char kind;
	uint8_t types[16];
	uint64_t hits;
};

struct answer {
	struct entry *all;
	size_t count, room, bytes;
};

_Static_assert(CATALOG_HITS_UNKNOWN == CONTROL_HITS_UNKNOWN, "taken over as it is");

static int name_order(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (!order)
		order = left->kind - right->kind;
	return order ? order : strcmp(left->fields, right->fields);
}

static int entry_order(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	int order = name_order(a, b);

	return order ? order : memcmp(left->types, right->types, sizeof(left->types));
}

static int entry_add(struct answer *answer, const struct entry *entry)
{
	if (array_grow(&answer->all, &answer->room, answer->count + 1, sizeof(*answer->all)))
		return -ENOMEM;
	answer->all[answer->count] = *entry;
	answer->all[answer->count].name = strdup(entry->name);
	answer->all[answer->count].fields = strdup(entry->fields);
	answer->count++;
	if (!answer->all[answer->count - 1].name || !answer->all[answer->count - 1].fields)
		return -ENOMEM;
	return 0;
}

static int marker_take(struct answer *answer, const struct link_message *message)
{
	const char *text = (const char *)message->body + sizeof(struct control_marker);
	struct control_marker marker;
	char name[NAME_BYTES];
	struct entry entry = { .name = name, .fields = (char *)text };

	if (message->bytes <= sizeof(marker))
		return -WM_E_PROTOCOL;
	memcpy(&marker, message->body, sizeof(marker));
	answer->bytes += message->bytes;
	if (answer->bytes > ANSWER_BYTES_MAX)
		return -WM_E_PROTOCOL;
	if (spec_name_of(text, name, sizeof(name)))
		return 0;
	/* the fields are the sixth part (abi/site.h) */
	for (int i = 0; entry.fields && i < 5; i++) {
		entry.fields = strchr(entry.fields, '\n');
		if (entry.fields)
			entry.fields++;
	}
	if (!entry.fields)
		return 0;
	entry.kind = text[0];
	entry.hits = marker.hits;
	memcpy(entry.types, marker.types, sizeof(entry.types));
	return entry_add(answer, &entry);
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
static int answer_read(struct answer *answer, struct link *link)
{
	uint64_t end_ns = ticks_monotonic_ns() + WAIT_NS;
	struct link_message message;
	struct control_done done;
	int serial = link_send(link, CONTROL_LIST, NULL, 0), err;

	if (serial < 0)
		return serial;
	while ((err = message_wait(link, end_ns, &message)) > 0) {
		err = 0;
		if (message.fd >= 0)
			close(message.fd); /* the agent should send none */
		if (message.type == CONTROL_MARKER)
			err = marker_take(answer, &message);
		if (err)
			return err;
		if (message.type != CONTROL_DONE)
			continue;
		if (message.bytes != sizeof(done))
			return -WM_E_PROTOCOL;
		memcpy(&done, message.body, sizeof(done));
		if (done.error || message.serial == (uint32_t)serial)
			return done.error > 0 ? -WM_E_PROTOCOL : done.error;
	}
	return err;
}

/*
 * The agent reports a marker once for each module that has it, and counts each list of types
 * separately. Keep one entry for each marker, with the sum over its lists of types.
 */
static void answer_merge(struct answer *answer)
{
	size_t kept = 0;

	if (answer->count)
		qsort(answer->all, answer->count, sizeof(*answer->all), entry_order);
	for (size_t i = 0; i < answer->count; i++) {
		struct entry *entry = &answer->all[i];
		struct entry *last = kept ? &answer->all[kept - 1] : NULL;

		if (!last || name_order(last, entry)) {
			answer->all[kept++] = *entry;
			continue;
		}
		if (memcmp(last->types, entry->types, sizeof(last->types))) {
			if (entry->hits == CATALOG_HITS_UNKNOWN ||
			    last->hits == CATALOG_HITS_UNKNOWN)
				last->hits = CATALOG_HITS_UNKNOWN;
			else
				last->hits += entry->hits;
			memcpy(last->types, entry->types, sizeof(last->types));
		}
		free(entry->name);
		free(entry->fields);
	}
	answer->count = kept;
}

static void answer_release(struct answer *answer)
{
	for (size_t i = 0; i < answer->count; i++) {
		free(answer->all[i].name);
		free(answer->all[i].fields);
	}
	free(answer->all);
}

int hits_ask(struct catalog *catalog, pid_t pid)
{
	struct answer answer = { 0 };
	struct target target;
	struct link link;
	int err = target_read(&target, pid);

	if (!err)
		err = reach_agent(&target, &link);
	if (err)
		return err;
	err = answer_read(&answer, &link);
	link_release(&link);
	answer_merge(&answer);
	for (size_t i = 0; !err && answer.count && i < catalog->count; i++) {
		struct catalog_marker *marker = &catalog->markers[i];
		struct entry wanted = { .name = marker->name,
					.fields = (char *)marker->fields,
					.kind = marker->kind },
			     *found;

		if (marker->pid != target.pid)
			continue;
		found = bsearch(&wanted, answer.all, answer.count, sizeof(*answer.all), name_order);
		if (found)
			marker->hits = found->hits;
	}
	answer_release(&answer);
	return err;
}
