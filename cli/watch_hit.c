/* SPDX-License-Identifier: MIT */
#include "cli/watch_hit.h"

#include "cli/watch_value.h"
#include "record/session/session.h"
#include "record/watch/watches.h"
#include "target/expression/watch_place.h"

#include <string.h>

#define WORDS_BYTES (2048 + WATCH_PART_BYTES)

/* NULL: it has no number of that name. A process declares its events, with any types. */
static const struct wm_event_field *field_of(const struct wm_event *event, const char *name)
{
	const struct wm_event_field *field = wm_event_field_find(event, name);
	double number;

	return wm_event_field_double(field, &number) ? NULL : field;
}

/*
 * The result of a watch in the event's process; *type is NULL if unknown. NULL: the event is no
 * watch's.
 */
static const struct watched_spec *spec_of(const struct wm_session *session, const char *words,
					  const struct watch_type **type)
{
	*type = NULL;
	for (size_t i = 0; i < session->watched->count; i++) {
		const struct watched_spec *watched = watches_of(session->watched, i);

		if (!watched || !watched->words || strcmp(watched->words, words) != 0)
			continue;
		*type = watched_type(watched, session->told_process);
		return watched;
	}
	return NULL;
}

/* How a watch is called: its event's name without what kind it is. */
static const char *words_of(const struct wm_event *event)
{
	return !strncmp(event->name, "watch:", 6) ? event->name + 6 : event->name;
}

/* Into the table: of a watch as it was asked for, or a part of that. */
static int add(const struct watch_hits *hits, const char *of, const char *part,
	       struct watch_hit *hit)
{
	char words[WORDS_BYTES];
	int watch;

	/* (*head).next: a part binds closer than the text before it */
	snprintf(words, sizeof(words), *part && strchr("*&", *of) ? "(%s)%s" : "%s%s", of, part);
	watch = writers_watch(hits->table, words);
	if (watch < 0)
		return watch;
	hit->watch = (uint32_t)watch;
	hit->is_part = *part != 0;
	return writers_add(hits->table, hit);
}

static uint64_t value_bytes(const struct watched_spec *spec, const struct watch_type *type)
{
	return type && type->node_count ? type->nodes[0].bytes : spec->bytes;
}

/* Of one of several registers that hold the value. */
static int add_part(const struct watch_hits *hits, const struct wm_event *event, uint64_t flags,
		    uint32_t offset, struct watch_hit *hit)
{
	uint64_t old = field_of(event, "old")->value.u, new = field_of(event, "new")->value.u;
	const struct watch_type *type;
	const struct watched_spec *spec = spec_of(hits->session, words_of(event), &type);
	uint32_t piece = spec ? watch_value_piece(spec->skew, value_bytes(spec, type), offset) : 0;
	struct watch_stretch stretch = { offset, piece ? piece : 8, &old, &new };
	char part[WATCH_PART_BYTES];

	/* the process can claim any offset: where no register begins is no part of the value */
	if (!piece)
		type = NULL;
	/* of what is not known nothing is said to have changed */
	if (flags & WATCH_OLD_UNKNOWN)
		stretch.before = &new;
	if (flags & WATCH_NEW_UNKNOWN)
		stretch.after = stretch.before;
	watch_value_change(type, &stretch, hits->is_hex, part, hit->before, hit->after);
	if (flags & WATCH_OLD_UNKNOWN)
		strcpy(hit->before, "?");
	if (flags & WATCH_NEW_UNKNOWN)
		strcpy(hit->after, "?");
	return add(hits, words_of(event), part, hit);
}

static int add_whole(const struct watch_hits *hits, const struct wm_event *event, uint64_t flags,
		     struct watch_hit *hit)
{
	const struct wm_event_field *old = field_of(event, "old"), *new = field_of(event, "new");
	const struct watch_type *type;

	if (!old || !new)
		return add(hits, words_of(event), "", hit);
	spec_of(hits->session, words_of(event), &type);
	strcpy(hit->before, "?");
	strcpy(hit->after, "?");
	if (!(flags & WATCH_OLD_UNKNOWN))
		watch_value_text(type, old, hits->is_hex, hit->before, sizeof(hit->before));
	if (!(flags & WATCH_NEW_UNKNOWN))
		watch_value_text(type, new, hits->is_hex, hit->after, sizeof(hit->after));
	return add(hits, words_of(event), "", hit);
}

/*
 * Fields are as abi/watch.h has them: ip, old, new, how, and where there are several registers
 * offset; then the callers. Of an execution ip and callers.
 */
int watch_hits_add(const struct watch_hits *hits, const struct wm_event *event)
{
	const struct wm_event_field *ip = field_of(event, "ip"), *how = field_of(event, "how");
	const struct wm_event_field *offset = field_of(event, "offset");
	uint64_t flags = how ? how->value.u : 0;
	struct watch_hit hit = {
		.time_ns = event->realtime_ns,
		.pid = event->pid,
		.tid = event->tid,
		.is_read = (flags & WATCH_READ) != 0,
		.is_kernel = (flags & WATCH_BY_KERNEL) != 0,
		.is_late = (flags & WATCH_LATE) != 0,
	};
	int err = ip ? watch_backtrace_event(hits->wheres, hits->session->told_process, event,
					     &hit.backtrace)
		     : 0;

	if (err || !ip)
		return err;
	hit.where = hit.backtrace.frames[0];
	if (field_of(event, "old") && field_of(event, "new")) {
		hit.is_before_uncertain = (flags & (WATCH_OLD_UNKNOWN | WATCH_OLD_UNCERTAIN)) != 0;
		hit.is_after_uncertain = !(flags & WATCH_NEW_EXACT);
		if (offset)
			return add_part(hits, event, flags, (uint32_t)offset->value.u, &hit);
	}
	return add_whole(hits, event, flags, &hit);
}
