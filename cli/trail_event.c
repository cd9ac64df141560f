/* SPDX-License-Identifier: MIT */
#include "cli/trail_event.h"

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

/* Whether an event is of an instruction, which then is told: the one that faulted, or was kept from running. */
static int is_of_instruction(const struct trail_between *between)
{
	return between->at && (between->event == TRAIL_SIGNAL ||
			       (between->event == TRAIL_END && between->values[0] == TRAIL_KILLED));
}

/* The bytes of that instruction: what the block before left of itself; or else out of the module's file. */
static size_t code_at(const struct trail_path *path, struct image *image,
		      const struct trail_item *item, uint8_t code[INSN_BYTES_MAX])
{
	struct trail_cursor cursor = { .path = path };
	const struct trail_between *between = item->between;
	struct trail_item before;

	if (item->index && between->left) {
		trail_seek(&cursor, item->index - 1);
		if (trail_next(&cursor, &before) && before.block &&
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
	if (between->at)
		words_at(out, image, between->at, show->options.is_verbose);
	if (is_of_instruction(between)) {
		insn_of(show, path, image, item, text);
		if (text[0])
			out_literal(out, ": ");
		out_escaped(out, text, strlen(text));
	}
	out_char(out, '\n');
}

static void put_json(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	struct json json = { .out = show->out };
	char text[INSTRUCTION_TEXT_BYTES];

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
	}
	json_close(&json, '}');
	out_char(show->out, '\n');
}

void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	(show->options.json ? put_json : put_text)(show, path, image, item);
}
