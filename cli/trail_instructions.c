/* SPDX-License-Identifier: MIT */
/* Each instruction that a thread ran. */
#include "cli/trail_event.h"
#include "cli/trail_words.h"

#include <errno.h>
#include <string.h>

struct listing {
	struct trail_show *show;
	const struct trail_path *path;
	struct image *image;
	uint64_t over; /* instructions that are left out before the first */
};

static int is_wanted(const struct listing *listing, const struct trail_item *item)
{
	return item->block &&
	       trail_is_in_module(listing->show, trail_item_image(listing->image, item),
				  item->block->start);
}

/*
 * Leave the last so many instructions of a range: returns how many of its first block are not among
 * them.
 */
static uint64_t keep_last(struct listing *listing, struct trail_range *range, uint64_t last)
{
	struct trail_cursor cursor = range->cursor, from = cursor;
	struct trail_item item;
	uint64_t count = 0;

	cursor.part = range->end_part;
	cursor.id = range->end_id;
	while (count < last && (cursor.part > from.part || cursor.id > from.id) &&
	       trail_previous(&cursor, &item))
		count += is_wanted(listing, &item) ? item.ran : 0;
	range->cursor = cursor;
	return count > last ? count - last : 0;
}

static const struct row_column columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "block", ROW_U64, ROW_PLAIN, 0, "its number in the trail" },
	WORDS_PLACE_COLUMNS(""),
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "disassembled" },
};
static ROW_TABLE(instruction_table, "instruction",
		 "An instruction that a thread ran (waymark trail --instructions --json).",
		 columns);

static void put_insn(struct listing *listing, const struct trail_item *item, uint64_t address,
		     const char *text)
{
	struct row_value row[sizeof(columns) / sizeof(*columns)];
	struct trail_show *show = listing->show;

	if (show->options.json) {
		words_thread_row(row, listing->path);
		row[WORDS_THREAD_VALUES] = row_u64(item->index);
		words_place_row(&row[WORDS_THREAD_VALUES + 1], listing->image, address);
		row[WORDS_THREAD_VALUES + 1 + WORDS_PLACE_VALUES] = row_words(text);
		rows_record(&show->rows, &instruction_table, row);
		return;
	}
	words_number(show->out, item->index, TRAIL_LEFT_WIDTH);
	out_literal(show->out, "  ");
	words_place_padded(show->out, listing->image, address, show->options.is_verbose);
	out_escaped(show->out, text ? text : "?", text ? strlen(text) : 1);
	out_char(show->out, '\n');
}

/* The instructions of a block that ran. What can't be read, and what is behind it, is one line. */
static void put_block(struct listing *listing, const struct trail_item *item)
{
	const struct trail_block *block = item->block;
	uint8_t room[TRAIL_BLOCK_BYTES_MAX];
	const uint8_t *code = words_code(listing->image, item->table, block, room);
	char text[INSTRUCTION_TEXT_BYTES];
	size_t at = 0;

	for (uint16_t i = 0; i < item->ran && at < block->bytes; i++) {
		int bytes = code ? instruction_text(listing->show->format, listing->image,
						    block->start + at, code + at, block->bytes - at,
						    text)
				 : -EILSEQ;

		if (!listing->over)
			put_insn(listing, item, block->start + at, bytes < 0 ? NULL : text);
		else
			listing->over--;
		if (bytes < 0)
			return;
		at += (size_t)bytes;
	}
}

static void put_path(struct trail_show *show, const struct trail_path *path, struct image *image)
{
	struct listing listing = { show, path, image, 0 };
	struct trail_range range;
	struct trail_item item;

	trail_range_wanted(show, path, &range);
	if (show->options.last != UINT64_MAX)
		listing.over = keep_last(&listing, &range, show->options.last);
	while (!show->out->error && trail_range_next(&range, &item)) {
		listing.image = trail_item_image(image, &item);
		if (!item.block) {
			trail_put_event(show, path, listing.image, &item);
			continue;
		}
		if (is_wanted(&listing, &item))
			put_block(&listing, &item);
		listing.over = 0;
	}
}

int trail_instructions(struct trail_show *show)
{
	return trail_each_path(show, put_path);
}
