/* SPDX-License-Identifier: MIT */
#include "agent/trail/channel.h"

#include <errno.h>
#include <linux/futex.h>

struct channel channel;

int channel_open(struct engine_channel *head)
{
	channel = (struct channel){
		.head = head,
		.slots = (struct engine_slot *)((uint8_t *)head + head->slots_at),
		.rings = (uint8_t *)head + head->rings_at,
		.log = (uint8_t *)head + head->log_at,
		.log_bytes = head->log_bytes,
		.segment_bytes = head->segment_bytes,
		.slot_bytes = head->segments_per_slot * (head->segment_bytes + ENGINE_GUARD_BYTES),
		.slot_count = head->slot_count,
		.segments = head->segments_per_slot,
		.policy = head->boot.policy,
	};
	if (head->magic != ENGINE_MAGIC || head->version != ENGINE_VERSION || !channel.segments ||
	    channel.segments > ENGINE_SEGMENTS_MAX || !channel.slot_count ||
	    channel.segment_bytes < 4096 || channel.segment_bytes % 4096 || head->rings_at % 4096 ||
	    channel.log_bytes < 65536 || channel.log_bytes % 8)
		return -EINVAL;
	return 0;
}

int channel_has_tool(void)
{
	uint32_t tool = __atomic_load_n(&channel.head->tool, __ATOMIC_ACQUIRE);

	return tool && !(tool & FUTEX_OWNER_DIED);
}
