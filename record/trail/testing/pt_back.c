/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/pt.h"
#include "record/trail/testing/step/step.h"
#include "record/trail/testing/pt_back.h"
#include "record/trail/testing/pt_encode.h"
#include "record/trail/testing/sink.h"
#include "record/trail/trace_sink.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- code ---- */

struct trail_codes codes;

struct page *page_of(uint64_t address, int is_wanted)
{
	for (size_t i = 0; i < codes.count; i++)
		if (codes.pages[i].number == address / PAGE)
			return &codes.pages[i];
	if (!is_wanted)
		return NULL;
	codes.pages = realloc(codes.pages, (codes.count + 1) * sizeof(*codes.pages));
	codes.pages[codes.count] = (struct page){ .number = address / PAGE };
	return &codes.pages[codes.count++];
}

void code_put(uint64_t address, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct page *page = page_of(address + i, 1);

		page->bytes[(address + i) % PAGE] = bytes[i];
		page->is_there[(address + i) % PAGE] = 1;
	}
	codes.codes.generation++;
}

static size_t code_read(struct codes *unused, uint64_t address, uint8_t *bytes, size_t most)
{
	size_t count = 0;

	(void)unused;
	for (; count < most; count++) {
		const struct page *page = page_of(address + count, 0);

		if (!page || !page->is_there[(address + count) % PAGE])
			break;
		bytes[count] = page->bytes[(address + count) % PAGE];
	}
	return count;
}

/* ---- there and back ---- */

struct sample_sink sink;
struct weave weave;
struct pt_outcome outcome;
const char *subject = "by hand"; /* what is compared */

void decode_begin(void)
{
	weave_release(&weave);
	sample_sink_release(&sink);
	sample_sink_init(&sink);
	outcome = (struct pt_outcome){ 0 };
	cr_assert_eq(weave_init(&weave, &sink.sink, NULL, &codes.codes), 0);
}

int decode(const struct pt_stream *stream)
{
	int err;

	decode_begin();
	err = pt_decode(&weave, stream, &outcome);
	cr_assert_null(sink.wrong, "%s", sink.wrong);
	return err;
}

int decode_bytes(const uint8_t *bytes, size_t count)
{
	return decode(
		&(struct pt_stream){ .bytes = bytes, .count = count, .end_ticks = END_TICKS });
}

/*
 * A block that leads to nowhere at the end is not in the packets: nothing says that it ran whole.
 */
static int is_told(const struct pt_item *items, size_t count, size_t i)
{
	const struct trail_entry *entry = &items[i].entry;

	for (size_t j = i + 1; j < count; j++)
		if (items[j].entry.instructions)
			return 1;
	return entry->kind == TRAIL_SYSCALL || (entry->kind == TRAIL_FALL && i + 1 < count);
}

static size_t expect_at(const struct pt_item *items, size_t count, size_t i,
			struct trail_between *gap)
{
	const struct trail_entry *before = NULL;
	int is_lost = 0;

	gap->event = TRAIL_EVENTS;
	for (size_t j = i; j-- > 0 && !before;)
		if (items[j].entry.instructions)
			before = &items[j].entry;
	for (; i < count && !items[i].entry.instructions; i++)
		is_lost |= items[i].between.event == TRAIL_LOST;
	if (i == count || !before)
		return i;
	if (items[i - 1].between.event == TRAIL_SIGNAL &&
	    items[i - 1].between.values[1] >= TRAIL_KERNEL) {
		*gap = items[i - 1].between;
		return i;
	}
	if (!is_lost && before->kind == TRAIL_SYSCALL &&
	    before->start + before->bytes == items[i].entry.start)
		return i;
	*gap = (struct trail_between){ .event = is_lost ? TRAIL_LOST : TRAIL_GAP,
				       .at = is_lost ? 0 : items[i].entry.start,
				       .values = { is_lost ? 0 : TRAIL_GAP_KERNEL } };
	return i;
}

static void compare(const struct pt_item *items, size_t count)
{
	size_t got = 0;

	for (size_t i = 0; i < count; i++) {
		const struct sample_item *item = &sink.items[got];
		struct trail_between gap;

		if (items[i].entry.instructions) {
			if (!is_told(items, count, i))
				continue;
			cr_assert_lt(got, sink.count, "%s: item %zu of %zu is missing", subject, i,
				     count);
			cr_assert(!memcmp(&item->entry, &items[i].entry, sizeof(item->entry)),
				  "%s: item %zu: %" PRIx64 "+%x/%u, not %" PRIx64
				  "+%x/%u (event %d)",
				  subject, i, item->entry.start, item->entry.bytes,
				  item->entry.instructions, items[i].entry.start,
				  items[i].entry.bytes, items[i].entry.instructions,
				  item->between.event);
			got++;
			continue;
		}
		i = expect_at(items, count, i, &gap) - 1;
		if (gap.event == TRAIL_EVENTS)
			continue;
		cr_assert_lt(got, sink.count, "%s: event %zu of %zu is missing", subject, i, count);
		cr_assert(!item->entry.instructions && !memcmp(&item->between, &gap, sizeof(gap)),
			  "%s: item %zu: event %d at %" PRIx64 " (%" PRIu64 "), not %d at %" PRIx64,
			  subject, i, item->between.event, item->between.at,
			  item->between.values[0], gap.event, gap.at);
		got++;
	}
	cr_assert_eq(got, sink.count, "%s: %zu items too many", subject, sink.count - got);
}

static const struct pt_encode_options ways[] = {
	{ .tsc = 1000 },
	{ .compresses_returns = 1, .tsc = 1000 },
	{ .psb_every = 7, .tsc = 1000 },
	{ .compresses_returns = 1, .psb_every = 3, .tsc = 1000 },
};

/* Items that were stored without a break, decoded behind what the weave already has. */
static void decode_piece(const struct pt_item *items, size_t count,
			 const struct pt_encode_options *way, struct pt_place *place)
{
	struct pt_stream stream = { .end_ticks = END_TICKS, .place = place };
	uint8_t *bytes;

	for (size_t i = 0; i < count; i++)
		if (items[i].code)
			code_put(items[i].entry.start, items[i].code, items[i].entry.bytes);
	cr_assert_eq(pt_encode(&bytes, &stream.count, items, count, way), 0);
	stream.bytes = bytes;
	cr_assert_eq(pt_decode(&weave, &stream, &outcome), 0);
	free(bytes);
}

/*
 * Where the code changes that an address has, there is a pause (with_pauses()), and other pieces
 * begin.
 */
void there_and_back(const struct pt_item *items, size_t count)
{
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		struct pt_place place = { 0 };
		size_t first = 0;

		decode_begin();
		for (size_t i = 1; i < count; i++)
			if (is_pause(&items[i])) {
				decode_piece(items + first, i + 1 - first, &ways[way], &place);
				first = i + 1;
			}
		decode_piece(items + first, count - first, &ways[way], &place);
		cr_assert_null(sink.wrong, "%s: %s", subject, sink.wrong);
		cr_assert_eq(outcome.errors, 0, "%s, way %zu: %s", subject, way, outcome.first);
		compare(items, count);
	}
}

void pt_begin(void)
{
	cr_assert_not_null(freopen("/dev/null", "r", stdin)); /* a program may ask for a word */
	codes.codes.read = code_read;
}

void pt_end(void)
{
	free(codes.pages);
}
