/* SPDX-License-Identifier: MIT */
#include "cli/list_events.h"

#include "cli/cli.h"
#include "cli/list.h"
#include "record/perf/count_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAME_COLUMNS 28

struct listing {
	struct out *out;
	struct json json;
	int is_json;
	int has_glob;
	size_t count;
	char group[COUNT_NAME_BYTES]; /* of the row before */
	size_t hidden;		      /* events of the group that this machine does not count */
	const char *why;
};

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

static void row_json(struct listing *listing, const struct count_listed *listed, const char *lack)
{
	struct json *json = &listing->json;

	json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "event", listed->name);
	json_string(json, "group", listed->group);
	json_words(json, "description", listed->description[0] ? listed->description : NULL);
	json_bool(json, "available", !lack);
	json_words(json, "why", lack);
	json_close(json, '}');
}

/* Without a glob, one line for all events of a group that are not here. */
static void group_end(struct listing *listing)
{
	if (listing->hidden) {
		out_literal(listing->out, "  not here: ");
		out_u64(listing->out, listing->hidden);
		out_literal(listing->out, " events; ");
		list_put(listing->out, listing->why);
		out_char(listing->out, '\n');
	}
	listing->hidden = 0;
}

static void row_text(struct listing *listing, const struct count_listed *listed, const char *lack)
{
	struct out *out = listing->out;

	if (strcmp(listing->group, listed->group) != 0) {
		group_end(listing);
		out_text(out, "\n", listing->group[0] != '\0');
		list_put(out, listed->group);
		out_literal(out, ":\n");
		snprintf(listing->group, sizeof(listing->group), "%s", listed->group);
	}
	if (lack && !listing->has_glob) {
		listing->hidden++;
		listing->why = lack;
		return;
	}
	out_literal(out, "  ");
	list_put_padded(out, listed->name, listed->description[0] || lack ? NAME_COLUMNS : 0);
	list_put(out, listed->description);
	if (lack) {
		out_text(out, "; ", listed->description[0] ? 2 : 0);
		out_literal(out, "not here: ");
		list_put(out, lack);
	}
	out_char(out, '\n');
}

static int row_take(void *data, const struct count_listed *listed)
{
	struct listing *listing = data;
	/* to open each of some 2,000 tracepoints takes long, and registers it in the kernel */
	const char *lack = strcmp(listed->group, "tracepoint") ? lack_of(listed->name) : NULL;

	listing->count++;
	if (listing->is_json)
		row_json(listing, listed, lack);
	else
		row_text(listing, listed, lack);
	return listing->out->error;
}

int list_events(const char *glob, int json)
{
	struct out *out = malloc(sizeof(*out));
	struct listing listing = {
		.out = out, .json = { .out = out }, .is_json = json, .has_glob = glob != NULL
	};
	int err;

	if (!out)
		return complain(-ENOMEM, NULL);
	out_init(out, STDOUT_FILENO);
	if (json)
		json_open(&listing.json, NULL, '[');
	err = count_events_list(glob, glob != NULL, row_take, &listing);
	group_end(&listing);
	if (json) {
		json_close(&listing.json, ']');
		out_char(out, '\n');
	}
	out_flush(out);
	err = err ? err : out->error;
	free(out);
	if (err && err != -EPIPE)
		return complain(err, "writing the list");
	return listing.count ? CLI_FINE : complain(-WM_E_COUNT_EVENT, "%s", glob);
}
