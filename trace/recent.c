/* SPDX-License-Identifier: MIT */
#include "trace/recent.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK_BYTES ((size_t)1 << 20)
/* Chunks that are kept for the next packets: new memory costs a page fault for each page. */
#define SPARE_MAX 4
#define CHUNK_HEAD ((sizeof(struct recent_chunk) + 15) & ~(size_t)15)
#define GONE_MAX 4096 /* entries of packets that have gone, before the list is moved down */

uint64_t recent_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t size_of(const struct recent_packet *packet)
{
	return sizeof(*packet) + packet->bytes;
}

/* The packet goes; with the last one its chunk. `recent` keeps some of these; NULL: none. */
static void chunk_drop(struct recent *recent, struct recent_chunk *chunk)
{
	if (--chunk->holders)
		return;
	if (!recent || recent->spare_count == SPARE_MAX || chunk->bytes != CHUNK_BYTES) {
		free(chunk);
		return;
	}
	chunk->next = recent->spare;
	recent->spare = chunk;
	recent->spare_count++;
}

static struct recent_chunk *chunk_new(struct recent *recent, size_t bytes)
{
	struct recent_chunk *chunk = recent->spare;

	if (!chunk || bytes > CHUNK_BYTES) {
		bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
		chunk = malloc(bytes);
	} else {
		bytes = CHUNK_BYTES;
		recent->spare = chunk->next;
		recent->spare_count--;
	}
	if (chunk)
		*chunk = (struct recent_chunk){ .holders = 1, .used = CHUNK_HEAD, .bytes = bytes };
	return chunk;
}

/* Room for a packet: in the present chunk, or in a new one. NULL: no memory. */
static struct recent_packet *packet_new(struct recent *recent, size_t bytes)
{
	size_t needs = (sizeof(struct recent_packet) + bytes + 15) & ~(size_t)15;
	struct recent_chunk *chunk = recent->filled;
	struct recent_packet *packet;

	if (!chunk || chunk->bytes - chunk->used < needs) {
		chunk = chunk_new(recent, needs + CHUNK_HEAD);
		if (!chunk)
			return NULL;
		if (recent->filled)
			chunk_drop(recent, recent->filled);
		recent->filled = chunk;
	}
	packet = (struct recent_packet *)((char *)chunk + chunk->used);
	packet->chunk = chunk;
	chunk->used += needs;
	chunk->holders++;
	return packet;
}

/* Drop the oldest. By its size alone the newest one stays. */
static void trim(struct recent *recent, uint64_t now)
{
	struct recent_packets *packets = &recent->packets;

	while (recent->first < packets->count) {
		struct recent_packet *oldest = packets->all[recent->first];

		if (!(recent->bytes_max && recent->bytes > recent->bytes_max &&
		      recent->first + 1 < packets->count) &&
		    !(recent->age_ns_max && now - oldest->came_ns > recent->age_ns_max))
			break;
		recent->bytes -= size_of(oldest);
		recent->first++;
		chunk_drop(recent, oldest->chunk);
	}
	if (recent->first < GONE_MAX || recent->first < packets->count / 2)
		return;
	packets->count -= recent->first;
	memmove(packets->all, packets->all + recent->first, packets->count * sizeof(*packets->all));
	recent->first = 0;
}

int recent_add(struct recent *recent, const struct wm_packet *head, const struct packet_step *step,
	       const void *content, size_t bytes, uint32_t events)
{
	struct recent_packets *packets = &recent->packets;
	struct recent_packet *added;

	if (array_grow(&packets->all, &packets->room, packets->count + 1, sizeof(*packets->all)))
		return -ENOMEM;
	added = packet_new(recent, bytes);
	if (!added)
		return -ENOMEM;
	*added = (struct recent_packet){ .chunk = added->chunk,
					 .events = events,
					 .came_ns = recent_now_ns(),
					 .step = *step,
					 .bytes = bytes,
					 .head = *head };
	if (bytes)
		memcpy(added->content, content, bytes);
	packets->all[packets->count++] = added;
	recent->bytes += size_of(added);
	trim(recent, added->came_ns);
	return 0;
}

uint64_t recent_trim(struct recent *recent)
{
	trim(recent, recent_now_ns());
	return recent->first < recent->packets.count ? recent->packets.all[recent->first]->came_ns
						     : 0;
}

int recent_hold(const struct recent *recent, struct recent_packets *held)
{
	size_t count = recent->packets.count - recent->first;

	*held = (struct recent_packets){ .all = calloc(count + 1, sizeof(*held->all)),
					 .count = count };
	if (!held->all)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		held->all[i] = recent->packets.all[recent->first + i];
		held->all[i]->chunk->holders++;
	}
	return 0;
}

void recent_let_go(struct recent_packets *held)
{
	for (size_t i = 0; i < held->count; i++)
		chunk_drop(NULL, held->all[i]->chunk);
	free(held->all);
	*held = (struct recent_packets){ 0 };
}

int recent_write(const struct recent_packets *held, struct destination *folder)
{
	int err = 0;

	for (size_t i = 0; i < held->count && !err; i++) {
		const struct recent_packet *packet = held->all[i];

		err = destination_packet(folder, &packet->head, &packet->step, packet->content,
					 packet->bytes, packet->events);
	}
	return err;
}

void recent_free(struct recent *recent)
{
	if (!recent)
		return;
	for (size_t i = recent->first; i < recent->packets.count; i++)
		chunk_drop(NULL, recent->packets.all[i]->chunk);
	if (recent->filled)
		chunk_drop(NULL, recent->filled);
	while (recent->spare) {
		struct recent_chunk *next = recent->spare->next;

		free(recent->spare);
		recent->spare = next;
	}
	free(recent->packets.all);
	free(recent);
}
