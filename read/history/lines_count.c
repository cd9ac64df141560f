/* SPDX-License-Identifier: MIT */
/*
 * From a module's instructions to its lines: see the head of read/history/lines.h.
 *
 * What ran is cut into stretches, which control enters at the first instruction only. A line with
 * code in a stretch is there once. Where one stretch ends in a line and leads to another that
 * begins in it, the two are of one copy.
 */
#include "read/history/lines_own.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>

/* A line in a stretch. */
struct piece {
	uint32_t line;
	uint32_t copy; /* another piece of the same copy, or itself */
	uint64_t ran;
	int is_statement;
};

struct stretch {
	size_t first, end;	   /* instructions */
	size_t begins_in, ends_in; /* pieces; SIZE_MAX: no line */
};

struct counting {
	struct lines *lines;
	struct own_module *module;
	struct piece *pieces;
	size_t piece_count, piece_room;
	struct stretch *stretches;
	size_t stretch_count, stretch_room;
	uint32_t *stretch_of; /* by instruction */
	uint8_t *is_led_to;   /* by instruction: a jump goes there */
	uint32_t *last_of;    /* by line: its last piece + 1; 0: none yet */
	size_t row;	      /* the first one behind the instruction's address */
};

static int goes_on(const struct insn *insn)
{
	switch (insn->kind) {
	case TRAIL_JUMP:
	case TRAIL_JUMP_INDIRECT:
	case TRAIL_RETURN:
	case TRAIL_STOP:
	case TRAIL_FAR:
		return 0;
	case TRAIL_BRANCH:
		return insn->fell != 0;
	default:
		return 1;
	}
}

static int leads(const struct insn *insn)
{
	return insn->kind == TRAIL_JUMP || (insn->kind == TRAIL_BRANCH && insn->taken);
}

static void targets_mark(struct counting *counting)
{
	const struct insns *insns = &counting->module->insns;

	for (size_t i = 0; i < insns->count; i++) {
		size_t to;

		if (!leads(&insns->all[i]))
			continue;
		to = insns_below(insns, insns->all[i].target);
		if (to < insns->count && insns->all[to].address == insns->all[i].target)
			counting->is_led_to[to] = 1;
	}
}

static int is_next(const struct insn *before, const struct insn *insn)
{
	return before->address + before->bytes == insn->address;
}

/* More can run here than ran before only where something else leads here. */
static int begins(const struct counting *counting, size_t i)
{
	const struct insn *insn = &counting->module->insns.all[i];

	return !i || counting->is_led_to[i] || !is_next(insn - 1, insn) || !goes_on(insn - 1) ||
	       insn[-1].kind == TRAIL_BRANCH || insn->ran > insn[-1].ran;
}

/* The line's piece in the stretch at hand; SIZE_MAX: no memory. */
static size_t piece_of(struct counting *counting, size_t first, uint32_t line, uint64_t ran,
		       int is_statement)
{
	struct piece *piece;
	size_t i = counting->last_of[line];

	if (i <= first) {
		if (counting->piece_count == UINT32_MAX ||
		    array_grow(&counting->pieces, &counting->piece_room, counting->piece_count + 1,
			       sizeof(*counting->pieces)))
			return SIZE_MAX;
		i = ++counting->piece_count;
		counting->pieces[i - 1] = (struct piece){ .line = line, .copy = (uint32_t)(i - 1) };
		counting->last_of[line] = (uint32_t)i;
	}
	piece = &counting->pieces[i - 1];
	if (piece->ran < ran)
		piece->ran = ran;
	piece->is_statement |= is_statement;
	return i - 1;
}

/*
 * Take in one instruction of a stretch whose pieces begin at `first`; *piece is that of its line.
 */
static int insn_take(struct counting *counting, const struct insn *insn, size_t first,
		     size_t *piece)
{
	const struct own_row *rows = counting->module->rows, *row;
	struct own_line *line;

	*piece = SIZE_MAX;
	while (counting->row < counting->module->row_count &&
	       rows[counting->row].address <= insn->address) {
		row = &rows[counting->row++];
		/* a statement without code, where this one begins */
		if (row->address == insn->address && row->line != LINE_NONE && row->is_statement &&
		    piece_of(counting, first, row->line, insn->ran, 1) == SIZE_MAX)
			return -ENOMEM;
	}
	row = counting->row ? &rows[counting->row - 1] : NULL;
	if (!row || row->line == LINE_NONE)
		return 0;
	line = &counting->lines->lines[row->line];
	line->instructions += insn->ran;
	*piece = piece_of(counting, first, row->line, insn->ran, (int)row->is_statement);
	return *piece == SIZE_MAX ? -ENOMEM : 0;
}

static int stretch_take(struct counting *counting, size_t from, size_t *end)
{
	const struct insns *insns = &counting->module->insns;
	size_t first = counting->piece_count, piece, i = from;
	struct stretch *stretch;

	if (counting->stretch_count == UINT32_MAX ||
	    array_grow(&counting->stretches, &counting->stretch_room, counting->stretch_count + 1,
		       sizeof(*counting->stretches)))
		return -ENOMEM;
	stretch = &counting->stretches[counting->stretch_count++];
	*stretch = (struct stretch){ from, from, SIZE_MAX, SIZE_MAX };
	do {
		if (insn_take(counting, &insns->all[i], first, &piece))
			return -ENOMEM;
		if (i == from)
			stretch->begins_in = piece;
		stretch->ends_in = piece;
		counting->stretch_of[i++] = (uint32_t)counting->stretch_count - 1;
	} while (i < insns->count && !begins(counting, i));
	stretch->end = *end = i;
	return 0;
}

/* ---- copies ---- */

static uint32_t copy_of(struct piece *pieces, size_t piece)
{
	uint32_t at = (uint32_t)piece;

	while (pieces[at].copy != at)
		at = pieces[at].copy = pieces[pieces[at].copy].copy;
	return at;
}

static void join(struct counting *counting, const struct stretch *from, size_t to_insn)
{
	const struct stretch *to;
	struct piece *pieces = counting->pieces;

	if (from->ends_in == SIZE_MAX || to_insn >= counting->module->insns.count)
		return;
	to = &counting->stretches[counting->stretch_of[to_insn]];
	if (to->first == to_insn && to->begins_in != SIZE_MAX &&
	    pieces[from->ends_in].line == pieces[to->begins_in].line)
		pieces[copy_of(pieces, from->ends_in)].copy = copy_of(pieces, to->begins_in);
}

static void copies_join(struct counting *counting)
{
	const struct insns *insns = &counting->module->insns;

	for (size_t i = 0; i < counting->stretch_count; i++) {
		const struct stretch *stretch = &counting->stretches[i];
		const struct insn *last = &insns->all[stretch->end - 1];
		size_t to;

		if (stretch->end < insns->count && goes_on(last) && is_next(last, last + 1))
			join(counting, stretch, stretch->end);
		if (!leads(last))
			continue;
		to = insns_below(insns, last->target);
		if (to < insns->count && insns->all[to].address == last->target)
			join(counting, stretch, to);
	}
}

/*
 * What ran most is each copy's. Where a statement is in it, all of it is: some compilers mark only
 * its first piece.
 */
static void copies_sum(struct counting *counting)
{
	struct piece *pieces = counting->pieces;

	for (size_t i = 0; i < counting->piece_count; i++) {
		struct piece *copy = &pieces[copy_of(pieces, i)];

		copy->is_statement |= pieces[i].is_statement;
		if (copy->ran < pieces[i].ran)
			copy->ran = pieces[i].ran;
	}
	for (size_t i = 0; i < counting->piece_count; i++) {
		struct own_line *line = &counting->lines->lines[pieces[i].line];

		if (pieces[i].copy != i)
			continue;
		*(pieces[i].is_statement ? &line->ran : &line->mixed) += pieces[i].ran;
		line->has_statement |= (uint8_t)pieces[i].is_statement;
	}
}

int lines_count_module(struct lines *lines, struct own_module *module)
{
	struct counting counting = { .lines = lines, .module = module };
	size_t count = module->insns.count, at = 0;
	int err = 0;

	if (!count || !module->row_count)
		return 0;
	counting.stretch_of = calloc(count, sizeof(*counting.stretch_of));
	counting.is_led_to = calloc(count, 1);
	counting.last_of = calloc(lines->line_count + 1, sizeof(*counting.last_of));
	if (!counting.stretch_of || !counting.is_led_to || !counting.last_of)
		err = -ENOMEM;
	if (!err)
		targets_mark(&counting);
	while (!err && at < count)
		err = stretch_take(&counting, at, &at);
	if (!err) {
		copies_join(&counting);
		copies_sum(&counting);
	}
	free(counting.pieces);
	free(counting.stretches);
	free(counting.stretch_of);
	free(counting.is_led_to);
	free(counting.last_of);
	return err;
}
