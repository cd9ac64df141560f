/* SPDX-License-Identifier: MIT */
#include "cli/watch_counts.h"

#include "cli/cli.h"
#include "base/quantity.h"

#include <stddef.h>
#include <string.h>
#include <waymark/error.h>

#define COUNT_BYTES 32

static void tell_part(FILE *to, uint64_t count, const char *what)
{
	char text[COUNT_BYTES];

	if (count)
		fprintf(to, "; %s %s", quantity_show_count(count, text, sizeof(text)), what);
}

static const char *gap_text(uint64_t gap_ns, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.1f ms", (double)gap_ns / 1e6);
	return text;
}

/* "  frames: 12 watched; 3 not, as no debug register was free" */
static void tell_frames(FILE *to, const struct watched_spec *watched, const char *margin)
{
	const struct watch_frames *frames = &watched->counts.frames;
	char text[COUNT_BYTES];

	fprintf(to, "%s  frames: %s watched", margin,
		quantity_show_count(frames->watched, text, sizeof(text)));
	tell_part(to, frames->busy, "not, as no debug register was free");
	tell_part(to, frames->late, "not, as this command did not arm them in time");
	tell_part(to, frames->unended, "not, as their end could not have been seen");
	fputc('\n', to);
	if (watched->unlooked)
		fprintf(to, "%s  frames that lived already were not all found: %s\n", margin,
			wm_error_text(watched->unlooked));
	if (frames->unsure)
		fprintf(to,
			"%s  %s of the hits left out: the stack did not show whether the frame was alive\n",
			margin, quantity_show_count(frames->unsure, text, sizeof(text)));
}

/* "  follows 2 pointers: moved 12 times; 3 beside other threads, or late: writes may be missed" */
static void tell_follow(FILE *to, const struct watched_spec *watched, const char *margin)
{
	const struct watch_follows *follow = &watched->counts.follow;
	char text[COUNT_BYTES];

	fprintf(to, "%s  follows %u pointer%s: moved %s time%s", margin, watched->pointers,
		watched->pointers == 1 ? "" : "s",
		quantity_show_count(follow->moves, text, sizeof(text)),
		follow->moves == 1 ? "" : "s");
	tell_part(to, follow->exposed + follow->unseen,
		  "beside other threads, or late: writes may be missed");
	tell_part(to, follow->astray,
		  "met the place before or the next one: these may be missed writes");
	tell_part(to, follow->unplaced, "to where its registers cannot watch");
	fputc('\n', to);
	if (watched->waits && watched->waits_for[0])
		fprintf(to, "%s  waiting for %s\n", margin, watched->waits_for);
	else if (watched->waits)
		fprintf(to, "%s  waiting for pointer %u on the way\n", margin, watched->waits);
}

/* How well the values are known. */
static void tell_values(FILE *to, const struct watched_spec *watched)
{
	const struct watch_counts *counts = &watched->counts;

	tell_part(to, counts->inexact - counts->unknown,
		  watched->outside ? "with a value that follows from the one before it"
				   : "with a value that was read from memory, perhaps later");
	tell_part(to, counts->unknown, "with a value that is not to be known from outside");
	tell_part(to, counts->uncertain - counts->uncertain_filtered,
		  "met the condition by a value that is uncertain (~)");
	tell_part(to, counts->uncertain_filtered,
		  "may have met the condition, and were left out: their values are uncertain");
}

void watch_counts_text(const struct watched_spec *watched, int unproven, const char *margin,
		       FILE *to)
{
	const struct watch_counts *counts = &watched->counts;
	char text[COUNT_BYTES];

	if (unproven && !counts->hits) {
		complain_words_put(to, "%s: hits were not measured: %s\n", watched->text,
				   wm_error_text(unproven));
		return;
	}
	complain_words_put(to, "%s: %s hit%s", watched->text,
			   quantity_show_count(counts->hits, text, sizeof(text)),
			   counts->hits == 1 ? "" : "s");
	tell_part(to, counts->filtered, "did not meet the condition");
	tell_part(to, counts->counted, "counted, as asked");
	tell_part(
		to, counts->missed,
		watched->outside ? "lost: the kernel's ring had no room for them"
		: watched->lost	 ? "missed: the agent counted none after the watch was taken away"
		: watched->is_local
			? "without a signal: one instruction met the stack in two places, or they are missed"
		: watched->pieces > 1
			? "missed: a thread blocked SIGTRAP meanwhile, or ended, "
			  "or an instruction whose reach is unknown wrote several parts of it"
			: "missed: a thread blocked SIGTRAP meanwhile, or was ended");
	tell_part(to, counts->late,
		  "reported late, as SIGTRAP was blocked: their places and values are later ones");
	tell_part(to, counts->dropped,
		  watched->is_local   ? "met the stack where no frame had it then"
		  : watched->pointers ? "came while a pointer changed, or outside of the recording"
				      : "came outside of the recording");
	tell_part(
		to, counts->own,
		watched->is_local
			? "by the recording itself, as frames began and ended"
			: "by the recording itself: in the program's place, of errno, which it restores, or on a stack that is no longer used");
	tell_values(to, watched);
	tell_part(to, counts->masked, "more not recorded: masked stores that wrote other bytes");
	tell_part(
		to, counts->starved,
		counts->starved == 1
			? "kernel event had no debug register for some time: hits may be missing"
			: "kernel events had no debug register for some time: hits may be missing");
	if (watched->lost)
		fprintf(to, "; taken away before the end: %s", wm_error_text(watched->lost));
	fputc('\n', to);
	if (watched->outside && watched->why)
		fprintf(to, "%s  watched from outside: %s\n", margin, wm_error_text(watched->why));
	else if (watched->outside)
		fprintf(to, "%s  watched from outside, as asked\n", margin);
	if (watched->uncovered_ns)
		fprintf(to,
			"%s  a CPU came into the machine meanwhile: what was hit there in %s is not known\n",
			margin, gap_text(watched->uncovered_ns, text, sizeof(text)));
	if (watched->children)
		fprintf(to, "%s  from outside no children are watched: %s %s started meanwhile\n",
			margin, quantity_show_count(watched->children, text, sizeof(text)),
			watched->children == 1 ? "was" : "were");
	if (watched->pieces > 1)
		fprintf(to, "%s  it takes %u debug registers, which are counted one by one\n",
			margin, watched->pieces);
	if (watched->is_local)
		tell_frames(to, watched, margin);
	if (watched->pointers)
		tell_follow(to, watched, margin);
}

#define COUNT(name, meaning)                                                                       \
	{                                                                                          \
		name, ROW_U64, ROW_COUNT, 0, meaning                                               \
	}

/* From "hits" on, struct watch_counts as it is. */
static const struct row_column columns[] = {
	{ "spec", ROW_TEXT, ROW_PLAIN, 0, "the watch, as given" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "its place in the last process" },
	COUNT("bytes", "its size there"),
	COUNT("registers", "how many debug registers it takes"),
	COUNT("threads", "on how many threads of that process it was opened"),
	COUNT("processes", "in how many processes it was armed"),
	{ "uncovered", ROW_U64, ROW_NS, 0,
	  "from outside: new CPUs were without it so long, in all" },
	COUNT("children", "from outside: started meanwhile, and not watched"),
	{ "way", ROW_TEXT, ROW_PLAIN, 0, "inside or outside" },
	{ "why", ROW_TEXT, ROW_PLAIN, 0, "why from outside, if that was not asked for" },
	{ "lost", ROW_TEXT, ROW_PLAIN, 0, "why it was removed before the end" },
	COUNT("pointers", "that it follows"),
	COUNT("waits", "which pointer led nowhere at the end, from 1; 0: none"),
	COUNT("hits", "as the kernel counted them, without masked"),
	COUNT("taken", "hits that the agent got"),
	COUNT("filtered", "taken, and left out by a condition"),
	COUNT("counted", "taken, and only counted, as asked"),
	COUNT("own", "taken, and caused by the agent itself"),
	COUNT("masked", "no hits: a masked store wrote other bytes"),
	COUNT("dropped", "outside of the recording, or of another variable"),
	COUNT("missed", "neither taken nor dropped"),
	COUNT("late", "taken when the thread unblocked SIGTRAP"),
	COUNT("inexact", "the new value was read later, or derived"),
	COUNT("unknown", "the new value is not known"),
	COUNT("uncertain", "a condition compared an inexact value"),
	COUNT("uncertain_filtered", "of these, left out"),
	COUNT("shared", "found by another watch's signal"),
	COUNT("starved", "events that had no register at some time"),
	COUNT("frames_entered", "of a local variable: its function's calls"),
	COUNT("frames_watched", "of these, watched"),
	COUNT("frames_busy", "without a free debug register"),
	COUNT("frames_late", "not armed in time"),
	COUNT("frames_unended", "whose end could not have been seen"),
	COUNT("frames_over", "hits when the frame was gone"),
	COUNT("frames_outside", "hits when the variable was elsewhere"),
	COUNT("frames_unsure", "hits when that was not known"),
	COUNT("moves", "of one that follows pointers: how often its registers moved"),
	COUNT("exposed", "moves beside other threads, or late"),
	COUNT("unseen", "writes of a pointer without a signal"),
	COUNT("astray", "dropped hits that may be of the variable"),
	COUNT("unplaced", "moves to where registers cannot watch"),
};
ROW_TABLE(watch_table, "watch", "What each watch came to.", columns);

#define COLUMNS (sizeof(columns) / sizeof(*columns))
#define COUNTS (sizeof(struct watch_counts) / sizeof(uint64_t))
#define INDEX_OF(member) (offsetof(struct watch_counts, member) / sizeof(uint64_t))

void watch_row(struct rows *rows, const struct watched_spec *watched, int unproven)
{
	struct row_value row[COLUMNS] = {
		row_text(watched->text),
		row_address(watched->address),
		row_u64(watched->bytes),
		row_u64(watched->pieces),
		row_u64(watched->threads),
		row_u64(watched->processes),
		row_u64(watched->uncovered_ns),
		row_u64(watched->children),
		row_text(watched->outside ? "outside" : "inside"),
		row_text(watched->why ? wm_error_text(watched->why) : NULL),
		row_text(watched->lost ? wm_error_text(watched->lost) : NULL),
		row_known(watched->pointers),
		watched->pointers ? row_u64(watched->waits) : row_null(),
	};
	uint64_t counts[COUNTS];

	memcpy(counts, &watched->counts, sizeof(counts));
	for (size_t i = 0; i < COUNTS; i++) {
		int has = i < INDEX_OF(frames)	 ? i || !unproven || counts[0]
			  : i < INDEX_OF(follow) ? watched->is_local
						 : watched->pointers != 0;

		row[COLUMNS - COUNTS + i] = has ? row_u64(counts[i]) : row_null();
	}
	rows_put(rows, row);
}

void watches_print(const struct watched_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (watches_of(list, i)) {
			fputs("waymark: ", stderr);
			watch_counts_text(watches_of(list, i), list->unproven, "", stderr);
		}
}

void watches_rows(struct rows *rows, const struct watched_list *list)
{
	rows_open(rows, &watch_table, NULL);
	for (size_t i = 0; i < list->count; i++)
		if (watches_of(list, i))
			watch_row(rows, watches_of(list, i), list->unproven);
	rows_close(rows);
}
