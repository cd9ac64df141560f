/* SPDX-License-Identifier: MIT */
#include "cli/trail_event.h"

#include "cli/trail_crash.h"
#include "cli/trail_words.h"

#include <errno.h>
#include <string.h>

#define INSN_BYTES_MAX 15

static void put_head(struct trail_show *show, const struct trail_path *path, int is_first)
{
	if (show->options.json) {
		words_thread_put(&show->rows, &show->view, path);
		return;
	}
	if (!is_first)
		out_char(show->out, '\n');
	words_thread(show->out, &show->view, path);
}

int trail_each_path(struct trail_show *show,
		    void (*put)(struct trail_show *show, const struct trail_path *path,
				struct image *image))
{
	int is_first = 1;

	for (size_t i = 0; i < show->view.trails.path_count && !show->out->error; i++) {
		const struct trail_path *path = &show->view.trails.paths[i];
		struct image *image;

		if (!trail_is_wanted(show, path))
			continue;
		image = trail_view_image(&show->view, path);
		if (!image)
			return -ENOMEM;
		put_head(show, path, is_first);
		is_first = 0;
		put(show, path, image);
	}
	return 0;
}

static int is_killed(const struct trail_between *between)
{
	return between->event == TRAIL_END && between->values[0] == TRAIL_KILLED;
}

/*
 * Whether an event belongs to an instruction, to be printed: the one that faulted, or did not run.
 */
static int is_of_instruction(const struct trail_between *between)
{
	return between->has_at && (between->event == TRAIL_SIGNAL || is_killed(between));
}

/* The block directly before an event: 1, or 0 without one. */
static int block_before(const struct trail_path *path, const struct trail_item *item,
			struct trail_item *before)
{
	struct trail_cursor cursor = { .path = path };

	if (!item->index)
		return 0;
	trail_seek(&cursor, item->index - 1);
	return trail_next(&cursor, before) && before->block &&
	       &path->parts[cursor.part].between == item->between;
}

/*
 * The bytes of that instruction: what the block before left of itself; or else out of the module's
 * file.
 */
static size_t code_at(const struct trail_path *path, struct image *image,
		      const struct trail_item *item, uint8_t code[INSN_BYTES_MAX])
{
	const struct trail_between *between = item->between;
	struct trail_item before;

	if (between->left && block_before(path, item, &before) &&
	    between->at - before.block->start < before.block->bytes) {
		const uint8_t *all = trail_table_code(before.table, before.block);
		size_t from = (size_t)(between->at - before.block->start);
		size_t left = before.block->bytes - from;

		if (all) {
			left = left < INSN_BYTES_MAX ? left : INSN_BYTES_MAX;
			memcpy(code, all + from, left);
			return left;
		}
	}
	return image_code(image, between->at, code, INSN_BYTES_MAX);
}

/* The text of that instruction; "" where it is not known. */
static void insn_of(struct trail_show *show, const struct trail_path *path, struct image *image,
		    const struct trail_item *item, char text[INSTRUCTION_TEXT_BYTES])
{
	uint8_t code[INSN_BYTES_MAX];
	size_t bytes = code_at(path, image, item, code);

	if (!bytes ||
	    instruction_text(show->format, image, item->between->at, code, bytes, text) < 0)
		text[0] = '\0';
}

/*
 * If no instruction is there: the instruction that led there. Returns its address and its text; 0
 * where an instruction is there, or the origin is unknown.
 */
static uint64_t led_from(struct trail_show *show, const struct trail_path *path,
			 struct image *image, const struct trail_item *item,
			 char text[INSTRUCTION_TEXT_BYTES])
{
	uint8_t room[TRAIL_BLOCK_BYTES_MAX];
	const struct trail_block *block;
	struct trail_item before;
	const uint8_t *code;

	if (!block_before(path, item, &before) || item->between->left)
		return 0;
	block = before.block;
	if (block->kind == TRAIL_FALL || block->kind == TRAIL_SYSCALL || block->kind == TRAIL_STOP)
		return 0;
	code = words_code(image, before.table, block, room);
	text[0] = '\0';
	if (code &&
	    instruction_text(show->format, image, block->start + block->last, code + block->last,
			     (size_t)block->bytes - block->last, text) < 0)
		text[0] = '\0';
	return block->start + block->last;
}

static void put_from(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	char text[INSTRUCTION_TEXT_BYTES];
	uint64_t from = led_from(show, path, image, item, text);

	if (!from)
		return;
	out_literal(show->out, ", which was jumped to");
	words_at(show->out, image, from, show->options.is_verbose);
	if (text[0])
		out_literal(show->out, ": ");
	out_escaped(show->out, text, strlen(text));
}

static void put_text(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	const struct trail_between *between = item->between;
	char text[INSTRUCTION_TEXT_BYTES];
	struct out *out = show->out;

	words_time(out, trail_ns(show->view.reader, path, item->ticks), show->view.begin_ns,
		   TRAIL_LEFT_WIDTH);
	out_literal(out, "  ");
	words_event(out, image, between);
	if (between->has_at)
		words_at(out, image, between->at, show->options.is_verbose);
	if (is_of_instruction(between)) {
		insn_of(show, path, image, item, text);
		if (text[0])
			out_literal(out, ": ");
		else
			put_from(show, path, image, item);
		out_escaped(out, text, strlen(text));
	}
	out_char(out, '\n');
	if (is_killed(between))
		trail_crash_text(out, path, image);
}

static const struct row_column columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "block", ROW_U64, ROW_PLAIN, 0, "the number of the next in the trail" },
	{ "time", ROW_S64, ROW_SINCE, 0, "when" },
	WORDS_EVENT_COLUMNS,
	WORDS_PLACE_COLUMNS("at_"),
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "that faulted, or was to run" },
	WORDS_PLACE_COLUMNS("from_"),
};
static ROW_TABLE(
	trail_event_table, "trail_event",
	"What came between blocks (waymark trail --json). Where no code is: what jumped there.",
	columns);

static void put_rows(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	struct row_value row[sizeof(columns) / sizeof(*columns)] = { 0 };
	struct row_value *at = row + WORDS_THREAD_VALUES;
	uint64_t ns = trail_ns(show->view.reader, path, item->ticks), from;
	char text[INSTRUCTION_TEXT_BYTES], led[INSTRUCTION_TEXT_BYTES], name[32];

	words_thread_row(row, path);
	*at++ = row_u64(item->index);
	*at++ = row_s64((int64_t)(ns - show->view.begin_ns));
	words_event_row(at, image, item->between, name);
	at += WORDS_EVENT_VALUES;
	if (item->between->has_at)
		words_place_row(at, image, item->between->at);
	at += WORDS_PLACE_VALUES;
	if (is_of_instruction(item->between)) {
		insn_of(show, path, image, item, text);
		*at++ = row_words(text);
		from = text[0] ? 0 : led_from(show, path, image, item, led);
		if (from)
			words_place_row(at, image, from);
	}
	rows_record(&show->rows, &trail_event_table, row);
	if (is_killed(item->between))
		trail_crash_rows(&show->rows, path, image);
}

void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	(show->options.json ? put_rows : put_text)(show, path, image, item);
}
