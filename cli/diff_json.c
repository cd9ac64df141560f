/* SPDX-License-Identifier: MIT */
/* waymark diff, for programs. */
#include "cli/diff.h"

#include "cli/json.h"
#include "read/history/callers.h"

#include <string.h>

#define CALLERS_MAX 64

static void put_place(struct diff *diff, struct json *json, const struct diff_thread *thread,
		      const struct diff_address *address)
{
	struct diff_place place;

	diff_place(diff, thread, address, &place);
	json_number(json, "address", address->address);
	json_words(json, "function", place.place ? place.place->function : NULL);
	json_words(json, "linkage", place.place ? place.place->linkage : NULL);
	json_words(json, "module",
		   place.place && place.place->module ? place.place->module->path : NULL);
	json_words(json, "source", place.line.source);
	if (place.line.source)
		json_number(json, "line", place.line.line);
	else
		json_null(json, "line");
}

static void put_thread(struct json *json, const char *key, const struct trail_path *path)
{
	if (!path) {
		json_null(json, key);
		return;
	}
	json_open(json, key, '{');
	json_number(json, "pid", path->stream->pid);
	json_number(json, "tid", path->stream->tid);
	json_string(json, "comm", path->stream->comm);
	json_close(json, '}');
}

static void put_blocks(struct diff *diff, struct json *json, const struct diff_thread *thread,
		       int side, const char *key, int is_before)
{
	struct trail_cursor cursor = thread->divergence.at[side];
	struct trail_item item;
	uint64_t count = is_before ? 0 : diff->options.last;

	while (is_before && count < diff->options.last && trail_previous(&cursor, &item))
		count++;
	json_open(json, key, '[');
	for (; count && trail_next(&cursor, &item); count--) {
		if (!item.block)
			continue;
		json_open(json, NULL, '{');
		put_place(diff, json, thread,
			  &(struct diff_address){ side, item.block->start, item.table });
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_side(struct diff *diff, struct json *json, const struct diff_thread *thread,
		     int side)
{
	struct diff_address address;
	char text[160];
	int has_place = diff_next(thread, side, &address, text, sizeof(text));

	json_open(json, side ? "b" : "a", '{');
	json_string(json, "what", text);
	if (has_place)
		put_place(diff, json, thread, &address);
	put_blocks(diff, json, thread, side, "then", 0);
	json_close(json, '}');
}

static void put_callers(struct diff *diff, struct json *json, const struct diff_thread *thread)
{
	struct caller callers[CALLERS_MAX];
	size_t count = callers_find(thread->divergence.at[0], callers, CALLERS_MAX);

	json_open(json, "callers", '[');
	for (size_t i = 0; i < count; i++) {
		json_open(json, NULL, '{');
		put_place(diff, json, thread,
			  &(struct diff_address){ 0, callers[i].at, callers[i].table });
		if (callers[i].signal)
			json_number(json, "signal", (uint64_t)callers[i].signal);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_harmless(struct json *json, const struct divergence *divergence)
{
	char text[512];

	json_open(json, "harmless", '[');
	for (size_t i = 0; i < divergence->harmless_count; i++) {
		const struct divergence_harmless *harmless = &divergence->harmless[i];

		diff_harmless(harmless, text, sizeof(text));
		json_open(json, NULL, '{');
		json_string(json, "what", text);
		json_number(json, "count", harmless->count);
		json_number(json, "blocks_a", harmless->blocks[0]);
		json_number(json, "blocks_b", harmless->blocks[1]);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void put_divergence(struct diff *diff, struct json *json, const struct diff_thread *thread)
{
	json_open(json, "divergence", '{');
	if (thread->divergence.parted[0])
		put_place(diff, json, thread,
			  &(struct diff_address){ 0, thread->divergence.parted[0],
						  thread->divergence.parted_in[0] });
	put_callers(diff, json, thread);
	put_blocks(diff, json, thread, 0, "before", 1);
	put_side(diff, json, thread, 0);
	put_side(diff, json, thread, 1);
	json_close(json, '}');
}

static void put_pair(struct diff *diff, struct json *json, const struct diff_thread *thread)
{
	const struct divergence *divergence = &thread->divergence;

	json_open(json, NULL, '{');
	put_thread(json, "thread_a", thread->pair.of[0]);
	put_thread(json, "thread_b", thread->pair.of[1]);
	json_bool(json, "different", thread->is_different);
	if (thread->pair.of[0] && thread->pair.of[1]) {
		json_number(json, "blocks", divergence->blocks);
		json_number(json, "instructions", divergence->instructions);
		json_bool(json, "unsure", divergence->is_unsure);
		json_bool(json, "over_a", divergence->is_over[0]);
		json_bool(json, "over_b", divergence->is_over[1]);
		put_harmless(json, divergence);
		if (divergence->kind != DIVERGENCE_NONE)
			put_divergence(diff, json, thread);
	}
	json_close(json, '}');
}

void diff_show_json(struct diff *diff)
{
	struct json json = { diff->out, 0 };

	json_open(&json, NULL, '{');
	json_string(&json, "a", diff->options.dirs[0]);
	json_string(&json, "b", diff->options.dirs[1]);
	json_bool(&json, "data_compared", 0); /* trails have none */
	json_open(&json, "threads", '[');
	for (size_t i = 0; i < diff->thread_count; i++) {
		json_line(&json);
		put_pair(diff, &json, &diff->threads[i]);
	}
	json_close(&json, ']');
	json_close(&json, '}');
	out_char(diff->out, '\n');
}
