/* SPDX-License-Identifier: MIT */
/* Where in a trail a sample may have been taken. */
#include "read/history/samples_trail.h"

#include "abi/trail.h"
#include "base/array.h"
#include "trace/trail/range.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * How far the times of a trail and of a sample may be apart: both are made of ticks, but the rate
 * of a trail's clock follows NTP.
 */
#define SLACK_NS 50000u
#define SLACK_PART 20000u      /* of the time since the trace began */
#define SLACK_NS_MAX 10000000u /* where it is more, the trail does not know the callers */

int samples_trail_open(struct samples_trail *trail, struct samples *samples)
{
	*trail = (struct samples_trail){ .samples = samples };
	return trails_read(&trail->trails, samples->reader);
}

void samples_trail_release(struct samples_trail *trail)
{
	if (trail->samples)
		trails_release(&trail->trails, trail->samples->reader);
	free(trail->places);
	free(trail->callers);
	free(trail->last_paths);
	*trail = (struct samples_trail){ 0 };
}

static uint64_t slack_of(const struct samples_trail *trail, uint64_t ns)
{
	uint64_t begin_ns = reader_begin_ns(trail->samples->reader);

	return SLACK_NS + (ns > begin_ns ? (ns - begin_ns) / SLACK_PART : 0);
}

static uint64_t part_ns(const struct samples_trail *trail, const struct trail_path *path,
			size_t part)
{
	return trail_ns(trail->samples->reader, path, path->parts[part].ticks);
}

/* The first part later than a time, or as late; path->count: none is. */
static size_t part_find(const struct samples_trail *trail, const struct trail_path *path,
			uint64_t ns)
{
	size_t low = 0, high = path->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (part_ns(trail, path, middle) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a thread may have been in a path at a time. */
static int is_in(const struct samples_trail *trail, const struct trail_path *path, uint64_t ns,
		 uint64_t slack)
{
	uint64_t begin_ns = trail_ns(trail->samples->reader, path, path->stream->begin_ticks);

	return ns + slack >= begin_ns && ns <= part_ns(trail, path, path->count - 1) + slack;
}

/* The path of a thread at a time; the number of paths: it has none, or more than one. */
static size_t path_find(struct samples_trail *trail, uint32_t number, uint64_t ns, uint64_t slack)
{
	const struct samples_thread *thread = &trail->samples->threads[number];
	const struct trails *trails = &trail->trails;
	size_t *last = &trail->last_paths[number], found = trails->path_count, count = 0;

	if (*last && is_in(trail, &trails->paths[*last - 1], ns - slack, 0) &&
	    is_in(trail, &trails->paths[*last - 1], ns + slack, 0))
		return *last - 1;
	for (size_t i = 0; i < trails->path_count; i++) {
		const struct trail_path *path = &trails->paths[i];

		if (path->stream->tid != thread->tid || path->stream->pid != thread->pid ||
		    !path->blocks || !is_in(trail, path, ns, slack))
			continue;
		found = i;
		count++;
	}
	*last = count == 1 ? found + 1 : 0;
	return count == 1 ? found : trails->path_count;
}

/*
 * The blocks of a path that a thread may have been in at a time. Many parts may have one time. The
 * first path right behind them may have begun already: it is written when it is left.
 */
static void stretch_find(const struct samples_trail *trail, const struct trail_path *path,
			 uint64_t ns, uint64_t slack, struct samples_place *place)
{
	size_t part = part_find(trail, path, ns + slack + 1);
	struct trail_cursor cursor = { .path = path };

	place->begin = path->parts[part_find(trail, path, ns - slack)].before;
	place->end = path->blocks;
	if (part < path->count)
		part = part_find(trail, path, part_ns(trail, path, part) + 1);
	if (part == path->count)
		return;
	place->end = path->parts[part].before;
	if (!path->parts[part].count)
		return;
	trail_seek(&cursor, place->end);
	place->end += path->parts[part].has_paths ? trail_cursor_run(&cursor)->count : 1;
}

int samples_trail_add(struct samples_trail *trail, uint32_t thread, uint64_t address, uint64_t ns)
{
	struct samples_place place = { .thread = thread,
				       .address = address < TRAIL_KERNEL ? address : 0,
				       .sample = trail->count };
	uint64_t slack = slack_of(trail, ns);
	size_t before = trail->last_room;

	if (array_grow(&trail->callers, &trail->room, trail->count + 1, sizeof(*trail->callers)) ||
	    array_grow(&trail->places, &trail->place_room, trail->place_count + 1,
		       sizeof(*trail->places)) ||
	    array_grow(&trail->last_paths, &trail->last_room, thread + 1ul,
		       sizeof(*trail->last_paths)))
		return -ENOMEM;
	memset(trail->last_paths + before, 0,
	       (trail->last_room - before) * sizeof(*trail->last_paths));
	trail->callers[trail->count++] = (struct samples_callers){ STACKS_ROOT, 0 };
	if (slack > SLACK_NS_MAX)
		return 0;
	place.path = path_find(trail, thread, ns, slack);
	if (place.path == trail->trails.path_count)
		return 0;
	stretch_find(trail, &trail->trails.paths[place.path], ns, slack, &place);
	trail->places[trail->place_count++] = place;
	return 0;
}
