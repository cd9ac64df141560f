/* SPDX-License-Identifier: MIT */
/*
 * For tests: a channel, which is filled by hand, as an engine would or as none would, and what
 * comes out of it.
 */
#ifndef RECORD_TRAIL_TESTING_SOFT_FIXTURE_H
#define RECORD_TRAIL_TESTING_SOFT_FIXTURE_H

#include "record/trail/soft/soft_reader.h"
#include "record/trail/testing/sink.h"

#define SLOTS 4
#define SEGMENTS 4
#define SEGMENT_BYTES 4096u
#define SEGMENT_WORDS (SEGMENT_BYTES / 4)
#define LOG_BYTES 8192u
#define START 0x1000u

/* Our side. */
extern struct soft_channel channel;
extern struct soft_reader reader;
extern struct sample_sink sink;

/* The other one. */
struct writer {
	struct engine_slot *slot;
	uint32_t number, segment, at; /* its slot; the segment, and how many words of it are full */
	uint64_t count;		      /* segments ever */
	uint64_t blocks;	      /* of the ids that it wrote */
};

extern struct engine_channel *head;
extern struct writer writer;
extern uint64_t put; /* into the log */
extern uint32_t next_id;

/* How a thread ended. */
extern const struct trail_between killed;

/* Of each test. */
void open_with(enum engine_policy policy);
void blocking(void);
void cyclic(void);
void end(void);

/* The log: an entry, to be filled and then ended. */
void *entry_begin(uint32_t kind, uint32_t bytes);
void entry_end(void);

/*
 * A trace of so many blocks, from START + 16 * first on, that can be left behind each. Its first
 * id.
 */
uint32_t trace(uint32_t first, uint16_t blocks);
uint32_t prefix(uint32_t of, uint32_t blocks);

/* A thread in that slot, the one that writes from here on. */
void thread_begin(uint32_t number);
void thread_end(void);
void write_id(uint32_t id);
void write_event(enum trail_event event, uint64_t at, uint64_t first);
uint32_t *words(void); /* of its segment */
void segment_end(void);

/* All that is there. */
void take(void);

/* Of what came out. */
int is_event(size_t at, enum trail_event event);
int is_block(size_t at, uint32_t number);

#endif
