/* SPDX-License-Identifier: MIT */
/* Local variables' frames as their own parts see them: locals.c asks and arms, locals_serve.c has the thread that gives. */
#ifndef SESSION_WATCH_LOCALS_OWN_H
#define SESSION_WATCH_LOCALS_OWN_H

#include "code/watch/frame.h"
#include "perf/object.h"
#include "session/watch/locals.h"

#include <pthread.h>
#include <time.h>

/* One variable. */
struct group {
	size_t spec;
	uint32_t number; /* of its entry's row */
	uint64_t module; /* the base of the library that it is in; 0: it is the program's */
	char *text;
	enum watch_kind kind;
	struct frame_place place;
	struct asked_watch asked; /* addresses from the CFA */
	struct event_object *entry;
	unsigned int frames;   /* it has */
	unsigned int lived;    /* frames that lived before, and were watched */
	unsigned int unplaced; /* frames that lived, and had no register */
};

/* One frame's watches. */
struct slot {
	struct locals *of;
	unsigned int group, frame;
	uint32_t numbers[WATCH_REGISTERS]; /* of its pieces' rows */
	struct event_object *object;
	uint32_t for_state; /* the state that its watches are being moved for */
	uint64_t cfa;	    /* 0: parked */
	int is_parked, is_dead;
	int is_living; /* the first frame that it is for lived before */
	unsigned int idle_ms;
};

struct locals {
	struct group groups[FRAME_GROUPS_MAX];
	unsigned int group_count;
	struct slot slots[FRAMES_MAX];
	unsigned int slot_count;
	uint32_t magic;
	uint64_t numbers; /* of rows that it has, a bit each */
	int unlooked;	  /* why frames that lived may not have been found */
	pid_t pid;
	struct watch_table *table;
	pthread_mutex_t lock; /* slots and their objects, while the thread runs */
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

/* A slot's watches as they are to be, by its cfa. */
void locals_sources(const struct slot *slot, struct event_source sources[WATCH_REGISTERS]);

/* All threads have the frame's watches: ASKED -> LIVE. Or all are parked: OVER -> FREE. An object's settle(). */
int locals_settle(void *slot, uint8_t generation);

/* The thread. 0 or -errno. */
int locals_serve(struct locals *locals);
void locals_serve_no_more(struct locals *locals);

#endif
