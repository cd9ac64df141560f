/* SPDX-License-Identifier: MIT */
/*
 * Source, and beside each line how often it ran, its share of all instructions, and where its jumps
 * led.
 */
#include "cli/cli.h"
#include "cli/lines_gather.h"
#include "cli/source_text.h"
#include "cli/trail.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define COUNT_WIDTH 13
#define JUMPS_WIDTH 15

struct lines_show {
	struct trail_show *show;
	const struct lines *lines;
	size_t shown, missing;
	const char *first_missing;
};

/* ---- a line ---- */

static void put_padded(struct out *out, const char *text, size_t bytes, size_t width)
{
	for (; width > bytes; width--)
		out_char(out, ' ');
	out_text(out, text, bytes);
}

/* Taken and not, of as many as have room. */
static void put_jumps(struct out *out, const struct lines_line *line)
{
	char text[JUMPS_WIDTH + 1] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < line->branch_count; i++) {
		const struct lines_branch *branch = &line->branches[i];
		char one[48];
		size_t bytes = (size_t)snprintf(one, sizeof(one), "%s%" PRIu64 "/%" PRIu64,
						at ? " " : "", branch->taken, branch->fell);
		size_t more = i + 1 < line->branch_count ? 3 : 0; /* " .." */

		if (at + bytes + more > JUMPS_WIDTH) {
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s..", at ? " " : "");
			break;
		}
		memcpy(text + at, one, bytes + 1);
		at += bytes;
	}
	put_padded(out, text, at, JUMPS_WIDTH);
}

/* A source says what it likes; a terminal need not obey. */
static void put_source(struct out *out, const char *text, size_t bytes)
{
	if (bytes && text[bytes - 1] == '\r')
		bytes--;
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		out_char(out, (c < ' ' && c != '\t') || c == 0x7f ? '?' : (char)c);
	}
}

static void put_line(const struct lines_show *to, uint32_t number, const struct lines_line *line,
		     const struct source_text *source)
{
	struct out *out = to->show->out;
	uint64_t all = lines_instructions(to->lines);
	char text[64] = "", share[16] = "";
	const char *words;
	size_t bytes;

	if (line && line->ran)
		snprintf(text, sizeof(text), "%" PRIu64, line->ran);
	else if (line)
		snprintf(text, sizeof(text), "#####");
	if (line && line->instructions)
		snprintf(share, sizeof(share), "%.2f%%",
			 100.0 * (double)line->instructions / (double)all);
	put_padded(out, text, strlen(text), COUNT_WIDTH);
	put_padded(out, share, strlen(share), 9);
	out_char(out, ' ');
	put_jumps(out, line ? line : &(struct lines_line){ 0 });
	snprintf(text, sizeof(text), "%8" PRIu32, number);
	out_text(out, text, strlen(text));
	words = source_text_line(source, number, &bytes);
	if (words) {
		out_literal(out, "  ");
		put_source(out, words, bytes);
	}
	out_char(out, '\n');
}

static const struct row_column line_columns[] = {
	{ "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "with code" },
	{ "ran", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "that ran in it" },
};
static ROW_TABLE(source_line_table, "source_line",
		 "A line of source (waymark trail --lines --json).", line_columns);

static const struct row_column jump_columns[] = {
	{ "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "that the jump is in" },
	{ "taken", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "not_taken", ROW_U64, ROW_COUNT, 0, "how often" },
};
static ROW_TABLE(jump_table, "jump", "A conditional jump of a line (waymark trail --lines --json).",
		 jump_columns);

static void put_rows(struct rows *rows, const char *path, const struct lines_line *line)
{
	struct row_value row[] = { row_text(path), row_u64(line->number), row_u64(line->ran),
				   row_u64(line->instructions) };

	rows_record(rows, &source_line_table, row);
	for (uint32_t i = 0; i < line->branch_count; i++) {
		row[2] = row_u64(line->branches[i].taken);
		row[3] = row_u64(line->branches[i].fell);
		rows_record(rows, &jump_table, row);
	}
}

/* ---- a source ---- */

static uint64_t instructions_of(const struct lines_source *source)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < source->line_count; i++)
		if (source->lines[i].is_wanted)
			sum += source->lines[i].instructions;
	return sum;
}

/*
 * Lines without code are printed too up to this line: text between two wanted lines belongs to
 * them.
 */
static uint32_t rest_end(const struct lines_source *source, size_t i,
			 const struct source_text *text)
{
	if (i + 1 == source->line_count)
		return source->lines[i].is_wanted ? (uint32_t)text->count + 1 : 0;
	return source->lines[i].is_wanted && source->lines[i + 1].is_wanted
		       ? source->lines[i + 1].number
		       : 0;
}

static void put_lines(const struct lines_show *to, const struct lines_source *source,
		      const struct source_text *text)
{
	const struct lines_line *lines = source->lines;
	int is_whole = !to->show->options.function, follows = 0;

	if (is_whole)
		for (uint32_t n = 1; n < lines[0].number && n <= text->count; n++)
			put_line(to, n, NULL, text);
	for (size_t i = 0; i < source->line_count && !to->show->out->error; i++) {
		uint32_t end = rest_end(source, i, text);

		if (!lines[i].is_wanted)
			continue;
		if (!is_whole && follows && !lines[i - 1].is_wanted)
			out_literal(to->show->out, "          ...\n");
		follows = 1;
		put_line(to, lines[i].number, &lines[i], text);
		if (!is_whole && i + 1 == source->line_count)
			end = 0;
		for (uint32_t n = lines[i].number + 1; n < end && n <= text->count; n++)
			put_line(to, n, NULL, text);
	}
	out_char(to->show->out, '\n');
}

static void put_head(const struct lines_show *to, const struct lines_source *source,
		     const struct source_text *text, uint64_t instructions)
{
	struct out *out = to->show->out;
	char share[64];

	out_escaped(out, text->count ? text->path : source->path,
		    strlen(text->count ? text->path : source->path));
	snprintf(share, sizeof(share), ": %" PRIu64 " instructions, %.2f%% of all\n", instructions,
		 100.0 * (double)instructions / (double)lines_instructions(to->lines));
	out_text(out, share, strlen(share));
	out_literal(out, "          ran    share   taken/not     line\n");
}

static int show_source(struct lines_show *to, const struct lines_source *source)
{
	const struct trail_options *options = &to->show->options;
	uint64_t instructions = instructions_of(source);
	struct source_text text;
	int err;

	if (!source->has_run || !instructions ||
	    (options->source && !source_matches(options->source, source->path)))
		return 0;
	to->shown++;
	if (options->json) {
		for (size_t i = 0; i < source->line_count; i++)
			if (source->lines[i].is_wanted)
				put_rows(&to->show->rows, source->path, &source->lines[i]);
		return 0;
	}
	err = source_text_read(&text, source->path, options->source_dir);
	if (err == -ENOENT) {
		to->first_missing = to->missing++ ? to->first_missing : source->path;
	} else if (err && err != -ENOMEM) {
		complain(err, "%s", text.path);
	} else {
		out_flush(to->show->out);
		source_complain_changed(text.path, text.written_s, source->built_s);
	}
	put_head(to, source, &text, instructions);
	put_lines(to, source, &text);
	source_text_release(&text);
	return err == -ENOMEM ? err : 0;
}

/* ---- all ---- */

static int show_sources(struct lines_show *to)
{
	const struct lines_source *source;
	int err = 0;

	for (size_t i = 0; !err && (source = lines_source(to->lines, i)); i++)
		err = show_source(to, source);
	out_flush(to->show->out);
	if (to->missing) {
		complain_words("waymark: %zu source file%s not found: %s", to->missing,
			       to->missing == 1 ? " was" : "s were", to->first_missing);
		fputs(to->missing > 1 ? ", ...\n" : "\n", stderr);
		fputs("  name the folder that has them: --source-dir DIR\n", stderr);
	}
	return err || to->shown ? err : -WM_E_NOT_RECORDED;
}

int trail_lines(struct trail_show *show)
{
	struct lines_options wanted = { .function = show->options.function,
					.module = show->options.module };
	struct lines_show to = { .show = show };
	struct lines *lines;
	int err = lines_open(&lines, &wanted);

	if (!err)
		err = lines_gather(lines, &show->view, &show->options.wanted);
	if (!err)
		err = lines_settle(lines);
	if (!err) {
		to.lines = lines;
		err = lines_complain(lines) ? show_sources(&to) : -WM_E_NO_DEBUG;
	}
	lines_close(lines);
	return err;
}
