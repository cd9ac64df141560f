/* SPDX-License-Identifier: MIT */
/*
 * For tests: items of trails encoded as Intel PT, decoded again, and compared; pt_test.c says what
 * can't be.
 */
#ifndef RECORD_TRAIL_TESTING_PT_BACK_H
#define RECORD_TRAIL_TESTING_PT_BACK_H

#include "record/trail/hardware/pt.h"
#include "record/trail/testing/pt_encode.h"
#include "record/trail/testing/sink.h"

#define END_TICKS UINT64_C(1000000)
#define PAGE 4096u

/* The code that a trail's blocks had, by page. */
struct page {
	uint64_t number;
	uint8_t bytes[PAGE], is_there[PAGE];
};

struct trail_codes {
	struct codes codes;
	struct page *pages;
	size_t count;
};

extern struct trail_codes codes;

struct page *page_of(uint64_t address, int is_wanted);
void code_put(uint64_t address, const uint8_t *bytes, size_t count);

extern struct sample_sink sink;
extern struct weave weave;
extern struct pt_outcome outcome;
extern const char *subject; /* what is compared */

/* Of each test. */
void pt_begin(void);
void pt_end(void);

/* With nothing woven yet; decode() does that too. */
void decode_begin(void);
int decode(const struct pt_stream *stream);
int decode_bytes(const uint8_t *bytes, size_t count);

/*
 * The recorder noticed that code changes, and stopped the thread for that: as an event of no kind.
 */
#define PAUSE TRAIL_EVENTS

static inline int is_pause(const struct pt_item *item)
{
	return !item->entry.instructions && item->between.event == PAUSE;
}

/* Fails the test where what comes back is not what was given. */
void there_and_back(const struct pt_item *items, size_t count);

#endif
