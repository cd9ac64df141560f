/* SPDX-License-Identifier: MIT */
#include "record/watch/figures.h"

#include "trace/facts.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct noted {
	struct watched_spec watched;
	int unproven;
};

#define FIGURE(name, member)                                                                       \
	{                                                                                          \
		name, offsetof(struct noted, member), sizeof(((struct noted *)0)->member)          \
	}
#define COUNT(name) FIGURE(#name, watched.counts.name)
#define FOLLOW(name) FIGURE("follow_" #name, watched.counts.follow.name)
#define FRAMES(name) FIGURE("frames_" #name, watched.counts.frames.name)

static const struct figure {
	const char *name;
	size_t at, bytes; /* of a uint64_t, or of an int that is an error or a flag */
} figures[] = {
	COUNT(hits),
	COUNT(taken),
	COUNT(filtered),
	COUNT(counted),
	COUNT(own),
	COUNT(masked),
	COUNT(dropped),
	COUNT(missed),
	COUNT(late),
	COUNT(inexact),
	COUNT(unknown),
	COUNT(uncertain),
	COUNT(uncertain_filtered),
	COUNT(shared),
	COUNT(starved),
	FOLLOW(moves),
	FOLLOW(exposed),
	FOLLOW(unseen),
	FOLLOW(astray),
	FOLLOW(unplaced),
	FRAMES(entered),
	FRAMES(watched),
	FRAMES(busy),
	FRAMES(late),
	FRAMES(unended),
	FRAMES(over),
	FRAMES(outside),
	FRAMES(unsure),
	FIGURE("unproven", unproven),
	FIGURE("address", watched.address),
	FIGURE("bytes", watched.bytes),
	FIGURE("registers", watched.pieces),
	FIGURE("threads", watched.threads),
	FIGURE("processes", watched.processes),
	FIGURE("uncovered_ns", watched.uncovered_ns),
	FIGURE("children", watched.children),
	FIGURE("outside", watched.outside),
	FIGURE("why", watched.why),
	FIGURE("local", watched.is_local),
	FIGURE("pointers", watched.pointers),
	FIGURE("waits", watched.waits),
	FIGURE("unlooked", watched.unlooked),
	FIGURE("lost", watched.lost),
};

#define FIGURE_COUNT (sizeof(figures) / sizeof(figures[0]))

/* An error is written as a positive number. */
static uint64_t figure_get(const struct figure *figure, const struct noted *noted)
{
	const char *at = (const char *)noted + figure->at;
	uint64_t wide;
	int narrow;

	if (figure->bytes == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return (uint64_t)abs(narrow);
}

static void figure_set(const struct figure *figure, struct noted *noted, uint64_t value)
{
	char *at = (char *)noted + figure->at;
	int narrow = (int)(value & INT32_MAX);

	if (figure->bytes == sizeof(value))
		memcpy(at, &value, sizeof(value));
	else
		memcpy(at, &narrow, sizeof(narrow));
}

static void write_one(const struct watched_spec *watched, int unproven, struct trace_writer *writer)
{
	const struct noted noted = { *watched, watched->counts.hits ? 0 : unproven };
	uint32_t number;

	if (!watched->processes)
		return;
	number = trace_watch_add(writer, watched->text);
	for (size_t i = 0; i < FIGURE_COUNT; i++) {
		uint64_t value = figure_get(&figures[i], &noted);

		if (value)
			trace_figure_add(writer, number, figures[i].name, value);
	}
}

void figures_write(const struct watched_list *list, struct trace_writer *writer)
{
	for (size_t i = 0; i < list->count; i++)
		if (watches_of(list, i))
			write_one(watches_of(list, i), list->unproven, writer);
}

int figures_read(struct watched_spec *watched, int *unproven, const struct fact_watch *watch)
{
	struct noted noted = { 0 };

	for (size_t i = 0; i < watch->count; i++)
		for (size_t j = 0; j < FIGURE_COUNT; j++)
			if (!strcmp(figures[j].name, watch->figures[i].name))
				figure_set(&figures[j], &noted, watch->figures[i].value);
	*watched = noted.watched;
	*unproven = noted.unproven;
	watched->text = strdup(watch->spec);
	return watched->text ? 0 : -ENOMEM;
}
