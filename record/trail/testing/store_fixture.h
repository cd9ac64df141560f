/* SPDX-License-Identifier: MIT */
/*
 * For tests: a store, and all that was put into it, so that what is kept can be compared with that.
 */
#ifndef RECORD_TRAIL_TESTING_STORE_FIXTURE_H
#define RECORD_TRAIL_TESTING_STORE_FIXTURE_H

#include "record/trail/store.h"

#define THREADS_MAX 64
#define SMALL TRAIL_STORE_BYTES_MIN

/* Of a thread. */
struct put {
	uint64_t *starts; /* of blocks; 0: an event */
	size_t count, room;
	uint64_t lost;	/* blocks, as the store said it in this thread's events */
	size_t matched; /* of them, when it is read */
	int is_behind_loss;
	struct sink_thread *sink;
	pid_t tid;
};

extern struct trail_store *store;
extern struct trail_sink *sink;
extern struct put given[THREADS_MAX];
extern uint64_t now;
extern int reached; /* how often it reported that it has so much */

void begin_with(uint64_t bytes, enum wm_policy policy, uint64_t watermark);

/* Of each test: the store is closed. */
void end(void);

void thread_begin(int thread);
void thread_end(int thread);

/* A block ran; block() has it as long as its start says. */
void block_of(int thread, uint64_t start, uint32_t bytes);
void block(int thread, uint64_t start);
void event(int thread, enum trail_event kind);

/* All that was put is there or said to be lost, or the test fails; by index too. */
void check(void);
void check_by_index(struct store_thread *thread);

/* Records of a thread; blocks that the store says it lost. */
uint64_t kept(int thread);
uint64_t lost(void);

#endif
