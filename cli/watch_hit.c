/* SPDX-License-Identifier: MIT */
#include "cli/watch_hit.h"

#include "base/array.h"
#include "cli/watch_value.h"
#include "record/session/session.h"
#include "record/watch/watches.h"
#include "target/expression/watch_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_BYTES (2048 + WATCH_PART_BYTES)
#define VALUE_MAX (8 * WATCH_REGISTERS)

/* A thread's hits of one instruction so far, of a number that several registers hold. */
struct wait {
	uint32_t process, tid;
	uint64_t ip;
	char *words;
	const struct watch_type *type;
	struct watch_part number; /* its bytes are 0 while it is unknown */
	uint32_t seen;		  /* bytes of the whole, a bit each */
	uint8_t before[VALUE_MAX], after[VALUE_MAX];
	unsigned int count, reads; /* of hits; that were over since */
	struct watch_hit all[WATCH_REGISTERS];
	char parts[WATCH_REGISTERS][WATCH_PART_BYTES];
};

struct watch_hits {
	struct wm_session *session;
	struct writers *table;
	struct watch_wheres *wheres;
	int is_hex;
	struct wait *waits; /* one of a thread */
	size_t count, room;
};

int watch_hits_new(struct watch_hits **out, struct wm_session *session, struct writers *table,
		   struct watch_wheres *wheres, int is_hex)
{
	struct watch_hits *hits = *out = calloc(1, sizeof(*hits));

	if (!hits)
		return -ENOMEM;
	hits->session = session;
	hits->table = table;
	hits->wheres = wheres;
	hits->is_hex = is_hex;
	return 0;
}

void watch_hits_free(struct watch_hits *hits)
{
	if (!hits)
		return;
	for (size_t i = 0; i < hits->count; i++)
		free(hits->waits[i].words);
	free(hits->waits);
	free(hits);
}

/* ---- the event ---- */

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

/* ---- several registers ---- */

static struct wait *wait_of(const struct watch_hits *hits, uint32_t tid)
{
	for (size_t i = 0; i < hits->count; i++)
		if (hits->waits[i].tid == tid &&
		    hits->waits[i].process == hits->session->told_process)
			return &hits->waits[i];
	return NULL;
}

/* It waits no more, and another has its place. */
static void wait_end(struct watch_hits *hits, struct wait *wait)
{
	free(wait->words);
	*wait = hits->waits[--hits->count];
}

/* The other registers will not come: each hit by itself. */
static int give_up(struct watch_hits *hits, struct wait *wait)
{
	int err = 0;

	for (unsigned int i = 0; i < wait->count && !err; i++)
		err = add(hits, wait->words, wait->parts[i], &wait->all[i]);
	wait_end(hits, wait);
	return err;
}

/* Both are within VALUE_MAX. */
static uint32_t bits_of(uint32_t offset, uint32_t bytes)
{
	return (uint32_t)(((UINT64_C(1) << bytes) - 1) << offset);
}

/*
 * Whether it is a further part of the waiting number, or, if that is unknown yet, of `number`;
 * NULL: none.
 */
static int is_next(const struct wait *wait, const char *words, uint64_t ip,
		   const struct watch_type *type, const struct watch_stretch *stretch,
		   const struct watch_part *number)
{
	uint32_t bits = bits_of(stretch->offset, stretch->bytes), wanted;

	if (wait->number.bytes)
		number = &wait->number;
	if (!number || wait->count == WATCH_REGISTERS || wait->ip != ip || wait->type != type ||
	    strcmp(wait->words, words) != 0)
		return 0;
	wanted = bits_of(number->offset, number->bytes);
	return !(wait->seen & bits) && bits & wanted && wait->seen & wanted;
}

static int unite(struct watch_hits *hits, struct wait *wait)
{
	struct watch_hit hit = wait->all[0];
	struct watch_part *number = &wait->number;
	const struct watch_stretch stretch = { number->offset, number->bytes,
					       wait->before + number->offset,
					       wait->after + number->offset };
	char part[WATCH_PART_BYTES];
	int err;

	watch_value_change(wait->type, &stretch, hits->is_hex, number,
			   &(struct watch_change){ part, hit.before, hit.after });
	for (unsigned int i = 0; i < wait->count; i++) {
		hit.is_late |= wait->all[i].is_late;
		hit.is_before_uncertain |= wait->all[i].is_before_uncertain;
		hit.is_after_uncertain |= wait->all[i].is_after_uncertain;
		if (!strcmp(wait->all[i].before, "?"))
			strcpy(hit.before, "?");
		if (!strcmp(wait->all[i].after, "?"))
			strcpy(hit.after, "?");
	}
	err = add(hits, wait->words, part, &hit);
	wait_end(hits, wait);
	return err;
}

/* One more of its registers; with the last it is one hit. */
static int wait_more(struct watch_hits *hits, struct wait *wait,
		     const struct watch_stretch *stretch, const char *part,
		     const struct watch_hit *hit)
{
	uint32_t wanted = bits_of(wait->number.offset, wait->number.bytes);

	memcpy(wait->before + stretch->offset, stretch->before, stretch->bytes);
	memcpy(wait->after + stretch->offset, stretch->after, stretch->bytes);
	wait->seen |= bits_of(stretch->offset, stretch->bytes);
	wait->all[wait->count] = *hit;
	strcpy(wait->parts[wait->count], part);
	wait->count++;
	return wanted && (wait->seen & wanted) == wanted ? unite(hits, wait) : 0;
}

static struct wait *wait_new(struct watch_hits *hits, uint32_t tid, const char *words)
{
	struct wait *wait;

	if (array_grow(&hits->waits, &hits->room, hits->count + 1, sizeof(*hits->waits)))
		return NULL;
	wait = &hits->waits[hits->count];
	*wait = (struct wait){ .process = hits->session->told_process, .tid = tid };
	wait->words = strdup(words);
	if (!wait->words)
		return NULL;
	hits->count++;
	return wait;
}

static uint64_t value_bytes(const struct watched_spec *spec, const struct watch_type *type)
{
	return type && type->node_count ? type->nodes[0].bytes : spec->bytes;
}

static int add_part(struct watch_hits *hits, const struct wm_event *event, uint64_t flags,
		    uint32_t offset, struct watch_hit *hit)
{
	uint64_t old = field_of(event, "old")->value.u, new = field_of(event, "new")->value.u;
	uint64_t ip = field_of(event, "ip")->value.u;
	struct wait *wait = wait_of(hits, event->tid);
	const char *words = words_of(event);
	const struct watch_type *type;
	const struct watched_spec *spec = spec_of(hits->session, words, &type);
	uint32_t piece = spec ? watch_value_piece(spec->skew, value_bytes(spec, type), offset) : 0;
	struct watch_stretch stretch = { offset, piece ? piece : 8, &old, &new };
	char text[WATCH_PART_BYTES];
	struct watch_part part;
	int found, err = 0;

	/* the process can claim any offset: where no register begins is no part of the value */
	if (!piece)
		type = NULL;
	/* of what is not known nothing is said to have changed */
	if (flags & WATCH_OLD_UNKNOWN)
		stretch.before = &new;
	if (flags & WATCH_NEW_UNKNOWN)
		stretch.after = stretch.before;
	found = watch_value_change(type, &stretch, hits->is_hex, &part,
				   &(struct watch_change){ text, hit->before, hit->after });
	if (flags & WATCH_OLD_UNKNOWN)
		strcpy(hit->before, "?");
	if (flags & WATCH_NEW_UNKNOWN)
		strcpy(hit->after, "?");
	if (wait && type &&
	    is_next(wait, words, ip, type, &stretch, found == -ERANGE ? &part : NULL)) {
		if (!wait->number.bytes)
			wait->number = part;
		return wait_more(hits, wait, &stretch, text, hit);
	}
	if (wait)
		err = give_up(hits, wait);
	/* what did not change may be of a number whose other bytes determine which */
	if (err || (found != -ERANGE && (found || !type || old != new)))
		return err ? err : add(hits, words, text, hit);
	wait = wait_new(hits, event->tid, words);
	if (!wait)
		return -ENOMEM;
	wait->ip = ip;
	wait->type = type;
	if (found == -ERANGE)
		wait->number = part;
	return wait_more(hits, wait, &stretch, text, hit);
}

int watch_hits_settle(struct watch_hits *hits, int is_last)
{
	int err = 0;

	for (size_t i = hits->count; i-- && !err;)
		if (is_last || hits->waits[i].reads++)
			err = give_up(hits, &hits->waits[i]);
	return err;
}

/* ---- one ---- */

static int add_whole(struct watch_hits *hits, const struct wm_event *event, uint64_t flags,
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
int watch_hits_add(struct watch_hits *hits, const struct wm_event *event)
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
