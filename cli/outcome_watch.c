/* SPDX-License-Identifier: MIT */
#include "cli/outcome_watch.h"

#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/watch_counts.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"

#include <stdio.h>
#include <waymark/error.h>

#define COUNT_BYTES 32

static void tell_one(const struct watched_spec *watched, int unproven)
{
	fputs("waymark: ", stderr);
	watch_counts_text(watched, unproven, "", stderr);
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
	for (size_t i = 0; i < session->watched->count; i++) {
		const struct watched_spec *watched = watches_of(session->watched, i);

		if (watched && watched->waits) {
			complain_words("waymark: %s: waiting for %s", watched->text,
				       watched->waits_for);
			fputc('\n', stderr);
		}
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
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];

		if (!spec->watch || watches_of(session->watched, i))
			continue;
		complain_words("waymark: %s waits: no module that is called so is loaded yet",
			       spec->text);
		fputc('\n', stderr);
	}
}

/* Whether it was armed in some process. */
static int was_armed(const struct wm_session *session, size_t spec)
{
	const struct watched_spec *watched = watches_of(session->watched, spec);

	return watched && watched->processes;
}

size_t outcome_unwatched(const struct wm_session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];
		int error;

		if (!spec->watch || was_armed(session, i))
			continue;
		error = i < session->watched->count ? session->watched->all[i].error : 0;
		complain_words("waymark: %s was armed nowhere: %s", spec->text,
			       error ? wm_error_text(error)
				     : "the program ended before, or went on without");
		fputc('\n', stderr);
		count++;
	}
	return count;
}

/* What it was before first. */
static void put_all(struct json *json, const struct watched_spec *watched, int unproven)
{
	if (watched->earlier)
		put_all(json, watched->earlier, unproven);
	watch_counts_json(watched, unproven, json);
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
