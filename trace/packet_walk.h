/* SPDX-License-Identifier: MIT */
/*
 * Stepping through a packet's bytes: event headers, and fields jumped over. All readers do it with
 * these, so that all agree on where an event ends. No byte past `end` is touched.
 */
#ifndef TRACE_PACKET_WALK_H
#define TRACE_PACKET_WALK_H

#include "abi/page.h"
#include "trace/schema.h"

#include <stdint.h>
#include <string.h>

struct walk {
	const uint8_t *at, *end;
	uint64_t ticks; /* of the event read last, or of the packet's begin */
};

#define WALK_TICK_MASK ((1ull << EVENT_TICK_BITS) - 1)

static inline uint32_t load_u32(const uint8_t *from)
{
	uint32_t word;

	memcpy(&word, from, sizeof(word));
	return word;
}

static inline uint64_t load_u64(const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, sizeof(word));
	return word;
}

/* Read an event's header: its id and ticks. 0, or -1 when the packet ends within. */
static inline int walk_header(struct walk *walk, uint32_t *id)
{
	size_t left = (size_t)(walk->end - walk->at);
	uint32_t word;

	if (left < EVENT_COMPACT_BYTES)
		return -1;
	word = load_u32(walk->at);
	*id = word & EVENT_EXTENDED;
	if (__builtin_expect(*id != EVENT_EXTENDED, 1)) {
		walk->ticks += ((word >> 5) - walk->ticks) & WALK_TICK_MASK;
		walk->at += EVENT_COMPACT_BYTES;
		return 0;
	}
	if (left < EVENT_EXTENDED_BYTES)
		return -1;
	*id = load_u32(walk->at + 1);
	walk->ticks = load_u64(walk->at + 5);
	walk->at += EVENT_EXTENDED_BYTES;
	return 0;
}

/* Jump over a string: its state and its bytes up to the NUL. NULL when the packet ends within. */
static inline const uint8_t *walk_string(const uint8_t *at, const uint8_t *end)
{
	const uint8_t *nul;

	if (end - at < 2 || *at > FIELD_UNREADABLE)
		return NULL;
	nul = memchr(at + 1, 0, (size_t)(end - at - 1));
	return nul ? nul + 1 : NULL;
}

static inline const uint8_t *walk_run(const uint8_t *at, const uint8_t *end,
				      unsigned int element_bytes)
{
	uint8_t most = element_bytes > 1 ? FIELD_ASTRAY : FIELD_CUT;
	uint64_t bytes;

	if (end - at < 5 || *at > most)
		return NULL;
	bytes = (uint64_t)load_u32(at + 1) * element_bytes;
	at += 5;
	return (uint64_t)(end - at) < bytes ? NULL : at + bytes;
}

/* The CPU of a packet of the kernel's, -1: of several. */
static inline int32_t packet_cpu(uint32_t number)
{
	return number > INT32_MAX ? -1 : (int32_t)number;
}

/* The thread that an event of the kernel's is about; 0 where that is unknown. */
static inline void event_thread(const struct trace_class *class, const uint8_t *fields,
				uint32_t *pid, uint32_t *tid)
{
	*pid = class->has_thread ? load_u32(fields) : 0;
	*tid = class->has_thread ? load_u32(fields + 4) : 0;
	*pid = *pid > INT32_MAX ? 0 : *pid;
	*tid = *tid > INT32_MAX ? 0 : *tid;
}

/* The end of the fields at `at`, whose lengths vary. NULL when the packet ends within. */
const uint8_t *decode_varying_end(const uint8_t *at, const uint8_t *end,
				  const struct trace_class *class);

/*
 * The end of an event's fields, by a copy of class->fixed_bytes. NULL when the packet ends within.
 * No function gets the address of the walk, so that it can stay in registers.
 */
static inline const uint8_t *walk_fields_end(const struct walk *walk, int32_t fixed_bytes,
					     const struct trace_class *class)
{
	if (__builtin_expect(fixed_bytes < 0, 0))
		return decode_varying_end(walk->at, walk->end, class);
	return walk->end - walk->at < fixed_bytes ? NULL : walk->at + fixed_bytes;
}

/* Jump over an event's fields. 0, or -1 when the packet ends within. */
static inline int walk_fields(struct walk *walk, const struct trace_class *class)
{
	const uint8_t *end = walk_fields_end(walk, class->fixed_bytes, class);

	walk->at = end ? end : walk->at;
	return end ? 0 : -1;
}

#endif
