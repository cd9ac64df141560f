/* SPDX-License-Identifier: MIT */
#include "cli/trail_event.h"

#include "cli/trail_crash.h"
#include "cli/trail_words.h"

#include <errno.h>
#include <string.h>

#define INSN_BYTES_MAX 15

static void put_head(struct trail_show *show, const struct trail_path *path, int is_first)
{
	struct json json = { .out = show->out };

	if (show->options.json) {
		json_open(&json, NULL, '{');
		json_string(&json, "type", "thread");
		words_json_path(&json, &show->view, path);
		json_close(&json, '}');
		out_char(show->out, '\n');
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

static void put_json(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	struct json json = { .out = show->out };
	char text[INSTRUCTION_TEXT_BYTES];
	uint64_t from;

	json_open(&json, NULL, '{');
	json_string(&json, "type", "event");
	words_json_thread(&json, path);
	json_number(&json, "block", item->index);
	words_json_time(&json, "time_s", trail_ns(show->view.reader, path, item->ticks),
			show->view.begin_ns);
	words_json_event(&json, image, item->between);
	if (is_of_instruction(item->between)) {
		insn_of(show, path, image, item, text);
		json_words(&json, "instruction", text);
		from = text[0] ? 0 : led_from(show, path, image, item, text);
		if (from)
			words_json_place(&json, "from", image, from);
	}
	if (is_killed(item->between))
		trail_crash_json(&json, path, image);
	json_close(&json, '}');
	out_char(show->out, '\n');
}

void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	(show->options.json ? put_json : put_text)(show, path, image, item);
}
