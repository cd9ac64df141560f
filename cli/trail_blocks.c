/* SPDX-License-Identifier: MIT */
/* Each different block that ran: how often, and which ran next, how often each. */
#include "base/array.h"
#include "base/slots.h"
#include "cli/pulse.h"
#include "cli/trail.h"
#include "cli/trail_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_WIDTH 14

/* One block led to another. */
struct edge {
	uint32_t from, to;
	uint64_t count;
};

/* What a table's blocks did. */
struct tally {
	const struct trail_table *table;
	const struct trail_path *path; /* one of those that use it */
	struct image *image;	       /* of its process, in the table's era */
	uint64_t *counts;	       /* by id */
	struct edge *edges;	       /* when all are counted: by `from`, the most first */
	size_t edge_count, edge_room;
	struct slots slots; /* of the edges, while they are counted */
};

struct hot {
	const struct tally *tally;
	uint32_t id;
	uint64_t count;
};

struct tallies {
	struct tally *all; /* by the table's number; without a table: none of it ran */
	size_t count, room;
	uint64_t blocks; /* that ran, of those that are shown */
};

static struct tally *tally_of(struct trail_show *show, struct tallies *tallies,
			      const struct trail_path *path, const struct trail_table *table)
{
	size_t before = tallies->room;
	struct tally *tally;

	if (array_grow(&tallies->all, &tallies->room, table->number + 1ul, sizeof(*tallies->all)))
		return NULL;
	memset(tallies->all + before, 0, (tallies->room - before) * sizeof(*tallies->all));
	if (tallies->count <= table->number)
		tallies->count = table->number + 1ul;
	tally = &tallies->all[table->number];
	if (tally->table)
		return tally;
	*tally = (struct tally){ .table = table, .path = path };
	tally->image = trail_view_image(&show->view, path);
	tally->image = tally->image ? image_in(tally->image, table) : NULL;
	tally->counts = calloc(table->count + 1u, sizeof(*tally->counts));
	return tally->image && tally->counts && !slots_fit(&tally->slots) ? tally : NULL;
}

static int edge_add(struct tally *tally, uint32_t from, uint32_t to)
{
	uint32_t hash = slots_hash((uint64_t)from << 32 | to), number;

	for (uint64_t at = hash; slots_next(&tally->slots, hash, &at, &number);) {
		struct edge *edge = &tally->edges[number];

		if (edge->from == from && edge->to == to) {
			edge->count++;
			return 0;
		}
	}
	if (slots_fit(&tally->slots) || array_grow(&tally->edges, &tally->edge_room,
						   tally->edge_count + 1, sizeof(*tally->edges)))
		return -ENOMEM;
	slots_add(&tally->slots, hash, (uint32_t)tally->edge_count);
	tally->edges[tally->edge_count++] = (struct edge){ from, to, 1 };
	return 0;
}

static int count_path(struct trail_show *show, const struct trail_path *path,
		      struct tallies *tallies)
{
	struct tally *tally = NULL;
	struct trail_range range;
	struct trail_item item;
	int64_t before = -1;
	int err = 0;

	trail_bounds_range(&show->options.wanted.bounds, &show->view, path, &range);
	while (!err && trail_range_next(&range, &item)) {
		if (!item.block) {
			before = -1;
			continue;
		}
		if (!tally || tally->table != item.table) {
			before = -1;
			tally = tally_of(show, tallies, path, item.table);
			if (!tally)
				return -ENOMEM;
		}
		pulse_beat("counting", item.index, path->blocks);
		tally->counts[item.id]++;
		if (before >= 0)
			err = edge_add(tally, (uint32_t)before, item.id);
		before = item.id;
	}
	pulse_end();
	return err;
}

/* ---- in order ---- */

static int by_count(const void *one, const void *other)
{
	const struct hot *a = one, *b = other;
	uint64_t a_start, b_start;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	a_start = a->tally->table->blocks[a->id].start;
	b_start = b->tally->table->blocks[b->id].start;
	if (a_start != b_start)
		return a_start < b_start ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int by_from(const void *one, const void *other)
{
	const struct edge *a = one, *b = other;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

/* The edges from a block: the first, and how many. */
static const struct edge *edges_of(const struct tally *tally, uint32_t id, size_t *count)
{
	size_t low = 0, high = tally->edge_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (tally->edges[middle].from < id)
			low = middle + 1;
		else
			high = middle;
	}
	for (*count = 0; low + *count < tally->edge_count && tally->edges[low + *count].from == id;)
		++*count;
	return &tally->edges[low];
}

/* All that ran, those that ran most first. 0 or -ENOMEM. */
static int hot_list(struct trail_show *show, struct tallies *tallies, struct hot **list,
		    size_t *count)
{
	size_t room = 0;

	for (size_t i = 0; i < tallies->count; i++) {
		struct tally *tally = &tallies->all[i];

		if (tally->edge_count)
			qsort(tally->edges, tally->edge_count, sizeof(struct edge), by_from);
		for (uint32_t id = 0; tally->table && id < tally->table->count; id++) {
			if (!tally->counts[id] ||
			    !trail_is_in_module(show, tally->image, tally->table->blocks[id].start))
				continue;
			if (array_grow(list, &room, *count + 1, sizeof(**list)))
				return -ENOMEM;
			(*list)[(*count)++] = (struct hot){ tally, id, tally->counts[id] };
			tallies->blocks += tally->counts[id];
		}
	}
	if (*count)
		qsort(*list, *count, sizeof(**list), by_count);
	return 0;
}

/* ---- shown ---- */

static const struct row_column code_columns[] = {
	{ "space", ROW_U64, ROW_PLAIN, 0, "whose number the block's is" },
	{ "id", ROW_U64, ROW_PLAIN, 0, "of the block" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "of the instruction" },
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "disassembled" },
};
static ROW_TABLE(block_code_table, "block_code",
		 "The code of blocks (waymark trail --blocks -v --json).", code_columns);

static void put_code(struct trail_show *show, const struct hot *hot)
{
	const struct trail_block *block = &hot->tally->table->blocks[hot->id];
	uint8_t room[TRAIL_BLOCK_BYTES_MAX];
	const uint8_t *code = words_code(hot->tally->image, hot->tally->table, block, room);
	char text[INSTRUCTION_TEXT_BYTES];
	size_t at = 0;
	int bytes;

	for (; code && at < block->bytes; at += (size_t)bytes) {
		bytes = instruction_text(show->format, hot->tally->image, block->start + at,
					 code + at, block->bytes - at, text);
		if (show->options.json) {
			const struct row_value row[] = { row_u64(hot->tally->table->number),
							 row_u64(hot->id),
							 row_address(block->start + at),
							 row_text(text) };

			rows_record(&show->rows, &block_code_table, row);
		} else {
			words_padded(show->out, "", COUNT_WIDTH + 2);
			out_hex(show->out, block->start + at);
			out_literal(show->out, "  ");
			out_escaped(show->out, text, strlen(text));
			out_char(show->out, '\n');
		}
		if (bytes < 0)
			return;
	}
}

static void put_text(struct trail_show *show, const struct hot *hot)
{
	const struct trail_block *block = &hot->tally->table->blocks[hot->id];
	uint64_t left = hot->count;
	struct out *out = show->out;
	const struct edge *edges;
	size_t count;

	words_number(out, hot->count, COUNT_WIDTH);
	out_literal(out, "  ");
	words_place_padded(out, hot->tally->image, block->start, show->options.is_verbose);
	words_number(out, block->instructions, 3);
	words_padded(out, block->instructions == 1 ? " instruction" : " instructions", 14);
	words_padded(out, words_kind(block->kind), 0);
	out_char(out, '\n');
	if (show->options.is_verbose)
		put_code(show, hot);
	edges = edges_of(hot->tally, hot->id, &count);
	for (size_t i = 0; i < count; i++) {
		words_number(out, edges[i].count, COUNT_WIDTH + 6);
		out_literal(out, " -> ");
		words_place(out, hot->tally->image, hot->tally->table->blocks[edges[i].to].start,
			    show->options.is_verbose);
		out_char(out, '\n');
		left -= edges[i].count;
	}
	if (!left)
		return;
	words_number(out, left, COUNT_WIDTH + 6);
	out_literal(out, " -> an event, or the end\n");
}

static const struct row_column next_columns[] = {
	{ "space", ROW_U64, ROW_PLAIN, 0, "whose number the block's is" },
	{ "id", ROW_U64, ROW_PLAIN, 0, "of the block" },
	{ "next", ROW_U64, ROW_PLAIN, 0, "the id of one that ran next" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often it did" },
	WORDS_PLACE_COLUMNS(""),
};
static ROW_TABLE(block_next_table, "block_next", "Which blocks ran next.", next_columns);

static const struct row_column columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, 0, "of the process" },
	{ "space", ROW_U64, ROW_PLAIN, 0, "whose number the block's is" },
	{ "id", ROW_U64, ROW_PLAIN, 0, "of the block" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often it ran" },
	{ "bytes", ROW_U64, ROW_BYTES, 0, "of its code" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "in it" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "of the last: jump, conditional, call, return, ..." },
	{ "elsewhere", ROW_U64, ROW_COUNT, 0, "how often an event or the end came next" },
	WORDS_PLACE_COLUMNS(""),
};
static ROW_TABLE(block_table, "block", "A block that ran (waymark trail --blocks --json).",
		 columns);

static void put_rows(struct trail_show *show, const struct hot *hot)
{
	const struct trail_block *blocks = hot->tally->table->blocks, *block = &blocks[hot->id];
	struct row_value row[sizeof(columns) / sizeof(*columns)], *at = row;
	uint64_t left = hot->count, space = hot->tally->table->number;
	size_t count;
	const struct edge *edges = edges_of(hot->tally, hot->id, &count);

	for (size_t i = 0; i < count; i++)
		left -= edges[i].count;
	*at++ = row_u64(hot->tally->path->stream->pid);
	*at++ = row_u64(space);
	*at++ = row_u64(hot->id);
	*at++ = row_u64(hot->count);
	*at++ = row_u64(block->bytes);
	*at++ = row_u64(block->instructions);
	*at++ = row_text(words_kind(block->kind));
	*at++ = row_u64(left);
	words_place_row(at, hot->tally->image, block->start);
	rows_record(&show->rows, &block_table, row);
	if (show->options.is_verbose)
		put_code(show, hot);
	for (size_t i = 0; i < count; i++) {
		at = row;
		*at++ = row_u64(space);
		*at++ = row_u64(hot->id);
		*at++ = row_u64(edges[i].to);
		*at++ = row_u64(edges[i].count);
		words_place_row(at, hot->tally->image, blocks[edges[i].to].start);
		rows_record(&show->rows, &block_next_table, row);
	}
}

static int put_all(struct trail_show *show, struct tallies *tallies)
{
	size_t count = 0, shown;
	struct hot *list = NULL;
	int err = hot_list(show, tallies, &list, &count);

	if (err) {
		free(list);
		return err;
	}
	shown = show->options.last < count ? (size_t)show->options.last : count;
	if (!show->options.json) {
		out_u64(show->out, tallies->blocks);
		out_literal(show->out, " blocks ran, ");
		out_u64(show->out, count);
		out_literal(show->out, " different; the ");
		out_u64(show->out, shown);
		out_literal(show->out, " that ran most:\n");
	}
	for (size_t i = 0; i < shown && !show->out->error; i++)
		(show->options.json ? put_rows : put_text)(show, &list[i]);
	free(list);
	return 0;
}

int trail_blocks(struct trail_show *show)
{
	struct tallies tallies = { 0 };
	int err = 0;

	for (size_t i = 0; i < show->view.trails.path_count && !err; i++)
		if (trail_wants(&show->options.wanted, show->view.trails.paths[i].stream))
			err = count_path(show, &show->view.trails.paths[i], &tallies);
	if (!err)
		err = put_all(show, &tallies);
	for (size_t i = 0; i < tallies.count; i++) {
		free(tallies.all[i].counts);
		free(tallies.all[i].edges);
		free(tallies.all[i].slots.all);
	}
	free(tallies.all);
	return err;
}
