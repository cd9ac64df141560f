/* SPDX-License-Identifier: MIT */
/* Make a packet of a page: of all of it, or of what follows the parts that were written before. */
#include "record/drain/drain_state.h"

#include <string.h>

void packet_head(struct drain *drain, struct wm_packet *head, const struct stream *stream)
{
	*head = (struct wm_packet){
		.instance = stream->instance,
		.discarded = stream->reported,
		.pid = stream->pid ? stream->pid : drain->pid,
		.tid = stream->tid,
		.depth = stream->depth,
	};
}

/* Set the packet's begin, in all clocks. The rate is that of the clocks since this drain began. */
static void packet_begin(const struct drain *drain, struct wm_packet *head, uint64_t ticks)
{
	struct ticks_point now;
	uint64_t ns = 0;

	ticks_now(drain->map.clock, &now);
	if (now.ticks > drain->born.ticks && ticks > head->begin_ticks)
		ns = (uint64_t)((double)(ticks - head->begin_ticks) *
				(double)(now.monotonic_ns - drain->born.monotonic_ns) /
				(double)(now.ticks - drain->born.ticks));
	head->begin_ticks = ticks;
	head->monotonic_ns += ns;
	head->monotonic_raw_ns += ns;
	head->realtime_ns += ns;
}

/* Leave out the parts of the page that were written before. */
static void packet_cut(const struct drain *drain, const struct stream *stream, uint64_t seq,
		       struct drain_packet *packet)
{
	if (!stream->part_bytes || stream->part_seq != seq)
		return;
	/* a page that shrank since is damaged: hand on nothing more of it */
	if (packet->bytes < stream->part_bytes || packet->events < stream->part_events) {
		packet->bytes = 0;
		packet->events = 0;
		return;
	}
	packet->content = (const char *)packet->content + stream->part_bytes;
	packet->bytes -= stream->part_bytes;
	packet->events -= stream->part_events;
	packet_begin(drain, packet->head, stream->part_ticks);
	if (packet->head->end_ticks < packet->head->begin_ticks)
		packet->head->end_ticks = packet->head->begin_ticks;
}

int packet_of(struct drain *drain, struct stream *stream, const struct found *found, uint64_t word,
	      uint64_t end_ticks, struct drain_packet *packet)
{
	const struct wm_page *page = &drain->map.pages[found->page];
	uint32_t commit = (uint32_t)word;
	struct wm_slot *slot = &drain->map.slots[found->slot];
	struct wm_packet *head = packet->head;
	uint64_t discarded = __atomic_load_n(&page->discarded, __ATOMIC_RELAXED);

	if (commit < PAGE_HEAD_BYTES || commit > STORE_PAGE_BYTES)
		return 0;
	/* the page has the slot's count of losses from when it was opened */
	stream_count(stream, &slot->discarded);
	if (discarded > stream->discarded)
		discarded = stream->discarded;
	discarded += stream->lost;
	if (discarded > stream->reported && drain->reach != DRAIN_PEEK)
		stream->reported = discarded;

	packet_head(drain, head, stream);
	head->begin_ticks = page->begin_ticks;
	head->end_ticks = end_ticks > head->begin_ticks ? end_ticks : head->begin_ticks;
	head->seq = page->seq + stream->shift;
	head->monotonic_ns = page->monotonic_ns;
	head->monotonic_raw_ns = page->monotonic_raw_ns;
	head->realtime_ns = page->realtime_ns;
	memcpy(head->comm, slot->comm, sizeof(head->comm));
	head->comm[sizeof(head->comm) - 1] = 0;
	packet->content = drain->map.data + (size_t)found->page * STORE_PAGE_BYTES +
			  PAGE_HEAD_BYTES;
	packet->bytes = commit - PAGE_HEAD_BYTES;
	packet->events = word >> 32;
	packet->delivered = &stream->delivered;
	packet->keep = 0;
	packet_cut(drain, stream, found->seq, packet);
	return 1;
}

int packet_of_page(struct drain *drain, struct stream *stream, const struct found *found,
		   struct drain_packet *packet)
{
	const struct wm_page *page = &drain->map.pages[found->page];
	/* acquire: all bytes, counts and times before it are complete (abi/page.h) */
	uint64_t word = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);

	return packet_of(drain, stream, found, word, page->end_ticks, packet);
}
