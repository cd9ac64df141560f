/* SPDX-License-Identifier: MIT */
/*
 * What the reader's parts have of each other: words and slots (soft_reader.c), processes
 * (soft_sources.c).
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_READER_OWN_H
#define RECORD_TRAIL_SOFT_SOFT_READER_OWN_H

#include "record/trail/soft/soft_reader.h"

/* The first error is kept, and returned. */
int reader_failed(struct soft_reader *reader, int err);

/* No earlier than what the thread has. */
uint64_t reader_time(const struct soft_reader *reader, struct soft_thread *thread, uint64_t ticks);
void reader_event(struct soft_reader *reader, struct soft_thread *thread,
		  const struct trail_between *between, uint64_t ns);

/*
 * 1: there was something, 0, or the first error. A child's log that breaks a rule is its own
 * affair: nothing of it means anything from then on.
 */
int reader_paths(struct soft_reader *reader);

/* A slot's thread. 0; 1: it can't begin, or not yet; or the first error. */
int reader_begin(struct soft_reader *reader, uint32_t slot);

/*
 * The thread ran a path of that moment: no path is used when code that it is of has gone, so from
 * here on the thread is in the later epoch. 0 or the sink's error.
 */
int soft_reader_moment(struct soft_reader *reader, struct soft_thread *thread, uint32_t moment);

/* Words of its. 1: all of them; 0: from somewhere on they can't be, or mean nothing. */
int reader_words(struct soft_reader *reader, struct soft_thread *thread, const uint32_t *words,
		 size_t count, uint64_t end_ticks);
/* Something is missing here: thread->missing blocks, or an unknown number. */
void reader_lost(struct soft_reader *reader, struct soft_thread *thread);

/*
 * The thread continues with that segment. 1: something is missing before it; thread->missing has
 * the blocks.
 */
int reader_reach(struct soft_thread *thread, uint64_t number, uint64_t began_blocks);

/* Whether segments are given back; else their thread overwrites them. */
int reader_is_drained(const struct soft_reader *reader);

/* Segments that were left, in their order. How many. */
int reader_drain(struct soft_reader *reader, uint32_t slot);

/* A slot, as soft_reader_take() does. How much there was. */
int reader_take_slot(struct soft_reader *reader, uint32_t slot);

/* Its segments that are there: those whose numbers follow each other up to the newest. */
void reader_rest(struct soft_reader *reader, uint32_t slot);

/* Nobody writes for a thread any more: what its trail ends with. */
void reader_end(struct soft_reader *reader, struct soft_thread *thread,
		const struct trail_between *end_with);

/* A thread's trail, all of it. */
void reader_finish(struct soft_reader *reader, uint32_t slot, const struct trail_between *end_with);

#endif
