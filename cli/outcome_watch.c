/* SPDX-License-Identifier: MIT */
#include "cli/outcome_watch.h"

#include "cli/cli.h"
#include "cli/quantity.h"
#include "session/watch/watches.h"

#include <stdio.h>
#include <waymark/error.h>

#define COUNT_BYTES 32

static void tell_part(uint64_t count, const char *what)
{
	char text[COUNT_BYTES];

	if (count)
		fprintf(stderr, "; %s %s", quantity_show_count(count, text, sizeof(text)), what);
}

static const char *gap_text(uint64_t gap_ns, char *text, size_t bytes)
{
	snprintf(text, bytes, "%.1f ms", (double)gap_ns / 1e6);
	return text;
}

/* It became the one behind it in the list. */
static void tell_change(const struct watched_spec *watched)
{
	if (watched->was_stopped)
		fputs("; then changed, while the program stood still", stderr);
	else
		fprintf(stderr,
			"; then changed while threads ran: within %llu us hits may be missing",
			(unsigned long long)(watched->gap_ns / 1000 + 1));
}

/* "  frames: 12 watched; 3 not, as no debug register was free" */
static void tell_frames(const struct watched_spec *watched)
{
	const struct watch_frames *frames = &watched->counts.frames;
	char text[COUNT_BYTES];

	fprintf(stderr, "  frames: %s watched",
		quantity_show_count(frames->watched, text, sizeof(text)));
	tell_part(frames->busy, "not, as no debug register was free");
	tell_part(frames->late, "not, as this command did not arm them in time");
	tell_part(frames->unended, "not, as their end could not have been seen");
	fputc('\n', stderr);
	if (watched->unlooked)
		fprintf(stderr, "  frames that lived already were not all found: %s\n",
			wm_error_text(watched->unlooked));
	if (frames->unsure)
		fprintf(stderr,
			"  %s of the hits not told, as no way through the stack told whether the frame lived\n",
			quantity_show_count(frames->unsure, text, sizeof(text)));
}

/* How well the values are known. */
static void tell_values(const struct watched_spec *watched)
{
	const struct watch_counts *counts = &watched->counts;

	tell_part(counts->inexact - counts->unknown,
		  watched->outside ? "with a value that follows from the one before it"
				   : "with a value that was read from memory, perhaps later");
	tell_part(counts->unknown, "with a value that is not to be known from outside");
	tell_part(counts->uncertain - counts->uncertain_filtered,
		  "met the condition by a value that is uncertain (~)");
	tell_part(counts->uncertain_filtered,
		  "may have met the condition, and were left out: their values are uncertain");
}

static void tell_one(const struct watched_spec *watched, int unproven)
{
	const struct watch_counts *counts = &watched->counts;
	char text[COUNT_BYTES];

	if (unproven && !counts->hits) {
		complain_words("waymark: %s: hits were not measured: %s", watched->text,
			       wm_error_text(unproven));
		fputc('\n', stderr);
		return;
	}
	complain_words("waymark: %s: %s hit%s", watched->text,
		       quantity_show_count(counts->hits, text, sizeof(text)),
		       counts->hits == 1 ? "" : "s");
	tell_part(counts->filtered, "did not meet the condition");
	tell_part(counts->counted, "counted, as asked");
	tell_part(
		counts->missed,
		watched->outside ? "lost: the kernel's ring had no room for them"
		: watched->is_local
			? "told by no signal: one instruction met the stack in two places, or they are missed"
		: watched->pieces > 1
			? "missed: a thread blocked SIGTRAP meanwhile, or ended, "
			  "or an instruction whose reach is unknown wrote several parts of it"
			: "missed: a thread blocked SIGTRAP meanwhile, or was ended");
	tell_part(counts->late,
		  "told late, as SIGTRAP was blocked: their places and values are later ones");
	tell_part(counts->dropped, watched->is_local ? "met the stack where no frame had it then"
						     : "came outside of the recording");
	tell_part(
		counts->own,
		watched->is_local
			? "by the recording itself, as frames began and ended"
			: "by the recording itself: in the program's place, of errno, which it puts back as it was, or on a stack that nobody has any more");
	tell_values(watched);
	tell_part(counts->masked, "more not recorded: masked stores that wrote other bytes");
	tell_part(
		counts->starved,
		counts->starved == 1
			? "kernel event had no debug register for some time: hits may be missing"
			: "kernel events had no debug register for some time: hits may be missing");
	if (watched->until_realtime_ns)
		tell_change(watched);
	if (watched->lost)
		fprintf(stderr, "; taken away before the end: %s", wm_error_text(watched->lost));
	fputc('\n', stderr);
	if (watched->outside && watched->why)
		fprintf(stderr, "  watched from outside: %s\n", wm_error_text(watched->why));
	else if (watched->outside)
		fputs("  watched from outside, as asked\n", stderr);
	if (watched->shared)
		fprintf(stderr,
			"  no debug register was free: %u that %s holds served it, and what that missed is told there\n",
			watched->shared,
			watched->holder[0] ? watched->holder : "another recording");
	if (watched->alone_ns)
		fprintf(stderr, "  the other ended before%s: what was hit in %s is not known\n",
			watched->taken_over ? ", and its place was taken" : "",
			gap_text(watched->alone_ns, text, sizeof(text)));
	if (watched->uncovered_ns)
		fprintf(stderr,
			"  a CPU came into the machine meanwhile: what was hit there in %s is not known\n",
			gap_text(watched->uncovered_ns, text, sizeof(text)));
	if (watched->children)
		fprintf(stderr, "  from outside no children are watched: %s %s started meanwhile\n",
			quantity_show_count(watched->children, text, sizeof(text)),
			watched->children == 1 ? "was" : "were");
	if (watched->pieces > 1)
		fprintf(stderr, "  it lies in %u debug registers, which are counted one by one\n",
			watched->pieces);
	if (watched->is_local)
		tell_frames(watched);
}

/* What it was before first. */
static void tell_all(const struct watched_spec *watched, int unproven)
{
	if (watched->earlier)
		tell_all(watched->earlier, unproven);
	if (watched->processes)
		tell_one(watched, unproven);
}

/* Those that came later, and could not be watched. */
static void tell_unwatched(const struct watched_list *list)
{
	char text[COUNT_BYTES];

	if (!list->unwatched)
		return;
	complain_words(
		"waymark: %s process%s went on with something unwatched that came later; the first: %s%s%s",
		quantity_show_count(list->unwatched, text, sizeof(text)),
		list->unwatched == 1 ? "" : "es", list->unwatched_detail,
		*list->unwatched_detail ? ": " : "", wm_error_text(list->unwatched_error));
	fputc('\n', stderr);
}

void outcome_ways(const struct wm_session *session)
{
	for (size_t i = 0; i < session->watched.count; i++) {
		const struct watched_spec *watched = watches_of(&session->watched, i);

		if (!watched || !watched->outside || !watched->why)
			continue;
		complain_words("waymark: %s is watched from outside: %s", watched->text,
			       wm_error_text(watched->why));
		fputc('\n', stderr);
	}
}

void outcome_watches(const struct watched_list *list)
{
	int any = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct watched_spec *watched = watches_of(list, i);

		if (!watched)
			continue;
		tell_all(watched, list->unproven);
		any |= !watched->is_code && !watched->sees_kernel;
	}
	tell_unwatched(list);
	if (any)
		fputs("  what the kernel itself writes there, as for read(2), is not seen, but by watch:EXPR/kernel/\n",
		      stderr);
}

void outcome_waiting(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs.count; i++) {
		const struct spec *spec = &session->specs.all[i];

		if (!spec->watch || watches_of(&session->watched, i))
			continue;
		complain_words("waymark: %s waits: no module that is called so is loaded yet",
			       spec->text);
		fputc('\n', stderr);
	}
}

/* Whether it was armed in some process. */
static int was_armed(const struct wm_session *session, size_t spec)
{
	const struct watched_spec *watched = watches_of(&session->watched, spec);

	return watched && watched->processes;
}

size_t outcome_unwatched(const struct wm_session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->specs.count; i++) {
		const struct spec *spec = &session->specs.all[i];
		int error;

		if (!spec->watch || was_armed(session, i))
			continue;
		error = i < session->watched.count ? session->watched.all[i].error : 0;
		complain_words("waymark: %s was armed nowhere: %s", spec->text,
			       error ? wm_error_text(error)
				     : "the program ended before, or went on without");
		fputc('\n', stderr);
		count++;
	}
	return count;
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

/* What it was before first. */
static void put_all(struct json *json, const struct watched_spec *watched, int unproven)
{
	const struct watch_counts *counts = &watched->counts;

	if (watched->earlier)
		put_all(json, watched->earlier, unproven);
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
	json_number(json, "shared_registers", watched->shared);
	json_words(json, "holder", watched->holder[0] ? watched->holder : NULL);
	json_number(json, "taken_over", watched->taken_over);
	json_number(json, "alone_ns", watched->alone_ns);
	json_number(json, "uncovered_ns", watched->uncovered_ns);
	json_number(json, "children", watched->children);
	json_number(json, "unknown", counts->unknown);
	json_number(json, "processes", watched->processes);
	json_string(json, "way", watched->outside ? "outside" : "inside");
	json_string(json, "why", watched->why ? wm_error_text(watched->why) : "");
	if (watched->is_local)
		put_frames(json, &counts->frames);
	json_string(json, "lost", watched->lost ? wm_error_text(watched->lost) : "");
	if (watched->until_realtime_ns) {
		json_number(json, "changed_ns", watched->until_realtime_ns);
		json_number(json, "gap_ns", watched->gap_ns);
		json_bool(json, "stopped", watched->was_stopped);
	}
	json_close(json, '}');
}

void outcome_watches_json(struct json *json, const struct watched_list *list)
{
	json_open(json, "watches", '[');
	for (size_t i = 0; i < list->count; i++)
		if (watches_of(list, i))
			put_all(json, watches_of(list, i), list->unproven);
	json_close(json, ']');
	json_number(json, "unwatched", list->unwatched);
}
