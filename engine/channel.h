/* SPDX-License-Identifier: MIT */
/*
 * The channel as the engine read it once and checked it. The engine does not trust later changes to
 * it.
 */
#ifndef ENGINE_CHANNEL_H
#define ENGINE_CHANNEL_H

#include "abi/engine.h"

struct channel {
	struct engine_channel *head; /* the process's own page */
	uint8_t *base;		     /* of all */
	struct engine_slot *slots;
	uint8_t *rings, *log;
	uint64_t log_bytes, segment_bytes, slot_bytes; /* slot_bytes: of its ring, guards and all */
	uint32_t slot_count, segments;
	uint32_t process, processes;
	uint32_t policy;
	uint32_t flags; /* ENGINE_BOOT_* */
};

extern struct channel channel;

/* 0, or -EINVAL: the tool made it wrong. */
int channel_open(struct engine_channel *head);

/* A copy of the process has a page of its own. */
void channel_turn(struct engine_channel *head);

/* The page that has the words for all processes. */
static inline struct engine_channel *channel_first(void)
{
	return (struct engine_channel *)channel.base;
}

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

#endif
