/* SPDX-License-Identifier: MIT */
#include "engine/channel.h"
#include "engine/engine_memory.h"
#include "engine/sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#define NAP_NS 5000000 /* of the tool's death nothing wakes us */

struct channel channel;

/* For the tool: which of them this engine takes. */
static const struct engine_note note
	__attribute__((section(ENGINE_NOTE_SECTION), used, aligned(4))) = { ENGINE_NOTE_VALUES };

int channel_open(struct engine_channel *head)
{
	channel = (struct channel){
		.head = head,
		.base = (uint8_t *)head - head->at,
		.slots = (struct engine_slot *)((uint8_t *)head + head->slots_at),
		.rings = (uint8_t *)head + head->rings_at,
		.log = (uint8_t *)head + head->log_at,
		.log_bytes = head->log_bytes,
		.segment_bytes = head->segment_bytes,
		.slot_bytes = head->segments_per_slot * (head->segment_bytes + ENGINE_GUARD_BYTES),
		.slot_count = head->slot_count,
		.segments = head->segments_per_slot,
		.process = head->process,
		.processes = head->processes,
		.policy = head->boot.policy,
		.flags = head->boot.flags,
	};
	if (head->magic != ENGINE_MAGIC || head->version != ENGINE_VERSION || !channel.segments ||
	    channel.segments > ENGINE_SEGMENTS_MAX || !channel.slot_count ||
	    channel.segment_bytes < 4096 || channel.segment_bytes % 4096 || head->rings_at % 4096 ||
	    channel.log_bytes < 65536 || channel.log_bytes % 8)
		return -EINVAL;
	memory_own(channel.base, head->bytes, channel.processes > 1);
	return 0;
}

void channel_turn(struct engine_channel *head)
{
	channel.head = head;
	channel.log = (uint8_t *)head + head->log_at;
	channel.process = head->process;
}

int channel_has_tool(void)
{
	uint32_t tool = __atomic_load_n(&channel_first()->tool, __ATOMIC_ACQUIRE);

	return tool && !(tool & FUTEX_OWNER_DIED);
}

int channel_is_over(void)
{
	const struct engine_channel *first = channel_first();

	return __atomic_load_n(&first->asked, __ATOMIC_RELAXED) & ENGINE_ASKED_STOP ||
	       __atomic_load_n(&first->tool, __ATOMIC_RELAXED) & FUTEX_OWNER_DIED;
}

void channel_tell(void)
{
	uint32_t *word = &channel_first()->wanted_log;

	__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	sys_call3(SYS_futex, (long)word, FUTEX_WAKE, INT32_MAX);
}

void channel_wait(const uint32_t *word, uint32_t value)
{
	struct timespec nap = { 0, NAP_NS };

	channel_tell();
	sys_call(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&nap, 0, 0);
}

void channel_native(enum engine_native why)
{
	uint32_t none = ENGINE_NATIVE_NOT;

	if (!channel_is_over() &&
	    __atomic_compare_exchange_n(&channel.head->native, &none, (uint32_t)why, 0,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		channel.head->native_ticks = sys_ticks();
}
