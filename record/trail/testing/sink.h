/* SPDX-License-Identifier: MIT */
/*
 * For tests: a sink in memory that holds what it is given to the successor rule, and code of bytes.
 */
#ifndef RECORD_TRAIL_TESTING_SINK_H
#define RECORD_TRAIL_TESTING_SINK_H

#include "record/trail/hardware/codes.h"
#include "record/trail/sink.h"
#include "trace/trail/check.h"

struct sample_item {
	struct trail_entry entry; /* no instructions: an event */
	struct trail_between between;
	uint64_t ticks;
};

struct sample_sink {
	struct trail_sink sink;
	struct trail_table table;
	struct trail_check check;
	struct sample_item *items;
	size_t count, room;
	const char *wrong; /* the first rule that was broken; NULL: none */
	int is_over;	   /* thread_end() came */
	int fails_at;	   /* give -EIO at this item, if not 0 */
	int has_no_room;   /* for a thread: give -ENOMEM */
};

void sample_sink_init(struct sample_sink *sink);
void sample_sink_release(struct sample_sink *sink);

/* All items in words, one a line: "1000+4/3 branch", "gap@1010 1". Valid until the next call. */
const char *sample_sink_text(const struct sample_sink *sink);

size_t sample_sink_blocks(const struct sample_sink *sink);

/* How many events of that kind. */
int sample_sink_events(const struct sample_sink *sink, enum trail_event kind);

struct sample_codes {
	struct codes codes;
	uint64_t base;
	const uint8_t *bytes;
	size_t count;
};

void sample_codes_init(struct sample_codes *codes, uint64_t base, const uint8_t *bytes,
		       size_t count);

#endif
