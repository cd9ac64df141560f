/* SPDX-License-Identifier: MIT */
/*
 * Requests are sent in order, a few at a time. The agent reads one after it has answered the one
 * before. If both sides filled the socket at the same time, neither could continue.
 */
#include "record/session/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define PLACES_MAX 2 /* in flight, of up to 64 KiB each */

struct process_queued {
	struct process_queued *next;
	size_t bytes;
	uint16_t type;
	unsigned char body[];
};

/* A free element of `requests` for a request that may be sent now; -1: none. */
static int free_place(const struct process *process, uint16_t type)
{
	int place = -1, places = 0;

	for (int i = 0; i < REQUESTS_MAX; i++) {
		if (!process->requests[i].serial)
			place = i;
		else
			places += process->requests[i].type == CONTROL_PLACE;
	}
	return type == CONTROL_PLACE && places >= PLACES_MAX ? -1 : place;
}

static int send_at(struct process *process, int place, uint16_t type, const struct iovec *parts,
		   int count)
{
	int serial = link_send(&process->link, type, parts, count);

	if (serial < 0)
		return serial;
	process->requests[place].serial = (uint32_t)serial;
	process->requests[place].type = type;
	return 0;
}

static int enqueue(struct process *process, uint16_t type, const struct iovec *parts, int count)
{
	struct process_queued *queued;
	size_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	queued = malloc(sizeof(*queued) + bytes);
	if (!queued)
		return -ENOMEM;
	*queued = (struct process_queued){ .type = type };
	for (int i = 0; i < count; i++) {
		memcpy(queued->body + queued->bytes, parts[i].iov_base, parts[i].iov_len);
		queued->bytes += parts[i].iov_len;
	}
	if (!process->queue)
		process->queue_end = &process->queue;
	*process->queue_end = queued;
	process->queue_end = &queued->next;
	return 0;
}

int process_request(struct process *process, uint16_t type, const struct iovec *parts, int count)
{
	int place = process->queue ? -1 : free_place(process, type);

	if (process->link.fd < 0)
		return -WM_E_GONE;
	return place < 0 ? enqueue(process, type, parts, count)
			 : send_at(process, place, type, parts, count);
}

unsigned int process_pending(const struct process *process)
{
	unsigned int pending = 0;

	for (int i = 0; i < REQUESTS_MAX; i++)
		pending += process->requests[i].serial != 0;
	for (const struct process_queued *q = process->queue; q; q = q->next)
		pending++;
	return pending;
}

static void send_queued(struct process *process)
{
	while (process->queue) {
		struct process_queued *first = process->queue;
		struct iovec part = { first->body, first->bytes };
		int place = free_place(process, first->type), err;

		if (place < 0)
			return;
		err = send_at(process, place, first->type, &part, 1);
		if (err && !process->error)
			process->error = err;
		process->queue = first->next;
		free(first);
	}
}

uint16_t process_answered(struct process *process, uint32_t serial)
{
	uint16_t type = 0;

	for (int i = 0; serial && i < REQUESTS_MAX; i++) {
		if (process->requests[i].serial != serial)
			continue;
		type = process->requests[i].type;
		process->requests[i].serial = 0;
	}
	send_queued(process);
	return type;
}

void process_drop_places(struct process *process)
{
	struct process_queued **at = &process->queue;

	while (*at) {
		struct process_queued *queued = *at;

		if (queued->type == CONTROL_PLACE || queued->type == CONTROL_COMMIT) {
			*at = queued->next;
			free(queued);
		} else {
			at = &queued->next;
		}
	}
	process->queue_end = at;
}

void process_forget_requests(struct process *process)
{
	memset(process->requests, 0, sizeof(process->requests));
	while (process->queue) {
		struct process_queued *next = process->queue->next;

		free(process->queue);
		process->queue = next;
	}
}
