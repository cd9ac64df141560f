/* SPDX-License-Identifier: MIT */
#include "cli/trail_lost.h"

#include "cli/cli.h"
#include "base/quantity.h"

#include <stdio.h>

#define THREADS_SHOWN 10

void trail_lost_count(struct trail_lost *lost, const struct trace_reader *reader,
		      const struct trail_range *range)
{
	const struct trail_path *path = range->cursor.path;

	*lost = (struct trail_lost){ 0 };
	for (size_t i = range->cursor.part; i < range->end_part; i++) {
		const struct trail_part *part = &path->parts[i];

		if (part->count)
			continue;
		if (part->between.event == TRAIL_LOST) {
			lost->places++;
			lost->blocks += part->between.values[0];
		}
		/* kernel code is not the program's, and unrequested parts are not missing */
		lost->unrecorded += trail_is_gap(&part->between) &&
				    part->between.values[0] != TRAIL_GAP_KERNEL &&
				    part->between.values[0] != TRAIL_GAP_ELSEWHERE;
	}
	/* a damaged one is reported as that; one that is still being recorded has no end yet */
	lost->is_cut = range->end_part == path->count && !path->damage && !reader->live &&
		       (path->parts[path->count - 1].count ||
			path->parts[path->count - 1].between.event != TRAIL_END);
}

static void say_lost(const struct trace_stream *stream, const struct trail_lost *lost)
{
	char places[32], blocks[32];

	complain_words("waymark: the trail of %s-%u lacks", stream->comm, stream->tid);
	if (lost->places) {
		fprintf(stderr, " the blocks that were lost at %s place%s",
			quantity_show_count(lost->places, places, sizeof(places)),
			lost->places == 1 ? "" : "s");
		if (lost->blocks)
			fprintf(stderr, " (%s that are known of)",
				quantity_show_count(lost->blocks, blocks, sizeof(blocks)));
	}
	if (lost->unrecorded)
		fprintf(stderr, "%s what ran unrecorded at %s place%s", lost->places ? " and" : "",
			quantity_show_count(lost->unrecorded, places, sizeof(places)),
			lost->unrecorded == 1 ? "" : "s");
	fputc('\n', stderr);
}

static void say_cut(const struct trace_stream *stream)
{
	complain_words("waymark: the trail of %s-%u has no end: its recording was cut off",
		       stream->comm, stream->tid);
	fputc('\n', stderr);
}

static uint32_t pid_of(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	return reader->meta.processes[threads->process].pid;
}

int trail_lost_is_gone(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	/* for one that was over, the damage is reported */
	return threads->is_missing && !threads->over && !reader->live;
}

static void say_gone(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	complain_words(
		"waymark: of thread %u of process %u nothing is there: its recording was cut off",
		threads->tid, pid_of(reader, threads));
	fputc('\n', stderr);
}

static size_t complain_all(const struct trail_view *view, const struct trail_lost_wanted *wanted,
			   int with_losses)
{
	size_t shown = 0, more = 0;

	fflush(stdout); /* where both go to one place, this comes after */
	for (size_t i = 0; i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		struct trail_range range;
		struct trail_lost lost;
		int is_lost;

		if ((wanted->tid && path->stream->tid != wanted->tid) ||
		    (wanted->pid && path->stream->pid != wanted->pid))
			continue;
		trail_bounds_range(wanted->bounds, view, path, &range);
		trail_lost_count(&lost, view->reader, &range);
		is_lost = with_losses && (lost.places || lost.unrecorded);
		if ((is_lost || lost.is_cut) && shown == THREADS_SHOWN) {
			more++;
			continue;
		}
		shown += is_lost || lost.is_cut;
		if (is_lost)
			say_lost(path->stream, &lost);
		if (lost.is_cut)
			say_cut(path->stream);
	}
	for (size_t i = 0; i < view->trails.threads.count; i++) {
		const struct trail_thread_entry *threads = &view->trails.threads.all[i];

		if (!trail_lost_is_gone(view->reader, threads) ||
		    (wanted->tid && threads->tid != wanted->tid) ||
		    (wanted->pid && pid_of(view->reader, threads) != wanted->pid))
			continue;
		if (shown++ < THREADS_SHOWN)
			say_gone(view->reader, threads);
		else
			more++, shown--;
	}
	if (more)
		fprintf(stderr, "  and so do those of %zu more threads\n", more);
	return shown + more;
}

void trail_complain_lost(const struct trail_view *view, const struct trail_lost_wanted *wanted)
{
	complain_all(view, wanted, 1);
}

size_t trail_complain_cut(const struct trail_view *view, const struct trail_lost_wanted *wanted)
{
	return complain_all(view, wanted, 0);
}
