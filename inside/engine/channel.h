/* SPDX-License-Identifier: MIT */
/*
 * The channel as the engine read it once and checked it: no layout is read from it again. A forked
 * child has the same layout at the same addresses.
 */
#ifndef INSIDE_ENGINE_CHANNEL_H
#define INSIDE_ENGINE_CHANNEL_H

#include "abi/engine.h"

struct channel {
	struct engine_channel *head; /* at its first byte */
	const struct engine_control *control;
	struct engine_slot *slots;
	uint8_t *rings, *log;
	uint64_t bytes;				       /* of all */
	uint64_t log_bytes, segment_bytes, slot_bytes; /* slot_bytes: of its ring, guards and all */
	uint32_t slot_count, segments;
	uint32_t follows;
	uint32_t pid; /* the process's: another may share its memory, and make children */
	uint32_t policy;
	uint32_t flags; /* ENGINE_BOOT_* */
};

extern struct channel channel;

/* 0, or -EINVAL: the tool made it wrong. */
int channel_open(struct engine_channel *head, const struct engine_boot *boot);

/*
 * In a forked child, which has nothing at the channel's addresses: a channel of its own there, by
 * the tool. It is the `count`th child of the process that the channel was of. 0, or -errno: the
 * process has no channel, and nothing may touch it.
 */
int channel_renew(uint32_t count);

/* In a copy of the process that runs natively and has no channel: what is written goes nowhere. */
void channel_lose(void);

/* The tool wants no more, or is gone. */
int channel_is_over(void);

/* Whether somebody takes what is written. */
int channel_has_tool(void);

/* Why the process runs natively from now on; the first that is said stays. */
void channel_native(enum engine_native why);

/* There is something for the tool, should it sleep. */
void channel_tell(void);

/*
 * Sleep as long as the tool leaves *word, of the channel's, at `value`; or for a moment, since the
 * tool may die.
 */
void channel_wait(const uint32_t *word, uint32_t value);

/* engine_start.c, for the tool: where the steps of attach.h are, in the head. */
void engine_places(struct engine_channel *head);

#endif
