/* SPDX-License-Identifier: MIT */
/*
 * Shared by the parts of the watches of local variables: locals.c makes the requests and arms,
 * locals_serve.c has the thread that moves watches to frames, locals_end.c counts and ends.
 */
#ifndef RECORD_WATCH_LOCALS_OWN_H
#define RECORD_WATCH_LOCALS_OWN_H

#include "record/perf/object.h"
#include "record/watch/locals.h"
#include "target/expression/local_frame.h"

#include <pthread.h>
#include <time.h>

/* One variable. */
struct group {
	size_t spec;
	uint32_t number; /* of its entry's row */
	uint64_t module; /* the base of its library; 0: it is in the program itself */
	char *text;
	enum watch_kind kind;
	struct frame_place place;
	struct asked_watch asked; /* with addresses relative to the CFA */
	struct perf_object *entry;
	unsigned int frames;   /* how many it may have at once */
	unsigned int lived;    /* frames that existed at the attach, and were watched */
	unsigned int unplaced; /* frames that existed at the attach, and got no register */
};

/* One frame's watches. */
struct slot {
	struct locals *of;
	unsigned int group, frame;
	uint32_t numbers[WATCH_REGISTERS]; /* of its pieces' rows */
	struct perf_object *object;
	uint32_t for_state; /* the state that its watches are being moved for */
	uint64_t cfa;	    /* 0: parked */
	int is_parked, is_dead;
	int is_living; /* its first frame existed at the attach; cleared when that is armed */
	unsigned int idle_ms;
};

struct locals {
	struct group groups[FRAME_GROUPS_MAX];
	unsigned int group_count;
	struct slot slots[FRAMES_MAX];
	unsigned int slot_count;
	uint32_t magic;
	uint64_t numbers; /* its rows, one bit each */
	int unlooked;	  /* why frames that existed may not have been found; 0 */
	pid_t pid;
	struct watch_table *table;
	pthread_mutex_t lock; /* guards the slots and their objects while the thread runs */
	pthread_t thread;
	int has_thread, is_ending;
};

static inline struct frame_row *row_of(const struct slot *slot)
{
	return &slot->of->table->frames.rows[slot->frame];
}

static inline uint32_t number_of(const struct slot *slot, unsigned int piece)
{
	return slot->numbers[piece];
}

long locals_futex(uint32_t *word, int what, uint32_t value, const struct timespec *time);

/* The events of a slot's watches at its present cfa, or at the parked addresses. */
void locals_sources(const struct slot *slot, struct event_source sources[WATCH_REGISTERS]);

/*
 * An object's settle(). All threads have the frame's watches now: ASKED -> LIVE. Or all watches are
 * parked: OVER -> FREE.
 */
int locals_settle(void *slot, uint8_t generation);

/* Start and stop the thread. The first returns 0 or -errno. */
int locals_serve(struct locals *locals);
void locals_serve_no_more(struct locals *locals);

#endif
