/* SPDX-License-Identifier: MIT */
#include "cli/trail_bounds.h"

#include "cli/cli.h"
#include "base/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define BLOCK_WORD "block:"
#define WATCH_WORD "watch:"
#define NAME_BYTES 256
#define NAMES_MAX 10000 /* that are looked through for near ones */

/* Take marker:SUBSYS:EVENT#N apart. 0, or -EINVAL where it is no such thing. */
static int event_of(const char *text, char name[NAME_BYTES], uint64_t *nth)
{
	static const char *const words[] = { "marker:", "event:" };
	const char *number = strchr(text, '#'), *from = NULL;
	size_t bytes;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			from = text + strlen(words[i]);
	if (!from)
		return -EINVAL;
	bytes = number ? (size_t)(number - from) : strlen(from);
	if (bytes >= NAME_BYTES || !memchr(from, ':', bytes))
		return -EINVAL;
	memcpy(name, from, bytes);
	name[bytes] = '\0';
	*nth = 1;
	return number ? quantity_number(number + 1, 1, UINT64_MAX, nth) : 0;
}

int trail_bounds_take(void *options, const struct command_option *option, const char *text,
		      const char *command)
{
	struct trail_bounds *bounds = (void *)((char *)options + option->at);
	int is_to = option->min != 0;
	struct trail_bound *bound = is_to ? &bounds->to : &bounds->from;
	char name[NAME_BYTES];
	uint64_t nth;

	*(is_to ? &bounds->to_text : &bounds->from_text) = text;
	if (!strncmp(text, BLOCK_WORD, strlen(BLOCK_WORD)) &&
	    !quantity_number(text + strlen(BLOCK_WORD), 0, UINT64_MAX, &bound->value))
		bound->kind = TRAIL_BOUND_BLOCK;
	else if (!quantity_time(text, 0, &bound->value) || !event_of(text, name, &nth))
		bound->kind = TRAIL_BOUND_NS;
	else
		return complain_usage(
			command,
			"--%s takes a time (5, 1.5s, 300us), marker:SUBSYS:EVENT, event:SUBSYS:EVENT "
			"with or without #N, or block:N, not %s",
			is_to ? "to" : "from", text);
	return CLI_FINE;
}

/* There is no event of that name: which are there? */
static int complain_event(const struct trail_view *view, const char *name)
{
	const struct facts *meta = &view->reader->meta;
	const char **all = calloc(NAMES_MAX, sizeof(*all));
	size_t count = 0;
	int status;

	for (uint32_t i = 0; all && i < meta->process_count; i++) {
		const struct trace_schema *schema = meta->processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count && count < NAMES_MAX; j++)
			all[count++] = schema->classes[j]->name;
	}
	status = complain_near(-WM_E_NOT_RECORDED, name, all, count);
	free(all);
	return status;
}

static int find(struct trail_bound *bound, struct trail_moment *hit, const char *text,
		struct trail_view *view)
{
	uint64_t begin = reader_begin_ns(view->reader), count, nth;
	struct trail_moment moment;
	char name[NAME_BYTES];
	int err;

	if (bound->kind != TRAIL_BOUND_NS)
		return CLI_FINE;
	if (event_of(text, name, &nth)) {
		bound->value = bound->value > UINT64_MAX - begin ? UINT64_MAX
								 : begin + bound->value;
		return CLI_FINE;
	}
	err = trail_event_find(view->reader, name, nth, &moment, &count);
	if (err == -ENOENT)
		return complain_event(view, name);
	if (err == -ERANGE)
		return complain(-WM_E_NOT_RECORDED, "%s; it has %llu of %s", text,
				(unsigned long long)count, name);
	if (err)
		return complain(err, "%s", view->dir);
	bound->value = moment.ns;
	if (!strncmp(name, WATCH_WORD, strlen(WATCH_WORD)))
		*hit = moment;
	return CLI_FINE;
}

/* Whether the hit's thread has a trail that leads up to it, or one that may, by its time. */
static int look_for_hit(const struct trail_moment *hit, const char *text,
			const struct trail_view *view)
{
	uint64_t block;

	for (size_t i = 0; hit->tid && i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		int reports = path->origin == TRAIL_STEP || path->origin == TRAIL_SOFT;

		if (path->stream->pid == hit->pid && path->stream->tid == hit->tid &&
		    (!reports || trail_trapped(view->reader, path, hit, &block)))
			return CLI_FINE;
	}
	if (!hit->tid)
		return CLI_FINE;
	return complain(
		-WM_E_NOT_RECORDED,
		"a trail that leads up to this hit: %s, in thread %u; only so many are kept: have "
		"a condition that fewer meet: watch:counter/if=value==0,trail/",
		text, hit->tid);
}

/* Whether all threads' trails are empty between the bounds. */
static int is_empty(const struct trail_bounds *bounds, const struct trail_view *view)
{
	struct trail_range range;
	struct trail_item item;

	for (size_t i = 0; i < view->trails.path_count; i++) {
		trail_bounds_range(bounds, view, &view->trails.paths[i], &range);
		if (trail_range_next(&range, &item))
			return 0;
	}
	return view->trails.path_count != 0;
}

static int complain_empty(const struct trail_bounds *bounds, const struct trail_view *view)
{
	complain_words("waymark: no trail has anything between %s and %s: %s",
		       bounds->from_text ? bounds->from_text : "its begin",
		       bounds->to_text ? bounds->to_text : "its end", view->dir);
	fputc('\n', stderr);
	return CLI_FAILED;
}

int trail_bounds_find(struct trail_bounds *bounds, const char *command, struct trail_view *view)
{
	int status = find(&bounds->from, &bounds->from_hit, bounds->from_text, view);

	if (status == CLI_FINE)
		status = find(&bounds->to, &bounds->to_hit, bounds->to_text, view);
	if (status == CLI_FINE)
		status = look_for_hit(&bounds->from_hit, bounds->from_text, view);
	if (status == CLI_FINE)
		status = look_for_hit(&bounds->to_hit, bounds->to_text, view);
	if (status == CLI_FINE && bounds->from.kind && bounds->from.kind == bounds->to.kind &&
	    bounds->from.value > bounds->to.value)
		status = complain_usage(command, "--from %s is after --to %s", bounds->from_text,
					bounds->to_text);
	if (status == CLI_FINE && (bounds->from_text || bounds->to_text) && is_empty(bounds, view))
		status = complain_empty(bounds, view);
	return status;
}

void trail_bounds_range(const struct trail_bounds *bounds, const struct trail_view *view,
			const struct trail_path *path, struct trail_range *range)
{
	struct trail_bound from = bounds->from, to = bounds->to;

	if (trail_trapped(view->reader, path, &bounds->from_hit, &from.value))
		from.kind = TRAIL_BOUND_BLOCK;
	if (trail_trapped(view->reader, path, &bounds->to_hit, &to.value))
		to.kind = TRAIL_BOUND_BLOCK;
	trail_range_init(range, view->reader, path, &from, &to);
}
