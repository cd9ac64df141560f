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

static void tell_one(const struct watched_spec *watched)
{
	const struct watch_counts *counts = &watched->counts;
	char text[COUNT_BYTES];

	complain_words("waymark: %s: %s hit%s", watched->text,
		       quantity_show_count(counts->hits, text, sizeof(text)),
		       counts->hits == 1 ? "" : "s");
	tell_part(counts->filtered, "did not meet the condition");
	tell_part(counts->counted, "counted, as asked");
	tell_part(
		counts->missed,
		watched->is_local
			? "told by no signal: one instruction met the stack in two places, or they are missed"
			: "missed: a thread blocked SIGTRAP meanwhile, or was ended");
	tell_part(counts->late,
		  "told late, as SIGTRAP was blocked: their places and values are later ones");
	tell_part(counts->dropped, watched->is_local ? "met the stack where no frame had it then"
						     : "came outside of the recording");
	tell_part(counts->own,
		  watched->is_local
			  ? "by the recording itself, as frames began and ended"
			  : "by the recording itself, on a stack that nobody has any more");
	tell_part(counts->inexact,
		  "with the value that memory had then, as the instruction does not tell it");
	if (watched->lost)
		fprintf(stderr, "; taken away before the end: %s", wm_error_text(watched->lost));
	fputc('\n', stderr);
	if (watched->pieces > 1)
		fprintf(stderr, "  it lies in %u debug registers, each told with its offset\n",
			watched->pieces);
	if (watched->is_local)
		tell_frames(watched);
	if (watched->callers < watched->callers_asked)
		fprintf(stderr, "  no more than %u callers are told\n", watched->callers);
}

void outcome_watches(const struct watched_list *list)
{
	int any = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct watched_spec *watched = watches_of(list, i);

		if (!watched)
			continue;
		tell_one(watched);
		any |= !watched->is_code;
	}
	if (any)
		fputs("  what the kernel itself writes there, as for read(2), is not seen\n",
		      stderr);
}

size_t outcome_unwatched(const struct wm_session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->specs.count; i++) {
		const struct spec *spec = &session->specs.all[i];

		if (!spec->watch || watches_of(&session->watched, i))
			continue;
		complain_words(
			"waymark: %s was armed nowhere: the program ended before, or went on "
			"without",
			spec->text);
		fputc('\n', stderr);
		count++;
	}
	return count;
}

void outcome_watches_json(struct json *json, const struct watched_list *list)
{
	json_open(json, "watches", '[');
	for (size_t i = 0; i < list->count; i++) {
		const struct watched_spec *watched = watches_of(list, i);
		const struct watch_counts *counts = watched ? &watched->counts : NULL;

		if (!watched)
			continue;
		json_open(json, NULL, '{');
		json_string(json, "spec", watched->text);
		json_number(json, "address", watched->address);
		json_number(json, "bytes", watched->bytes);
		json_number(json, "registers", watched->pieces);
		json_number(json, "threads", watched->threads);
		json_number(json, "hits", counts->hits);
		json_number(json, "taken", counts->taken);
		json_number(json, "filtered", counts->filtered);
		json_number(json, "counted", counts->counted);
		json_number(json, "missed", counts->missed);
		json_number(json, "late", counts->late);
		json_number(json, "dropped", counts->dropped);
		json_number(json, "own", counts->own);
		json_number(json, "inexact", counts->inexact);
		json_number(json, "shared", counts->shared);
		if (watched->is_local) {
			json_open(json, "frames", '{');
			json_number(json, "entered", counts->frames.entered);
			json_number(json, "watched", counts->frames.watched);
			json_number(json, "busy", counts->frames.busy);
			json_number(json, "late", counts->frames.late);
			json_number(json, "unended", counts->frames.unended);
			json_number(json, "over", counts->frames.over);
			json_number(json, "outside", counts->frames.outside);
			json_number(json, "unsure", counts->frames.unsure);
			json_close(json, '}');
		}
		json_string(json, "lost", watched->lost ? wm_error_text(watched->lost) : "");
		json_close(json, '}');
	}
	json_close(json, ']');
}
