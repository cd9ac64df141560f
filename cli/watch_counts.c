/* SPDX-License-Identifier: MIT */
#include "cli/watch_counts.h"

#include "cli/cli.h"
#include "base/quantity.h"

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

/* It became the one behind it in the list. */
static void tell_change(FILE *to, const struct watched_spec *watched)
{
	if (watched->was_stopped)
		fputs("; then changed, while the program stood still", to);
	else
		fprintf(to, "; then changed while threads ran: within %llu us hits may be missing",
			(unsigned long long)(watched->gap_ns / 1000 + 1));
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
		complain_words_put(to, "%s: hits were not measured: %s", watched->text,
				   wm_error_text(unproven));
		fputc('\n', to);
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
	if (watched->until_realtime_ns)
		tell_change(to, watched);
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

static void put_follow(struct json *json, const struct watched_spec *watched)
{
	const struct watch_follows *follow = &watched->counts.follow;

	json_open(json, "follow", '{');
	json_number(json, "pointers", watched->pointers);
	json_number(json, "moves", follow->moves);
	json_number(json, "exposed", follow->exposed);
	json_number(json, "unseen", follow->unseen);
	json_number(json, "astray", follow->astray);
	json_number(json, "unplaced", follow->unplaced);
	json_number(json, "waits", watched->waits);
	json_close(json, '}');
}

static void put_frames(struct json *json, const struct watch_frames *frames)
{
	json_open(json, "frames", '{');
	json_number(json, "entered", frames->entered);
	json_number(json, "watched", frames->watched);
	json_number(json, "busy", frames->busy);
	json_number(json, "late", frames->late);
	json_number(json, "unended", frames->unended);
	json_number(json, "over", frames->over);
	json_number(json, "outside", frames->outside);
	json_number(json, "unsure", frames->unsure);
	json_close(json, '}');
}

void watch_counts_json(const struct watched_spec *watched, int unproven, struct json *json)
{
	const struct watch_counts *counts = &watched->counts;

	json_open(json, NULL, '{');
	json_string(json, "spec", watched->text);
	json_number(json, "address", watched->address);
	json_number(json, "bytes", watched->bytes);
	json_number(json, "registers", watched->pieces);
	json_number(json, "threads", watched->threads);
	if (unproven && !counts->hits)
		json_null(json, "hits");
	else
		json_number(json, "hits", counts->hits);
	json_number(json, "taken", counts->taken);
	json_number(json, "filtered", counts->filtered);
	json_number(json, "counted", counts->counted);
	json_number(json, "missed", counts->missed);
	json_number(json, "starved", counts->starved);
	json_number(json, "late", counts->late);
	json_number(json, "dropped", counts->dropped);
	json_number(json, "own", counts->own);
	json_number(json, "masked", counts->masked);
	json_number(json, "inexact", counts->inexact);
	json_number(json, "uncertain", counts->uncertain);
	json_number(json, "uncertain_filtered", counts->uncertain_filtered);
	json_number(json, "shared", counts->shared);
	json_number(json, "uncovered_ns", watched->uncovered_ns);
	json_number(json, "children", watched->children);
	json_number(json, "unknown", counts->unknown);
	json_number(json, "processes", watched->processes);
	json_string(json, "way", watched->outside ? "outside" : "inside");
	json_string(json, "why", watched->why ? wm_error_text(watched->why) : "");
	if (watched->is_local)
		put_frames(json, &counts->frames);
	if (watched->pointers)
		put_follow(json, watched);
	json_string(json, "lost", watched->lost ? wm_error_text(watched->lost) : "");
	if (watched->until_realtime_ns) {
		json_number(json, "changed_ns", watched->until_realtime_ns);
		json_number(json, "gap_ns", watched->gap_ns);
		json_bool(json, "stopped", watched->was_stopped);
	}
	json_close(json, '}');
}
