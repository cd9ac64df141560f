/* SPDX-License-Identifier: MIT */
/*
 * Listings of what each thread did, oldest first, and of what came between: the branches that it
 * took, or each instruction.
 */
#include "cli/trail.h"
#include "cli/trail_words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INSN_WIDTH 6

/* A branch, from the item behind its block. */
struct branch {
	uint64_t from, to;
	int is_known; /* `to` is */
};

/* Where a block led, by the item behind it (NULL: none). */
static void to_of(struct branch *branch, const struct trail_block *block,
		  const struct trail_item *next)
{
	if (next && next->block) {
		branch->is_known = 1;
		branch->to = next->block->start;
		return;
	}
	if (next)
		switch ((enum trail_event)next->between->event) {
		case TRAIL_ARRIVE:
		case TRAIL_LOST:
		case TRAIL_EXEC: /* they say where it continues, not where it was */
			break;
		case TRAIL_GAP:
			if (trail_is_gap(next->between))
				break;
			/* fall through */
		default:
			branch->to = next->between->at;
			branch->is_known = next->between->has_at;
		}
	if (branch->is_known)
		return;
	if (!branch->to && (block->kind == TRAIL_JUMP || block->kind == TRAIL_CALL))
		branch->to = block->target;
	branch->is_known = branch->to != 0;
}

/* Whether the block ended in a branch that was taken, and in which. */
static int branch_of(struct branch *branch, const struct trail_item *item,
		     const struct trail_item *next)
{
	const struct trail_block *block = item->block;

	if (!block || item->ran < block->instructions || block->kind == TRAIL_FALL ||
	    block->kind == TRAIL_SYSCALL || block->kind == TRAIL_STOP)
		return 0;
	*branch = (struct branch){ .from = block->start + block->last };
	to_of(branch, block, next);
	return block->kind != TRAIL_BRANCH || !branch->is_known ||
	       branch->to != block->start + block->bytes;
}

/* The item behind the cursor, if there is one: also where the range ends before it. */
static const struct trail_item *peek(struct trail_cursor cursor, struct trail_item *item)
{
	return trail_next(&cursor, item) ? item : NULL;
}

/* Whether a branch begins or ends in a module that is wanted. */
static int is_wanted(struct trail_show *show, struct image *image, const struct trail_item *item,
		     const struct branch *branch)
{
	image = trail_item_image(image, item);
	return trail_is_in_module(show, image, branch->from) ||
	       (branch->is_known && trail_is_in_module(show, image, branch->to));
}

/* Leave the last so many branches of a range. */
static void keep_last(struct trail_show *show, struct image *image, struct trail_range *range)
{
	struct trail_cursor cursor = range->cursor;
	struct trail_item item, behind;
	const struct trail_item *next;
	uint64_t last = show->options.last;
	struct branch branch;

	if (range->end - range->first <= last)
		return;
	cursor.part = range->end_part;
	cursor.id = range->end_id;
	next = peek(cursor, &behind);
	while ((cursor.part > range->cursor.part || cursor.id > range->cursor.id) &&
	       trail_previous(&cursor, &item)) {
		if (branch_of(&branch, &item, next) && is_wanted(show, image, &item, &branch) &&
		    !last--) {
			(void)trail_next(&cursor, &item); /* that one is not wanted */
			break;
		}
		behind = item;
		next = &behind;
	}
	range->cursor = cursor;
}

/* What the branch is called; of one that leads anywhere, also by what. */
static void insn_of(struct trail_show *show, struct image *image, const struct trail_item *item,
		    char text[INSTRUCTION_TEXT_BYTES])
{
	const struct trail_block *block = item->block;
	uint8_t room[TRAIL_BLOCK_BYTES_MAX];
	const uint8_t *code = words_code(image, item->table, block, room);

	snprintf(text, INSTRUCTION_TEXT_BYTES, "?");
	if (!code)
		return;
	(void)instruction_text(show->format, image, block->start + block->last, code + block->last,
			       (size_t)block->bytes - block->last, text);
	if (block->kind == TRAIL_JUMP || block->kind == TRAIL_BRANCH || block->kind == TRAIL_CALL)
		instruction_mnemonic(text);
}

static void put_text(struct trail_show *show, struct image *image, const struct trail_item *item,
		     const struct branch *branch)
{
	char text[INSTRUCTION_TEXT_BYTES];
	struct out *out = show->out;

	words_number(out, item->index, TRAIL_LEFT_WIDTH);
	out_literal(out, "  ");
	words_place_padded(out, image, branch->from, show->options.is_verbose);
	insn_of(show, image, item, text);
	words_padded(out, text, INSN_WIDTH);
	out_literal(out, " -> ");
	if (branch->is_known)
		words_place(out, image, branch->to, show->options.is_verbose);
	else
		out_char(out, '?');
	out_char(out, '\n');
}

static const struct row_column branch_columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "block", ROW_U64, ROW_PLAIN, 0, "its number in the trail" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "jump, conditional, call, return, ..." },
	WORDS_PLACE_COLUMNS("from_"),
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "the branch" },
	WORDS_PLACE_COLUMNS("to_"),
};
static ROW_TABLE(branch_table, "branch", "A branch that a thread took (waymark trail --json).",
		 branch_columns);

static void put_row(struct trail_show *show, const struct trail_path *path, struct image *image,
		    const struct trail_item *item, const struct branch *branch)
{
	struct row_value row[sizeof(branch_columns) / sizeof(*branch_columns)] = { 0 };
	struct row_value *at = row + WORDS_THREAD_VALUES;
	char text[INSTRUCTION_TEXT_BYTES];

	words_thread_row(row, path);
	*at++ = row_u64(item->index);
	*at++ = row_text(words_kind(item->block->kind));
	words_place_row(at, image, branch->from);
	at += WORDS_PLACE_VALUES;
	insn_of(show, image, item, text);
	*at++ = row_words(text[0] == '?' ? NULL : text);
	if (branch->is_known)
		words_place_row(at, image, branch->to);
	rows_record(&show->rows, &branch_table, row);
}

static int put_branches(struct trail_show *show, const struct trail_path *path, struct image *image)
{
	struct trail_item item, next;
	struct trail_range range;
	struct branch branch;

	trail_bounds_range(&show->options.wanted.bounds, &show->view, path, &range);
	if (show->options.last != UINT64_MAX)
		keep_last(show, image, &range);
	while (!show->out->error && trail_range_next(&range, &item)) {
		image = trail_item_image(image, &item);
		if (item.between)
			trail_put_event(show, path, image, &item);
		else if (branch_of(&branch, &item, peek(range.cursor, &next)) &&
			 is_wanted(show, image, &item, &branch)) {
			if (show->options.json)
				put_row(show, path, image, &item, &branch);
			else
				put_text(show, image, &item, &branch);
		}
	}
	return 0;
}

int trail_branches(struct trail_show *show)
{
	return trail_each_path(show, put_branches);
}

/* ---- instructions ---- */

struct listing {
	struct trail_show *show;
	const struct trail_path *path;
	struct image *image;
	uint64_t over; /* instructions that are left out before the first */
};

static int is_insn_wanted(const struct listing *listing, const struct trail_item *item)
{
	return item->block &&
	       trail_is_in_module(listing->show, trail_item_image(listing->image, item),
				  item->block->start);
}

/*
 * Leave the last so many instructions of a range: returns how many of its first block are not among
 * them.
 */
static uint64_t keep_last_insns(struct listing *listing, struct trail_range *range, uint64_t last)
{
	struct trail_cursor cursor = range->cursor, from = cursor;
	struct trail_item item;
	uint64_t count = 0;

	cursor.part = range->end_part;
	cursor.id = range->end_id;
	while (count < last && (cursor.part > from.part || cursor.id > from.id) &&
	       trail_previous(&cursor, &item))
		count += is_insn_wanted(listing, &item) ? item.ran : 0;
	range->cursor = cursor;
	return count > last ? count - last : 0;
}

static const struct row_column insn_columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "block", ROW_U64, ROW_PLAIN, 0, "its number in the trail" },
	WORDS_PLACE_COLUMNS(""),
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "disassembled" },
};
static ROW_TABLE(instruction_table, "instruction",
		 "An instruction that a thread ran (waymark trail --instructions --json).",
		 insn_columns);

static void put_insn(struct listing *listing, const struct trail_item *item, uint64_t address,
		     const char *text)
{
	struct row_value row[sizeof(insn_columns) / sizeof(*insn_columns)];
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
	words_put(show->out, text ? text : "?");
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

static int put_instructions(struct trail_show *show, const struct trail_path *path,
			    struct image *image)
{
	struct listing listing = { show, path, image, 0 };
	struct trail_range range;
	struct trail_item item;

	trail_bounds_range(&show->options.wanted.bounds, &show->view, path, &range);
	if (show->options.last != UINT64_MAX)
		listing.over = keep_last_insns(&listing, &range, show->options.last);
	while (!show->out->error && trail_range_next(&range, &item)) {
		listing.image = trail_item_image(image, &item);
		if (!item.block) {
			trail_put_event(show, path, listing.image, &item);
			continue;
		}
		if (is_insn_wanted(&listing, &item))
			put_block(&listing, &item);
		listing.over = 0;
	}
	return 0;
}

int trail_instructions(struct trail_show *show)
{
	return trail_each_path(show, put_instructions);
}
