/* SPDX-License-Identifier: MIT */
#include "trace/recent.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GONE_MAX 4096 /* entries of packets that have gone, before the list is moved down */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t size_of(const struct recent_packet *packet)
{
	return sizeof(*packet) + packet->bytes;
}

static void packet_drop(struct recent_packet *packet)
{
	if (!--packet->holders)
		free(packet);
}

/* Drop the oldest; the newest one stays, however large it is. */
static void trim(struct recent *recent, uint64_t now)
{
	struct recent_packets *packets = &recent->packets;

	while (recent->first + 1 < packets->count) {
		struct recent_packet *oldest = packets->all[recent->first];

		if (!(recent->bytes_max && recent->bytes > recent->bytes_max) &&
		    !(recent->age_ns_max && now - oldest->came_ns > recent->age_ns_max))
			break;
		recent->bytes -= size_of(oldest);
		recent->first++;
		packet_drop(oldest);
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
	added = malloc(sizeof(*added) + bytes);
	if (!added)
		return -ENOMEM;
	*added = (struct recent_packet){ .holders = 1,
					 .events = events,
					 .came_ns = now_ns(),
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
	trim(recent, now_ns());
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
		held->all[i]->holders++;
	}
	return 0;
}

void recent_let_go(struct recent_packets *held)
{
	for (size_t i = 0; i < held->count; i++)
		packet_drop(held->all[i]);
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
		packet_drop(recent->packets.all[i]);
	free(recent->packets.all);
	free(recent);
}
