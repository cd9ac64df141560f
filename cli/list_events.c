/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "cli/cli.h"
#include "record/perf/count_event.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

struct listing {
	struct rows *rows;
	size_t count, left_out;
	int has_glob;
};

static const struct row_column columns[] = {
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "group", ROW_TEXT, ROW_PLAIN, 0, "what counts it" },
	{ "available", ROW_BOOL, ROW_PLAIN, 0, "here" },
	{ "description", ROW_TEXT, ROW_PLAIN, 0, "what it is" },
	{ "why", ROW_TEXT, ROW_PLAIN, 0, "it is not available" },
};
static ROW_TABLE(countable_table, "countable", "What the kernel can count.", columns);

/* Why this machine does not count it, or NULL. */
static const char *lack_of(const char *name)
{
	char words[256];
	struct detail detail = { words, sizeof(words) };
	struct count_event event;
	int err = count_event_read(&event, name, detail);

	if (!err)
		err = count_event_probe(&event, detail);
	return err ? wm_error_text(err) : NULL;
}

static int row_take(void *data, const struct count_listed *listed)
{
	struct listing *listing = data;
	/* to open each of some 2,000 tracepoints takes long, and registers it in the kernel */
	const char *lack = strcmp(listed->group, "tracepoint") ? lack_of(listed->name) : NULL;

	listing->count++;
	if (lack && !listing->has_glob && listing->rows->format == ROWS_TEXT) {
		listing->left_out++;
		return 0;
	}
	ROWS_PUT(listing->rows, columns, row_text(listed->name), row_text(listed->group),
		 row_bool(!lack), row_words(listed->description), row_text(lack));
	return listing->rows->out->error;
}

int list_events(struct rows *rows, const char *glob)
{
	struct listing listing = { .rows = rows, .has_glob = glob != NULL };
	int err;

	rows_open(rows, &countable_table, NULL);
	err = count_events_list(glob, glob != NULL, row_take, &listing);
	rows_close(rows);
	if (listing.left_out)
		rows_note(rows, "not here: %zu events; a GLOB of their names shows why",
			  listing.left_out);
	if (err && err != -EPIPE)
		return complain(err, "writing the list");
	return listing.count ? CLI_FINE : complain(-WM_E_COUNT_EVENT, "%s", glob);
}
