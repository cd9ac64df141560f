/* SPDX-License-Identifier: MIT */
/*
 * The channel between us and the engine of one process (abi/engine.h), as we see it: a memfd that
 * cannot be made smaller, mapped. What it says of its own layout is for the engine; we go by what
 * we put there.
 *
 * One thread at a time uses a channel.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_CHANNEL_H
#define RECORD_TRAIL_SOFT_SOFT_CHANNEL_H

#include "abi/engine.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct soft_sizes {
	uint32_t slots;	   /* threads that are recorded at one time */
	uint32_t segments; /* of each; at most ENGINE_SEGMENTS_MAX */
	uint64_t segment_bytes, log_bytes;
	enum engine_policy policy;
	uint32_t follows; /* children are recorded, too, in channels of the same sizes */
};

#define SOFT_PROCESSES_MAX 4096u /* that are recorded at one time */

struct soft_channel {
	int fd;			/* -1: of a process that has it mapped already */
	uint64_t device, inode; /* of the memfd, as mappings have them */
	struct soft_sizes sizes;
	uint64_t bytes, slots_at, log_at, rings_at;
	uint8_t *reserve; /* a page of our own, then the channel */
	uint8_t *base;
};

/*
 * Sizes for a trail that is drained as it is written; or, with `last_bytes`, that keeps the newest
 * of each thread: as many as make about so many bytes of a store.
 */
struct soft_sizes soft_sizes_for(uint64_t last_bytes, int follows);

/* 0; -EINVAL for sizes that can't be, -errno. Close it also after an error. */
int soft_channel_open(struct soft_channel *channel, const struct soft_sizes *sizes);

/*
 * The same, of a memfd that was made by the process, with MFD_ALLOW_SEALING, and is the channel's
 * from now on; or -errno, which is returned.
 */
int soft_channel_open_at(struct soft_channel *channel, const struct soft_sizes *sizes, int fd);
#define SOFT_CHANNEL_NAME ENGINE_CHANNEL_NAME

/* The descriptor is needed no more. */
void soft_channel_close_fd(struct soft_channel *channel);

/* From now on the head says where everything is: the engine may begin. */
void soft_channel_fill(const struct soft_channel *channel);

void soft_channel_close(struct soft_channel *channel);

/* Answer what was asked for by one of its words: enum engine_ask, enum engine_trace_ask. */
void soft_channel_answer(uint32_t *ask, uint32_t answer);

/* An entry for a child: the child is known; or the entry may be used again. */
void soft_channel_meet(struct engine_child *entry);
void soft_channel_give_child(struct engine_child *entry);

/*
 * So much of the log was taken, ever; the segment of that number was. Wakes who waits for room.
 */
void soft_channel_give_log(const struct soft_channel *channel, uint64_t taken);
void soft_channel_give_segment(const struct soft_channel *channel, uint32_t slot, uint32_t index,
			       uint64_t number);
void soft_channel_give_slot(const struct soft_channel *channel, uint32_t number);

static inline struct engine_channel *soft_channel_head(const struct soft_channel *channel)
{
	return (struct engine_channel *)channel->base;
}

static inline struct engine_slot *soft_channel_slot(const struct soft_channel *channel,
						    uint32_t slot)
{
	return (struct engine_slot *)(channel->base + channel->slots_at) + slot;
}

static inline uint32_t *soft_channel_words(const struct soft_channel *channel, uint32_t slot,
					   uint32_t segment)
{
	uint64_t number = (uint64_t)slot * channel->sizes.segments + segment;

	return (uint32_t *)(channel->base + channel->rings_at +
			    number * (channel->sizes.segment_bytes + ENGINE_GUARD_BYTES));
}

/*
 * What we say to the engines of all processes of a recording (struct engine_control): a page that
 * they map without the right to write. Nothing is read from it here.
 *
 * One thread at a time uses it, except soft_control_hold().
 */

struct soft_control {
	int fd; /* which no one can map to write; -1: it is part of a channel */
	uint8_t *reserve;
	size_t bytes; /* from there on, that are ours to unmap */
	struct engine_control *page;
	int is_held;
};

/* 0 or -errno. Close it also after an error. */
int soft_control_open(struct soft_control *control);

/* The same, in the channel of a process that is recorded alone: that may write it. */
void soft_control_open_in(struct soft_control *control, const struct soft_channel *channel);

/*
 * Engines wait for us from now on, as long as the calling thread lives: its list of robust
 * futexes becomes ours, so it may hold no robust mutex of the C library. In that thread it is let
 * go or closed, too.
 */
void soft_control_hold(struct soft_control *control);
void soft_control_let_go(struct soft_control *control);

/* All are asked for something: ENGINE_ASKED_*. */
void soft_control_ask(const struct soft_control *control, uint32_t asked);

/* A forked child has its channel; or is refused one. Wakes children that wait. */
void soft_control_serve(const struct soft_control *control);
void soft_control_refuse(const struct soft_control *control, pid_t parent, uint32_t count);

/* Sleep until an engine has something, no longer than `poll_wait`. It may be missed. */
void soft_control_wait(const struct soft_control *control, const struct timespec *poll_wait);

/* Let go, and release. */
void soft_control_close(struct soft_control *control);

#endif
