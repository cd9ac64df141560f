/* SPDX-License-Identifier: MIT */
/*
 * The channel between us and an engine in another process (abi/engine.h), as we see it: a memfd
 * that cannot be made smaller, mapped. What it says of its own layout is for the engine; we go by
 * what we put there.
 *
 * One thread at a time uses a channel.
 */
#ifndef BRANCH_SOFT_SOFT_CHANNEL_H
#define BRANCH_SOFT_SOFT_CHANNEL_H

#include "abi/engine.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct soft_sizes {
	uint32_t slots;	   /* threads that are recorded at one time */
	uint32_t segments; /* of each; at most ENGINE_SEGMENTS_MAX */
	uint64_t segment_bytes, log_bytes;
	enum engine_policy policy;
	uint32_t processes; /* that are recorded at one time; 0: one, and its children are not */
};

#define SOFT_PROCESSES_MAX 4096u

struct soft_channel {
	int fd;			/* -1: closed by the process that passed it on */
	uint64_t device, inode; /* of the memfd, as mappings have them */
	struct soft_sizes sizes;
	uint64_t bytes, slots_at, log_at, rings_at; /* log_at: the first one's; the others follow */
	uint32_t pages;				    /* made so far, of the first processes */
	uint8_t *reserve;			    /* a page of our own, then the channel */
	uint8_t *base;
	int is_held;
};

/*
 * Sizes for so many processes, and a trail that is drained as it is written; or, with `last_bytes`,
 * that keeps the newest of each thread: as many as make about so many bytes of a store.
 */
struct soft_sizes soft_sizes_for(uint64_t last_bytes, uint32_t processes);

/* 0; -EINVAL for sizes that can't be, -errno. Close it also after an error. */
int soft_channel_open(struct soft_channel *channel, const struct soft_sizes *sizes);

/*
 * The same, of a memfd that was made with MFD_ALLOW_SEALING, and is the channel's from now on; or
 * -errno, which is returned.
 */
int soft_channel_open_at(struct soft_channel *channel, const struct soft_sizes *sizes, int fd);
#define SOFT_CHANNEL_NAME "waymark-trail"

/* Make more pages, if there may be more processes. */
void soft_channel_grow(struct soft_channel *channel);

/* A random address in the engine's region of the target: a hint for mmap(2). */
uint64_t soft_channel_place(int is_far);

/*
 * The engine waits for us from now on, as long as the calling thread lives: its list of robust
 * futexes becomes ours, so it may hold no robust mutex of the C library. In that thread the channel
 * is let go or closed, too.
 */
void soft_channel_hold(struct soft_channel *channel);
void soft_channel_let_go(struct soft_channel *channel);

/* Let go, and release. */
void soft_channel_close(struct soft_channel *channel);

/* Another process's page from now on: as it was made, except for what is held and asked for. */
void soft_channel_renew(const struct soft_channel *channel, uint32_t process);

/* The same for a program that its process has executed, and which the tool enters. */
void soft_channel_executed(const struct soft_channel *channel, uint32_t process);

/* It may be used again. Wakes who waits for one. */
void soft_channel_give_page(const struct soft_channel *channel, uint32_t process);

/* Answer what was asked for on a page: enum engine_ask. */
void soft_channel_answer(const struct soft_channel *channel, uint32_t process, uint32_t answer);

/*
 * How often engines have had something to take; and wait for more than that, no longer than `nap`.
 */
uint32_t soft_channel_told(const struct soft_channel *channel);
void soft_channel_wait(const struct soft_channel *channel, uint32_t reported,
		       const struct timespec *nap);

/* The process of a page is known. */
void soft_channel_meet(const struct soft_channel *channel, uint32_t process);

/* All are asked for something: ENGINE_ASKED_*. */
void soft_channel_ask(const struct soft_channel *channel, uint32_t asked);

/*
 * So much of a process's log was taken, ever; the segment of that number was. Wakes who waits for
 * room.
 */
void soft_channel_give_log(const struct soft_channel *channel, uint32_t process, uint64_t taken);
void soft_channel_give_segment(const struct soft_channel *channel, uint32_t slot, uint32_t index,
			       uint64_t number);
void soft_channel_give_slot(const struct soft_channel *channel, uint32_t number);

static inline struct engine_channel *soft_channel_head(const struct soft_channel *channel)
{
	return (struct engine_channel *)channel->base;
}

static inline struct engine_channel *soft_channel_page(const struct soft_channel *channel,
						       uint32_t process)
{
	return (struct engine_channel *)(channel->base + (uint64_t)process * ENGINE_GUARD_BYTES);
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

#endif
